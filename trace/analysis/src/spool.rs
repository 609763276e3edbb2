//! What the recorder's library leaves behind: core/src/record/spool.h describes the layout. Nothing here is
//! trusted: a process may have been killed, or have written into our mappings.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::stacks::Stacks;
use super::stop::Stop;

const MAGIC: u64 = u64::from_le_bytes(*b"PWSPOOL1");
const CHUNK_MAGIC: u64 = u64::from_le_bytes(*b"PWCHUNK1");
const VERSION: u32 = 3;
const STEP: u64 = 64 << 10;
const LARGEST_CHUNK: u64 = 1 << 20;
const CHUNK_HEADER: u64 = 64;
const HEADER: usize = 4096;
const ALLOCATOR: usize = 3192;
const SETTINGS: usize = ALLOCATOR + 512;
const SLOTS: usize = 1024;
const ADDRESS: u64 = (1 << 48) - 1;
/// Words of a chunk in memory at a time: programs may have thousands of threads.
const WINDOW: usize = 4096;
/// Sites by return address and depth, and stacks: more than any program has, fewer than memory holds.
const MAX_PLACES: usize = 1 << 20;
const MAX_MODULES: usize = 1 << 16;
const MAX_FRAMES: usize = 256;

#[derive(Clone, Debug)]
pub struct Header {
    pub process: u32,
    /// The process that had started it.
    pub parent: u32,
    pub stop: Option<Stop>,
    pub sample_bytes: u64,
    /// How stacks were found; None: sites are no stacks.
    pub stacks: Option<Stacks>,
    pub start_stamp: u64,
    pub start_ns: u64,
    pub start_real_ns: u64,
    pub end_stamp: u64,
    pub end_ns: u64,
    pub dropped_allocations: u64,
    pub dropped_frees: u64,
    pub has_ended: bool,
    pub program: String,
    pub command: String,
    /// The first word of the command.
    pub name: String,
    /// Sites whose modules the recorder could not keep.
    pub lost_modules: u64,
    /// Children that could not begin a recording of their own.
    pub lost_children: u64,
    /// The file of the malloc behind the recorder, and what it finds in the environment; empty where older recorders
    /// did not tell.
    pub allocator: String,
    pub settings: Vec<String>,
    /// Modules are told apart by loads, not by the time.
    has_loads: bool,
}

impl Header {
    /// None: the file is no spool.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        Self::read_from(&File::open(path)?)
    }

    fn read_from(file: &File) -> io::Result<Option<Self>> {
        if file.metadata()?.len() < HEADER as u64 {
            return Ok(None);
        }
        let mut page = vec![0; HEADER];
        file.read_exact_at(&mut page, 0)?;
        Ok(Self::parse(&page))
    }

    /// None: this is not a spool file, or its process had not come far enough.
    fn parse(page: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| page[at + i]));
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u64_at(0) != MAGIC || !(1..=VERSION).contains(&u32_at(8)) {
            return None;
        }
        let command = &page[104 + 1024..104 + 1024 + 2048];
        Some(Self {
            stop: match u32_at(12) {
                0 => None,
                1 => Some(Stop::Room),
                3 => Some(Stop::Memory),
                4 => Some(Stop::StrictMode),
                5 => Some(Stop::Filter(u32_at(36))),
                _ => Some(Stop::File(u32_at(36) as i32)),
            },
            process: u32_at(16),
            parent: u32_at(20),
            sample_bytes: u64_at(24),
            stacks: match u32_at(32) {
                0 => None,
                1 => Some(Stacks::FramePointers),
                _ => Some(Stacks::Tables),
            },
            start_stamp: u64_at(40),
            start_ns: u64_at(48),
            start_real_ns: u64_at(56),
            end_stamp: u64_at(64),
            end_ns: u64_at(72),
            dropped_allocations: u64_at(80),
            dropped_frees: u64_at(88),
            has_ended: u64_at(96) != 0,
            program: text_of(&page[104..104 + 1024]),
            command: texts_of(command).join(" "),
            name: text_of(command),
            lost_modules: u64_at(3176),
            lost_children: u64_at(3184),
            allocator: text_of(&page[ALLOCATOR..SETTINGS]),
            settings: texts_of(&page[SETTINGS..SETTINGS + 256]),
            has_loads: u32_at(8) > 1,
        })
    }
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn texts_of(bytes: &[u8]) -> Vec<String> {
    let texts = bytes
        .split(|&byte| byte == 0)
        .filter(|text| !text.is_empty());
    texts
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

/// A program or library that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub start: u64,
    pub end: u64,
    /// What was added to its file's addresses.
    pub bias: u64,
    /// Its number, or in spools of version 1 the time when it was seen.
    pub load: u64,
    pub build_id: String,
    pub path: String,
}

