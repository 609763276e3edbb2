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
    number: u32,
    is_growing: bool,
    /// By their sequence.
    chunks: Vec<Chunk>,
    /// The chunk being read, and its next byte to be fetched.
    chunk: usize,
    fetched: u64,
    words: Vec<u64>,
    /// The same as they were read right before, where more may be written meanwhile. A record is there when its first word
    /// is, which was stored last: if that was seen before, all of it is in `words`.
    seen: Vec<u64>,
    at: usize,
    stamp: u64,
    thread: u32,
    slots: Vec<PlaceId>,
    next: Option<Record>,
    /// Chunks that ended at something that is no record, and the last of them.
    damaged: u64,
    last_damaged: Option<usize>,
}

/// One process's records, in order.
pub struct Spool {
    file: File,
    pub header: Header,
    is_growing: bool,
    chunks: Chunks,
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
        Self::open_as(path, false)
    }

    /// Of a process that may be running: more can be read after `look_again`.
    pub fn open_growing(path: &Path) -> io::Result<Option<Self>> {
        Self::open_as(path, true)
    }

    fn open_as(path: &Path, is_growing: bool) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let Some(header) = Header::read_from(&file)? else {
            return Ok(None);
        };
        let mut spool = Self {
            file,
            header,
            is_growing,
            chunks: Chunks::default(),
            lanes: Vec::new(),
            waiting: BinaryHeap::new(),
            current: None,
            tables: Tables::default(),
        };
        spool.tables.has_loads = spool.header.has_loads;
        spool.look_again()?;
        Ok(Some(spool))
    }

    /// Takes note of what has been written since. Nothing is written, nor locked: the process does not notice.
    ///
    /// Records up to a stamp that was taken before this are then complete, but for late ones: whatever had to happen
    /// before a block's allocation was written down before that was stamped. Late is what a thread had stamped and not
    /// written down: an allocation, of which nobody else knows yet, and a realloc with its free, of whose address others
    /// may have written already.
    pub fn look_again(&mut self) -> io::Result<()> {
        if let Some(header) = Header::read_from(&self.file)? {
            self.header = header;
        }
        if let Some(lane) = self.current.take() {
            self.wait(lane);
        }
        let bytes = self.file.metadata()?.len();
        for (number, chunk) in self.chunks.find_new(&self.file, bytes)? {
            let lane = self.lanes.partition_point(|lane| lane.number < number);
            if self
                .lanes
                .get(lane)
                .is_none_or(|found| found.number != number)
            {
                self.add_lane(lane, number);
            }
            self.lanes[lane].add(chunk);
        }
        for lane in 0..self.lanes.len() {
            self.lanes[lane].forget_ahead();
            if self.lanes[lane].next.is_none() {
                self.fetch_record(lane)?;
                self.wait(lane);
            }
        }
        Ok(())
    }

    fn add_lane(&mut self, place: usize, number: u32) {
        self.lanes.insert(place, Lane::new(number, self.is_growing));
        // Lanes are known by their places.
        self.waiting.clear();
        for lane in 0..self.lanes.len() {
            self.wait(lane);
        }
    }

    /// The next record of the process, by the order of stamps.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        self.next_until(u64::MAX)
    }

    /// The same, if it is not later than `last`.
    pub fn next_until(&mut self, last: u64) -> io::Result<Option<Record>> {
        let lane = match self.current {
            Some(lane) => lane,
            None => match self.waiting.pop() {
                Some(Reverse((_, lane))) => lane,
                None => return Ok(None),
            },
        };
        if self.lanes[lane].next.is_some_and(|next| next.stamp > last) {
            self.current = None;
            self.wait(lane);
            return Ok(None);
        }
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

    /// Chunks of which the rest could not be read, so far.
    pub fn damaged_chunks(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.damaged).sum()
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

/// Where chunks begin: at multiples of a step.
#[derive(Default)]
struct Chunks {
    /// What is before this has been looked at; 0: nothing has.
    looked: u64,
    /// Steps of that at which no chunk had been begun, in order: one may be later.
    empty: Vec<u64>,
}

impl Chunks {
    /// Chunks begun since the last look, each with the number of its lane.
    ///
    /// A lane begins its chunks one after the other, each behind the last. One of those before a chunk that is found may
    /// have been begun since its place was looked at: so places are looked at once more, from the last to the first.
    fn find_new(&mut self, file: &File, bytes: u64) -> io::Result<Vec<(u32, Chunk)>> {
        let mut found = Vec::new();
        self.looked = self.looked.max(STEP);
        while self.looked + CHUNK_HEADER <= bytes {
            match read_chunk(file, self.looked, bytes)? {
                Some((lane, chunk)) => {
                    self.looked += chunk.size;
                    found.push((lane, chunk));
                }
                None => {
                    self.empty.push(self.looked);
                    self.looked += STEP;
                }
            }
        }
        let mut late = Vec::new();
        for &offset in self.empty.iter().rev() {
            late.extend(read_chunk(file, offset, bytes)?);
        }
        let mut end = 0;
        for (lane, chunk) in late.into_iter().rev() {
            // Within another one it is something that was written there.
            if chunk.offset >= end {
                end = chunk.offset + chunk.size;
                let own = chunk.offset..end;
                self.empty.retain(|step| !own.contains(step));
                found.push((lane, chunk));
            }
        }
        Ok(found)
    }
}

/// None: no chunk has been begun there.
fn read_chunk(file: &File, offset: u64, bytes: u64) -> io::Result<Option<(u32, Chunk)>> {
    let mut head = [0; CHUNK_HEADER as usize];
    file.read_exact_at(&mut head, offset)?;
    if head[..8] != CHUNK_MAGIC.to_le_bytes() {
        return Ok(None);
    }
    // Its first word is written last.
    file.read_exact_at(&mut head, offset)?;
    let word = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| head[at * 8 + i]));
    let size = word(1);
    let is_chunk = (STEP..=LARGEST_CHUNK).contains(&size)
        && size.is_multiple_of(STEP)
        && offset + size <= bytes;
    let chunk = Chunk {
        offset,
        size,
        sequence: (word(2) >> 32) as u32,
        stamp: word(3),
    };
    Ok(is_chunk.then_some((word(2) as u32, chunk)))
}