/// A return address, and the load of the module that it was in, 0 where none is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Return {
    pub address: u64,
    pub load: u32,
}

/// Where allocations come from: a return address with a stack depth, or a whole stack, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Caller { at: Return, depth: u16 },
    Stack(Box<[Return]>),
}

/// Number of a place; 0 is one that is not known.
pub type PlaceId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Allocate {
        address: u64,
        size: u64,
        place: PlaceId,
        /// A multiple of 2 to this power was asked for; 0: none.
        alignment: u8,
    },
    Free {
        address: u64,
        /// The lane's next allocation is what the block becomes.
        is_resized: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub stamp: u64,
    /// The kernel's number of the thread.
    pub thread: u32,
    pub action: Action,
}

struct Chunk {
    offset: u64,
    size: u64,
    sequence: u32,
    stamp: u64,
}

/// The chunks that one thread after another has written.
struct Lane {
    chunks: Vec<Chunk>,
    /// The chunk being read, and its next byte to be fetched.
    chunk: usize,
    fetched: u64,
    words: Vec<u64>,
    at: usize,
    stamp: u64,
    thread: u32,
    slots: Vec<PlaceId>,
    next: Option<Record>,
}

/// One process's records, in order.
pub struct Spool {
    file: File,
    pub header: Header,
    lanes: Vec<Lane>,
    /// (stamp of its next record, lane), smallest first.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    current: Option<usize>,
    pub tables: Tables,
}

/// What records refer to; it grows as they are read.
#[derive(Default)]
pub struct Tables {
    pub modules: Vec<Module>,
    places: Vec<(Place, u64)>,
    numbers: FxHashMap<Place, PlaceId>,
    has_loads: bool,
}

impl Tables {
    /// A place, and when it was first seen.
    pub fn place(&self, id: PlaceId) -> Option<&(Place, u64)> {
        self.places.get((id as usize).checked_sub(1)?)
    }

    fn number(&mut self, place: Place, stamp: u64) -> PlaceId {
        if let Some(&number) = self.numbers.get(&place) {
            return number;
        }
        if self.places.len() >= MAX_PLACES {
            return 0;
        }
        self.places.push((place.clone(), stamp));
        let number = self.places.len() as PlaceId;
        self.numbers.insert(place, number);
        number
    }

    /// The module in which an address lay. `seen`: when, for spools that do not know loads.
    pub fn module_of(&self, at: Return, seen: u64) -> Option<&Module> {
        let contains = |module: &&Module| (module.start..module.end).contains(&at.address);
        let mut loaded = self.modules.iter().filter(contains);
        if self.has_loads {
            return loaded.find(|module| module.load == u64::from(at.load));
        }
        loaded
            .clone()
            .filter(|module| module.load <= seen)
            .max_by_key(|module| module.load)
            .or_else(|| loaded.min_by_key(|module| module.load))
    }
}