impl Lane {
    fn new(number: u32, is_growing: bool) -> Self {
        Self {
            number,
            is_growing,
            chunks: Vec::new(),
            chunk: 0,
            fetched: CHUNK_HEADER,
            seen: Vec::new(),
            words: Vec::new(),
            at: 0,
            stamp: 0,
            thread: 0,
            slots: vec![0; SLOTS],
            next: None,
            damaged: 0,
            last_damaged: None,
        }
    }

    /// Those that are being read, or have been, stay in their places.
    fn add(&mut self, chunk: Chunk) {
        let place = self
            .chunks
            .partition_point(|other| other.sequence <= chunk.sequence);
        let has_begun = self.fetched > CHUNK_HEADER || self.next.is_some() || self.chunk > 0;
        let first = if has_begun { self.chunk + 1 } else { 0 };
        self.chunks
            .insert(place.max(first).min(self.chunks.len()), chunk);
        if !has_begun {
            self.begin_chunk();
        }
    }

    /// What was fetched and not read may have been written since.
    fn forget_ahead(&mut self) {
        self.fetched -= (self.words.len() - self.at) as u64 * 8;
        // Threads may be thousands: nothing is held for them meanwhile.
        (self.words, self.seen) = (Vec::new(), Vec::new());
        self.at = 0;
    }

    fn begin_chunk(&mut self) {
        self.fetched = CHUNK_HEADER;
        self.words.clear();
        self.seen.clear();
        self.at = 0;
        if let Some(chunk) = self.chunks.get(self.chunk) {
            self.stamp = chunk.stamp;
        }
    }