impl Spool {
    /// None: the file is no spool.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let Some(header) = Header::read_from(&file)? else {
            return Ok(None);
        };
        let bytes = file.metadata()?.len();
        let lanes = find_lanes(&file, bytes)?;
        let mut spool = Self {
            file,
            header,
            lanes,
            waiting: BinaryHeap::new(),
            current: None,
            tables: Tables::default(),
        };
        spool.tables.has_loads = spool.header.has_loads;
        for lane in 0..spool.lanes.len() {
            spool.fetch_record(lane)?;
            spool.wait(lane);
        }
        Ok(Some(spool))
    }

    /// The next record of the process, by the order of stamps.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        let lane = match self.current {
            Some(lane) => lane,
            None => match self.waiting.pop() {
                Some(Reverse((_, lane))) => lane,
                None => return Ok(None),
            },
        };
        let record = self.lanes[lane].next.take();
        self.fetch_record(lane)?;
        // A lane goes on for as long as no other has something earlier.
        let other = self.waiting.peek().map(|Reverse((stamp, _))| *stamp);
        self.current = match (&self.lanes[lane].next, other) {
            (Some(next), Some(other)) if next.stamp > other => {
                self.wait(lane);
                None
            }
            (Some(_), _) => Some(lane),
            (None, _) => None,
        };
        Ok(record)
    }

    fn wait(&mut self, lane: usize) {
        if let Some(next) = &self.lanes[lane].next {
            self.waiting.push(Reverse((next.stamp, lane)));
        }
    }

    fn fetch_record(&mut self, lane: usize) -> io::Result<()> {
        let lane = &mut self.lanes[lane];
        loop {
            if let Some(record) = lane.record(&self.file, &mut self.tables)? {
                lane.next = Some(record);
                return Ok(());
            }
            if !lane.next_chunk() {
                lane.next = None;
                return Ok(());
            }
        }
    }
}

/// Chunks begin at multiples of a step; those that were never begun are passed over.
fn find_lanes(file: &File, bytes: u64) -> io::Result<Vec<Lane>> {
    let mut lanes: FxHashMap<u32, Vec<Chunk>> = FxHashMap::default();
    let mut offset = STEP;
    while offset + CHUNK_HEADER <= bytes {
        let mut head = [0; CHUNK_HEADER as usize];
        file.read_exact_at(&mut head, offset)?;
        let word =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| head[at * 8 + i]));
        let size = word(1);
        let is_chunk = word(0) == CHUNK_MAGIC
            && (STEP..=LARGEST_CHUNK).contains(&size)
            && size.is_multiple_of(STEP)
            && offset + size <= bytes;
        if !is_chunk {
            offset += STEP;
            continue;
        }
        lanes.entry(word(2) as u32).or_default().push(Chunk {
            offset,
            size,
            sequence: (word(2) >> 32) as u32,
            stamp: word(3),
        });
        offset += size;
    }
    let mut lanes: Vec<(u32, Vec<Chunk>)> = lanes.into_iter().collect();
    lanes.sort_by_key(|(number, _)| *number);
    Ok(lanes
        .into_iter()
        .map(|(_, chunks)| Lane::new(chunks))
        .collect())
}

impl Lane {
    fn new(mut chunks: Vec<Chunk>) -> Self {
        chunks.sort_by_key(|chunk| chunk.sequence);
        let mut lane = Self {
            chunks,
            chunk: 0,
            fetched: 0,
            words: Vec::new(),
            at: 0,
            stamp: 0,
            thread: 0,
            slots: vec![0; SLOTS],
            next: None,
        };
        lane.begin_chunk();
        lane
    }

    fn begin_chunk(&mut self) {
        self.fetched = CHUNK_HEADER;
        self.words.clear();
        self.at = 0;
        if let Some(chunk) = self.chunks.get(self.chunk) {
            self.stamp = chunk.stamp;
        }
    }

    fn next_chunk(&mut self) -> bool {
        self.chunk += 1;
        self.begin_chunk();
        self.chunk < self.chunks.len()
    }

    /// Makes `count` words available from `self.at`. False: the chunk ends before.
    fn ensure(&mut self, count: usize, file: &File) -> io::Result<bool> {
        if self.words.len() - self.at >= count {
            return Ok(true);
        }
        let Some(chunk) = self.chunks.get(self.chunk) else {
            return Ok(false);
        };
        self.words.drain(..self.at);
        self.at = 0;
        let left = (chunk.size - self.fetched) / 8;
        let wanted = (left as usize).min(WINDOW.max(count));
        let mut bytes = vec![0; wanted * 8];
        file.read_exact_at(&mut bytes, chunk.offset + self.fetched)?;
        self.fetched += bytes.len() as u64;
        let words = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        self.words.extend(words);
        Ok(self.words.len() >= count)
    }

    /// The next record of this chunk; none at its end, or where it makes no sense any more.
    fn record(&mut self, file: &File, tables: &mut Tables) -> io::Result<Option<Record>> {
        loop {
            if !self.ensure(1, file)? {
                return Ok(None);
            }
            let word = self.words[self.at];
            let action = match word & 3 {
                1 => {
                    let is_long = word >> 32 == u64::from(u32::MAX);
                    let length = if is_long { 3 } else { 2 };
                    if !self.ensure(length, file)? {
                        return Ok(None);
                    }
                    let second = self.words[self.at + 1];
                    let size = if is_long {
                        self.words[self.at + 2]
                    } else {
                        word >> 32
                    };
                    self.at += length;
                    self.stamp = self.stamp.wrapping_add(word >> 2 & ((1 << 30) - 1));
                    Action::Allocate {
                        address: second & ADDRESS,
                        size,
                        place: self.slots[(second >> 48) as usize % SLOTS],
                        alignment: (second >> 58) as u8,
                    }
                }
                2 => {
                    self.at += 1;
                    self.stamp = self.stamp.wrapping_add(word >> 2 & ((1 << 14) - 1));
                    Action::Free {
                        address: word >> 16 & !1,
                        is_resized: word >> 16 & 1 != 0,
                    }
                }
                3 => {
                    let length = (word >> 8 & 0xff_ffff) as usize;
                    if length > STEP as usize || !self.ensure(length + 1, file)? {
                        return Ok(None);
                    }
                    let start = self.at + 1;
                    self.at = start + length;
                    let operand = (word >> 32) as usize;
                    self.other(word >> 2 & 63, operand, start..start + length, tables);
                    continue;
                }
                _ => return Ok(None),
            };
            return Ok(Some(Record {
                stamp: self.stamp,
                thread: self.thread,
                action,
            }));
        }
    }