    /// False: no other has been begun yet.
    fn next_chunk(&mut self) -> bool {
        let is_there = self.chunk + 1 < self.chunks.len();
        if is_there {
            self.chunk += 1;
            self.begin_chunk();
        }
        is_there
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
        self.seen.drain(..self.at.min(self.seen.len()));
        self.at = 0;
        let left = (chunk.size - self.fetched) / 8;
        let wanted = (left as usize).min(WINDOW.max(count));
        let mut bytes = vec![0; wanted * 8];
        let before = self.is_growing.then_some(&mut self.seen);
        for words in before.into_iter().chain([&mut self.words]) {
            file.read_exact_at(&mut bytes, chunk.offset + self.fetched)?;
            let read = bytes.as_chunks().0.iter();
            words.extend(read.map(|word| u64::from_le_bytes(*word)));
        }
        self.fetched += bytes.len() as u64;
        Ok(self.words.len() >= count)
    }

    /// The chunk goes on with what is no record. It may be looked at more than once.
    fn end_early(&mut self) {
        if self.last_damaged != Some(self.chunk) {
            self.damaged += 1;
            self.last_damaged = Some(self.chunk);
        }
    }

    /// The next record of this chunk; none at its end, or where it makes no sense any more.
    fn record(&mut self, file: &File, tables: &mut Tables) -> io::Result<Option<Record>> {
        loop {
            if !self.ensure(1, file)? {
                return Ok(None);
            }
            if self.seen.get(self.at) == Some(&0) {
                return Ok(None);
            }
            let word = self.words[self.at];
            let action = match word & 3 {
                1 => {
                    let is_long = word >> 32 == u64::from(u32::MAX);
                    let length = if is_long { 3 } else { 2 };
                    if !self.ensure(length, file)? {
                        self.end_early();
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
                        self.end_early();
                        return Ok(None);
                    }
                    let start = self.at + 1;
                    self.at = start + length;
                    let operand = (word >> 32) as usize;
                    self.other(word >> 2 & 63, operand, start..start + length, tables);
                    continue;
                }
                _ => {
                    if word != 0 {
                        self.end_early();
                    }
                    return Ok(None);
                }
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
pub mod tests {
    use super::*;
    use std::io::Write;

    const ADDRESS_A: u64 = 0x7f00_0000_1000;

    pub fn other(kind: u64, operand: u64, words: &[u64]) -> Vec<u64> {
        let mut out = vec![3 | kind << 2 | (words.len() as u64) << 8 | operand << 32];
        out.extend(words);
        out
    }

    pub fn allocate(step: u64, address: u64, size: u64, slot: u64) -> Vec<u64> {
        let mut out = vec![
            1 | step << 2 | size.min(0xffff_ffff) << 32,
            address | slot << 48,
        ];
        out.extend((size >= 0xffff_ffff).then_some(size));
        out
    }

    pub fn free(step: u64, address: u64) -> Vec<u64> {
        vec![2 | step << 2 | address << 16]
    }

    pub fn chunk(lane: u64, sequence: u64, stamp: u64, records: &[Vec<u64>]) -> Vec<u8> {
        let mut words = vec![CHUNK_MAGIC, STEP, lane | sequence << 32, stamp, 0, 0, 0, 0];
        words.extend(records.iter().flatten());
        words.resize((STEP / 8) as usize, 0);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub fn header() -> Vec<u8> {
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

    fn words(bytes: &mut [u8], at: u64, words: &[u64]) {
        for (place, word) in (at as usize..).step_by(8).zip(words) {
            bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
        }
    }

    fn growing(bytes: &[u8]) -> (tempfile::NamedTempFile, Spool) {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(bytes).expect("written");
        let spool = Spool::open_growing(file.path()).expect("readable");
        (file, spool.expect("a spool"))
    }

    fn grow(file: &tempfile::NamedTempFile, bytes: &[u8], spool: &mut Spool) -> Vec<u64> {
        file.as_file().write_all_at(bytes, 0).expect("written");
        spool.look_again().expect("readable");
        all(spool).iter().map(|record| record.stamp).collect()
    }

    #[test]
    fn a_record_that_is_being_written_is_read_when_it_is_there() {
        let mut bytes = header();
        let chunk_at = bytes.len() as u64;
        let (file, mut spool) = growing(&bytes);
        assert!(all(&mut spool).is_empty());

        // Its first word is written last, be it a chunk's or a record's.
        let begun = chunk(
            0,
            0,
            100,
            &[other(5, 0, &[11]), allocate(5, ADDRESS_A, 24, 3)],
        );
        bytes.extend(&begun);
        words(&mut bytes, chunk_at, &[0]);
        assert!(grow(&file, &bytes, &mut spool).is_empty());
        words(&mut bytes, chunk_at, &[CHUNK_MAGIC]);
        assert_eq!(grow(&file, &bytes, &mut spool), [105]);

        let next = chunk_at + CHUNK_HEADER + 4 * 8;
        let long = allocate(7, ADDRESS_A + 64, 5 << 30, 3);
        words(&mut bytes, next + 8, &long[1..2]);
        assert!(grow(&file, &bytes, &mut spool).is_empty());
        words(&mut bytes, next + 8, &long[1..]);
        assert!(grow(&file, &bytes, &mut spool).is_empty());
        words(&mut bytes, next, &long[..1]);
        assert_eq!(grow(&file, &bytes, &mut spool), [112]);
        assert!(grow(&file, &bytes, &mut spool).is_empty());
    }

    #[test]
    fn a_chunk_may_be_begun_before_another_one_that_is_there() {
        let mut bytes = header();
        let empty = bytes.len() as u64;
        bytes.extend(vec![0; 2 * STEP as usize]);
        bytes.extend(chunk(0, 0, 100, &[allocate(5, ADDRESS_A, 24, 3)]));
        let (file, mut spool) = growing(&bytes);
        assert_eq!(all(&mut spool).len(), 1);
        // One of two steps, whose second holds what looks like a chunk; its lane comes before the other.
        let mut large = chunk(0, 1, 200, &[free(5, ADDRESS_A)]);
        words(&mut large, 8, &[2 * STEP]);
        large.extend(chunk(9, 0, 1, &[free(1, ADDRESS_A)]));
        bytes[empty as usize..][..large.len()].copy_from_slice(&large);
        bytes.extend(chunk(1, 0, 150, &[free(1, ADDRESS_A)]));
        assert_eq!(grow(&file, &bytes, &mut spool), [151, 205]);
    }

    #[test]
    fn nothing_later_than_asked_for_is_read() {
        let (file, mut spool) = growing(&sample());
        let mut stamps = Vec::new();
        for last in [104, 105, 111, 111, 200] {
            while let Some(record) = spool.next_until(last).expect("readable") {
                stamps.push((last, record.stamp));
            }
            spool.look_again().expect("readable");
        }
        assert_eq!(stamps, [(105, 105), (111, 111), (200, 112)]);
        drop(file);
    }

    #[test]
    fn a_file_that_was_cut_off_is_an_error_that_is_survived() {
        let (file, mut spool) = growing(&sample());
        file.as_file().set_len(STEP + 100).expect("shorter");
        assert!(spool.look_again().is_err() || all(&mut spool).is_empty());
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

    /// As where the program has written into the recorder's mapping: what is before is read, and the next chunk.
    #[test]
    fn a_chunk_that_ends_at_no_record_is_counted() {
        let mut bytes = header();
        let no_record = vec![0x1234 << 2];
        let lost = allocate(1, ADDRESS_A, 24, 3);
        bytes.extend(chunk(0, 0, 100, &[free(5, 0x1000), no_record, lost]));
        bytes.extend(chunk(0, 1, 200, &[free(5, 0x1000)]));
        let mut spool = open(&bytes).expect("a spool");
        assert_eq!(all(&mut spool).len(), 2);
        assert_eq!(spool.damaged_chunks(), 1);
        spool.look_again().expect("readable");
        assert_eq!(spool.damaged_chunks(), 1);
        let mut whole = open(&sample()).expect("a spool");
        all(&mut whole);
        assert_eq!(whole.damaged_chunks(), 0);
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