    fn other(
        &mut self,
        kind: u64,
        operand: usize,
        words: std::ops::Range<usize>,
        tables: &mut Tables,
    ) {
        let words = &self.words[words];
        match (kind, words) {
            (1, &[stamp]) => self.stamp = stamp,
            (2, &[key]) => {
                let place = Place::Caller {
                    at: Return {
                        address: key & ADDRESS,
                        load: (operand / SLOTS) as u32,
                    },
                    depth: (key >> 48) as u16,
                };
                self.slots[operand % SLOTS] = tables.number(place, self.stamp);
            }
            (3, stack) if stack.len() <= MAX_FRAMES => {
                let returns = stack.iter().map(|&word| Return {
                    address: word & ADDRESS,
                    load: (word >> 48) as u32,
                });
                let place = Place::Stack(returns.collect());
                self.slots[operand % SLOTS] = tables.number(place, self.stamp);
            }
            (4, &[start, end, bias, load, ref text @ ..]) if tables.modules.len() < MAX_MODULES => {
                let bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
                let (id, path) = bytes.split_at(operand.min(bytes.len()));
                tables.modules.push(Module {
                    start,
                    end,
                    bias,
                    load,
                    build_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
                    path: text_of(path),
                });
            }
            (5, &[thread]) => self.thread = thread as u32,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const ADDRESS_A: u64 = 0x7f00_0000_1000;

    fn other(kind: u64, operand: u64, words: &[u64]) -> Vec<u64> {
        let mut out = vec![3 | kind << 2 | (words.len() as u64) << 8 | operand << 32];
        out.extend(words);
        out
    }

    fn allocate(step: u64, address: u64, size: u64, slot: u64) -> Vec<u64> {
        let mut out = vec![
            1 | step << 2 | size.min(0xffff_ffff) << 32,
            address | slot << 48,
        ];
        out.extend((size >= 0xffff_ffff).then_some(size));
        out
    }

    fn free(step: u64, address: u64) -> Vec<u64> {
        vec![2 | step << 2 | address << 16]
    }

    fn chunk(lane: u64, sequence: u64, stamp: u64, records: &[Vec<u64>]) -> Vec<u8> {
        let mut words = vec![CHUNK_MAGIC, STEP, lane | sequence << 32, stamp, 0, 0, 0, 0];
        words.extend(records.iter().flatten());
        words.resize((STEP / 8) as usize, 0);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn header() -> Vec<u8> {
        let mut page = vec![0; STEP as usize];
        page[..8].copy_from_slice(&MAGIC.to_le_bytes());
        page[8] = VERSION as u8;
        page[16] = 42;
        page[104..108].copy_from_slice(b"/bin");
        page[1128..1134].copy_from_slice(b"a\0b c\0");
        page
    }

    /// Two lanes; the second frees what the first has allocated.
    fn sample() -> Vec<u8> {
        let place = 0x1000 | 7 << 48;
        let path = u64::from_le_bytes(*b"\xab\xcd/x\0\0\0\0");
        let mut bytes = header();
        bytes.extend(chunk(
            0,
            0,
            100,
            &[
                other(5, 0, &[11]),
                other(4, 2, &[0x1000, 0x2000, 0x400, 1, path]),
                other(2, 3 | 1 << 10, &[place]),
                allocate(5, ADDRESS_A, 24, 3),
            ],
        ));
        bytes.extend(vec![0; STEP as usize]); // a chunk that was never begun
        bytes.extend(chunk(
            1,
            0,
            90,
            &[other(5, 0, &[12]), other(1, 0, &[110]), free(1, ADDRESS_A)],
        ));
        bytes.extend(chunk(0, 1, 105, &[allocate(7, ADDRESS_A, 5 << 30, 3)]));
        bytes
    }

    fn open(bytes: &[u8]) -> Option<Spool> {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(bytes).expect("written");
        Spool::open(file.path()).expect("readable")
    }

    fn all(spool: &mut Spool) -> Vec<Record> {
        let mut records = Vec::new();
        while let Some(record) = spool.next_record().expect("readable") {
            records.push(record);
        }
        records
    }

    #[test]
    fn lanes_are_merged_by_their_stamps() {
        let mut spool = open(&sample()).expect("a spool");
        assert_eq!(spool.header.process, 42);
        assert_eq!(spool.header.command, "a b c");
        let records = all(&mut spool);
        let actions: Vec<(u64, u32, Action)> = records
            .iter()
            .map(|record| (record.stamp, record.thread, record.action))
            .collect();
        let allocate = |size| Action::Allocate {
            address: ADDRESS_A,
            size,
            place: 1,
            alignment: 0,
        };
        let free = Action::Free {
            address: ADDRESS_A,
            is_resized: false,
        };
        assert_eq!(
            actions,
            [
                (105, 11, allocate(24)),
                (111, 12, free),
                (112, 11, allocate(5 << 30))
            ]
        );
        let at = Return {
            address: 0x1000,
            load: 1,
        };
        let (place, stamp) = spool.tables.place(1).expect("known");
        assert_eq!((place, *stamp), (&Place::Caller { at, depth: 7 }, 100));
        let module = spool.tables.module_of(at, 0).expect("known");
        assert_eq!(
            (module.path.as_str(), module.build_id.as_str()),
            ("/x", "abcd")
        );
        let beyond = Return {
            address: 0x2000,
            load: 1,
        };
        assert_eq!(spool.tables.module_of(beyond, 0), None);
        assert_eq!(spool.tables.place(0), None);
    }

    #[test]
    fn an_allocator_is_known_where_the_recorder_told() {
        let older = open(&header()).expect("a spool").header;
        assert_eq!((older.allocator.as_str(), older.settings.len()), ("", 0));
        let mut page = header();
        page[ALLOCATOR..ALLOCATOR + 6].copy_from_slice(b"/x.so\0");
        page[SETTINGS..SETTINGS + 8].copy_from_slice(b"A=1\0B=2\0");
        let newer = open(&page).expect("a spool").header;
        assert_eq!(newer.allocator, "/x.so");
        assert_eq!(newer.settings, ["A=1", "B=2"]);
        page[ALLOCATOR..ALLOCATOR + 512].fill(b'x');
        page[SETTINGS..SETTINGS + 256].fill(b'y');
        let damaged = open(&page).expect("a spool").header;
        assert_eq!(damaged.allocator.len(), 512);
        assert_eq!(damaged.settings, ["y".repeat(256)]);
    }

    #[test]
    fn other_files_are_none() {
        assert!(open(b"").is_none());
        assert!(open(&[0; 70_000]).is_none());
        let mut later = header();
        later[8] = VERSION as u8 + 1;
        assert!(open(&later).is_none());
    }

    /// The second module is where the first one was; a recording may have been kept by an older pagewise.
    #[test]
    fn a_modules_place_may_become_anothers() {
        let path = |name: &[u8; 8]| u64::from_le_bytes(*name);
        for version in [1, VERSION] {
            let load = |number: u64, stamp: u64| if version == 1 { stamp } else { number };
            let site = |number: u64| if version == 1 { 3 } else { 3 | number << 10 };
            let mut bytes = header();
            bytes[8] = version as u8;
            bytes.extend(chunk(
                0,
                0,
                100,
                &[
                    other(
                        4,
                        0,
                        &[0x1000, 0x2000, 0, load(1, 100), path(b"/a\0\0\0\0\0\0")],
                    ),
                    other(2, site(1), &[0x1100 | 1 << 48]),
                    allocate(5, ADDRESS_A, 24, 3),
                    other(
                        4,
                        0,
                        &[0x1000, 0x2000, 0, load(2, 105), path(b"/b\0\0\0\0\0\0")],
                    ),
                    other(2, site(2), &[0x1100 | 2 << 48]),
                    allocate(5, ADDRESS_A + 16, 24, 3),
                ],
            ));
            let mut spool = open(&bytes).expect("a spool");
            let found: Vec<String> = all(&mut spool)
                .iter()
                .map(|record| {
                    let Action::Allocate { place, .. } = record.action else {
                        panic!("{record:?}");
                    };
                    let (place, seen) = spool.tables.place(place).expect("known");
                    let Place::Caller { at, .. } = place else {
                        panic!("{place:?}");
                    };
                    let module = spool.tables.module_of(*at, *seen).expect("known");
                    module.path.clone()
                })
                .collect();
            assert_eq!(found, ["/a", "/b"], "version {version}");
        }
    }

    #[test]
    fn a_damaged_spool_is_survived() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let whole = sample();
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..8) {
                let near = STEP as usize * random.usize(..5);
                let at = near + random.usize(..256);
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..bytes.len() * 2).min(bytes.len()));
            if let Some(mut spool) = open(&bytes) {
                // No word is read twice.
                assert!(all(&mut spool).len() <= bytes.len() / 8);
            }
        }
    }
}
