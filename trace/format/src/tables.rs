//! The site table, with the strings, modules and frames that it refers to.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::Hash;
use std::sync::Arc;

use super::block::{Kind, MAX_PAYLOAD};
use super::error::{Error, Result};
use super::event::SiteId;
use super::library_names::is_of_library;
use super::limits::MAX_RECORDS;
use super::properties::{expect_end, put_text, text};
use super::varint::{self, Cursor};

pub const MAX_FRAMES_OF_A_SITE: usize = 256;
/// Of all tables in memory, roughly.
const MAX_MEMORY: usize = 256 << 20;

/// 0: not known.
pub type FrameId = u32;
/// 0: not known.
pub type ModuleId = u32;
/// 0: not known.
type StringId = u32;

/// The module of code that a program has made while it ran.
pub const JIT: &str = "[jit]";

/// A program or shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Module<'a> {
    pub path: &'a str,
    /// In hexadecimal; empty where not known.
    pub build_id: &'a str,
}

/// A place in a program. Texts are empty, and numbers 0, where nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame<'a> {
    pub module: Module<'a>,
    pub offset: u64,
    pub symbol: &'a str,
    pub file: &'a str,
    pub line: u32,
}

/// What is known about an allocation site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site<'a> {
    /// The type of its objects; empty where not known.
    pub kind: &'a str,
    pub depth: Option<u64>,
    /// Its largest size, in bytes.
    pub size_class: Option<u64>,
    /// Innermost first.
    pub frames: Vec<Frame<'a>>,
}

impl<'a> Site<'a> {
    /// Its frames from the first that is the program's on: before it are `operator new`, containers and the like, or the
    /// interpreter of a script. All, where no other is known.
    pub fn own_frames(&self) -> &[Frame<'a>] {
        let find = |is: fn(&Frame) -> bool| self.frames.iter().position(is);
        let own = find(|frame| frame.is_of_script() && !frame.is_of_runtime())
            .or_else(|| find(|frame| frame.is_of_script()))
            .or_else(|| find(|frame| !frame.is_of_library()));
        &self.frames[own.unwrap_or(0)..]
    }
}

impl Frame<'_> {
    /// Is it a function of a script, whose interpreter or compiler has told its file?
    pub fn is_of_script(&self) -> bool {
        self.module.path == JIT && !self.file.is_empty()
    }

    /// Is it a script that the language's runtime brings along, and works through whatever the program does?
    fn is_of_runtime(&self) -> bool {
        RUNTIMES.iter().any(|start| self.file.starts_with(start))
    }

    fn is_of_library(&self) -> bool {
        match self.symbol {
            "" => LIBRARIES
                .iter()
                .any(|name| base_name(self.module.path).starts_with(name)),
            symbol => is_of_library(symbol),
        }
    }
}

/// Beginnings of files: Python's imports, and node's own modules.
const RUNTIMES: [&str; 2] = ["<frozen importlib.", "node:"];

/// C++'s, some of whose functions have no names.
const LIBRARIES: [&str; 2] = ["libstdc++.so", "libc++.so"];

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct ModuleRecord {
    path: StringId,
    build_id: StringId,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct FrameRecord {
    module: ModuleId,
    offset: u64,
    symbol: StringId,
    file: StringId,
    line: u32,
}

#[derive(Clone, Copy, Default)]
struct SiteRecord {
    kind: StringId,
    depth: u64,
    size_class: u64,
    /// Where the site's frames begin in `frame_lists`, and how many there are.
    frames: (u32, u32),
}

/// What is known about the sites of a trace. To read one: [`SiteTable::get`]. To make one: [`SiteTable::add`].
#[derive(Default)]
pub struct SiteTable {
    strings: Vec<Arc<str>>,
    modules: Vec<ModuleRecord>,
    frames: Vec<FrameRecord>,
    sites: Vec<SiteRecord>,
    frame_lists: Vec<FrameId>,
    memory: usize,
    string_numbers: HashMap<Arc<str>, StringId>,
    module_numbers: HashMap<ModuleRecord, ModuleId>,
    frame_numbers: HashMap<FrameRecord, FrameId>,
}

impl SiteTable {
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of sites described. Events may use others, of which nothing is known.
    pub fn len(&self) -> usize {
        self.sites.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// For each of these sites its number in another table, if it is there: what is known about both is the same.
    pub fn numbers_in(&self, other: &Self) -> Vec<Option<SiteId>> {
        let mut numbers = Numbers::default();
        let mut known: HashMap<SiteKey, SiteId> = HashMap::new();
        for (site, key) in (0..).zip(numbers.keys(other)) {
            known.entry(key).or_insert(site);
        }
        let number = |key| known.get(&key).copied();
        numbers.keys(self).map(number).collect()
    }

    pub fn get(&self, site: SiteId) -> Option<Site<'_>> {
        let record = self.sites.get(site as usize)?;
        Some(Site {
            kind: self.string(record.kind),
            depth: record.depth.checked_sub(1),
            size_class: record.size_class.checked_sub(1),
            frames: self
                .frames_of(record)
                .iter()
                .map(|&id| self.frame(id))
                .collect(),
        })
    }

    /// The numbers of a site's frames, innermost first: equal frames have equal numbers.
    pub fn frame_ids(&self, site: SiteId) -> &[FrameId] {
        self.sites
            .get(site as usize)
            .map_or(&[], |record| self.frames_of(record))
    }

    pub fn frame(&self, id: FrameId) -> Frame<'_> {
        let found = (id as usize)
            .checked_sub(1)
            .and_then(|index| self.frames.get(index));
        found.map_or_else(Frame::default, |record| Frame {
            module: self.module(record.module),
            offset: record.offset,
            symbol: self.string(record.symbol),
            file: self.string(record.file),
            line: record.line,
        })
    }

    /// Where a site is, in one line: "make_list (list.c:12)".
    pub fn describe_place(&self, site: SiteId) -> String {
        let known = self.get(site).unwrap_or_default();
        let frame = known.own_frames().first().map(ToString::to_string);
        match (known.kind, frame) {
            ("", Some(frame)) => frame,
            ("", None) => format!("site {site}"),
            (kind, Some(frame)) => format!("{kind} in {frame}"),
            (kind, None) => kind.to_owned(),
        }
    }

    /// A site in one line: "make_list (list.c:12), class 32, depth 3".
    pub fn describe(&self, site: SiteId) -> String {
        let mut line = self.describe_place(site);
        let known = self.get(site).unwrap_or_default();
        if let Some(class) = known.size_class {
            let _ = write!(line, ", class {class}");
        }
        if let Some(depth) = known.depth {
            let _ = write!(line, ", depth {depth}");
        }
        line
    }

    /// Adds a site, and what it refers to, and returns its number: sites are numbered in the order of
    /// these calls. Frames after the 256th are left out.
    pub fn add(&mut self, site: &Site) -> Result<SiteId> {
        let kind = self.intern(site.kind)?;
        let start = self.frame_lists.len() as u32;
        let count = site.frames.len().min(MAX_FRAMES_OF_A_SITE);
        for frame in &site.frames[..count] {
            let id = self.intern_frame(frame)?;
            self.frame_lists.push(id);
        }
        let number = self.sites.len() as SiteId;
        self.push_site(SiteRecord {
            kind,
            depth: site.depth.map_or(0, |depth| depth.saturating_add(1)),
            size_class: site.size_class.map_or(0, |class| class.saturating_add(1)),
            frames: (start, count as u32),
        })
        .map_err(|what| Error::Invalid(what.into()))?;
        Ok(number)
    }

    fn frames_of(&self, record: &SiteRecord) -> &[FrameId] {
        let (start, count) = (record.frames.0 as usize, record.frames.1 as usize);
        &self.frame_lists[start..start + count]
    }

    fn string(&self, id: StringId) -> &str {
        let found = (id as usize)
            .checked_sub(1)
            .and_then(|index| self.strings.get(index));
        found.map_or("", |text| text)
    }

    fn module(&self, id: ModuleId) -> Module<'_> {
        let found = (id as usize)
            .checked_sub(1)
            .and_then(|index| self.modules.get(index));
        found.map_or_else(Module::default, |record| Module {
            path: self.string(record.path),
            build_id: self.string(record.build_id),
        })
    }

    fn intern(&mut self, text: &str) -> Result<StringId> {
        if text.is_empty() {
            return Ok(0);
        }
        if let Some(&number) = self.string_numbers.get(text) {
            return Ok(number);
        }
        let text: Arc<str> = text.into();
        self.push_string(Arc::clone(&text)).map_err(invalid)?;
        let number = self.strings.len() as StringId;
        self.string_numbers.insert(text, number);
        Ok(number)
    }

    fn intern_module(&mut self, module: &Module) -> Result<ModuleId> {
        if *module == Module::default() {
            return Ok(0);
        }
        let record = ModuleRecord {
            path: self.intern(module.path)?,
            build_id: self.intern(module.build_id)?,
        };
        if let Some(&number) = self.module_numbers.get(&record) {
            return Ok(number);
        }
        self.push_module(record).map_err(invalid)?;
        let number = self.modules.len() as ModuleId;
        self.module_numbers.insert(record, number);
        Ok(number)
    }

    fn intern_frame(&mut self, frame: &Frame) -> Result<FrameId> {
        let record = FrameRecord {
            module: self.intern_module(&frame.module)?,
            offset: frame.offset,
            symbol: self.intern(frame.symbol)?,
            file: self.intern(frame.file)?,
            line: frame.line,
        };
        if let Some(&number) = self.frame_numbers.get(&record) {
            return Ok(number);
        }
        self.push_frame(record).map_err(invalid)?;
        let number = self.frames.len() as FrameId;
        self.frame_numbers.insert(record, number);
        Ok(number)
    }

    fn push_string(&mut self, text: Arc<str>) -> Result<(), &'static str> {
        self.count(text.len() + 48, self.strings.len())?;
        self.strings.push(text);
        Ok(())
    }

    fn push_module(&mut self, record: ModuleRecord) -> Result<(), &'static str> {
        self.count(size_of::<ModuleRecord>(), self.modules.len())?;
        self.modules.push(record);
        Ok(())
    }

    fn push_frame(&mut self, record: FrameRecord) -> Result<(), &'static str> {
        self.count(size_of::<FrameRecord>(), self.frames.len())?;
        self.frames.push(record);
        Ok(())
    }

    fn push_site(&mut self, record: SiteRecord) -> Result<(), &'static str> {
        let lists = record.frames.1 as usize * size_of::<FrameId>();
        self.count(size_of::<SiteRecord>() + lists, self.sites.len())?;
        self.sites.push(record);
        Ok(())
    }

    fn count(&mut self, bytes: usize, records: usize) -> Result<(), &'static str> {
        self.memory += bytes;
        if self.memory > MAX_MEMORY || records >= MAX_RECORDS as usize {
            return Err("the tables are larger than the format allows");
        }
        Ok(())
    }
}

/// Numbers that are the same for equal texts, modules and frames of several tables: no more is written out of a table than it holds.
#[derive(Default)]
struct Numbers<'a> {
    strings: HashMap<&'a str, u32>,
    modules: HashMap<ModuleRecord, u32>,
    frames: HashMap<FrameRecord, u32>,
}

/// All that is known about a site, in such numbers.
#[derive(PartialEq, Eq, Hash)]
struct SiteKey {
    kind: u32,
    depth: u64,
    size_class: u64,
    frames: Box<[u32]>,
}

impl<'a> Numbers<'a> {
    /// Of each site in turn.
    fn keys(&mut self, table: &'a SiteTable) -> impl Iterator<Item = SiteKey> + use<'a> {
        let mut strings = Vec::with_capacity(table.strings.len());
        for text in &table.strings {
            strings.push(number_of(&mut self.strings, &**text));
        }
        let mut modules = Vec::with_capacity(table.modules.len());
        for module in &table.modules {
            let record = ModuleRecord {
                path: at(&strings, module.path),
                build_id: at(&strings, module.build_id),
            };
            modules.push(number_of(&mut self.modules, record));
        }
        let mut frames = Vec::with_capacity(table.frames.len());
        for frame in &table.frames {
            let record = FrameRecord {
                module: at(&modules, frame.module),
                symbol: at(&strings, frame.symbol),
                file: at(&strings, frame.file),
                ..*frame
            };
            frames.push(number_of(&mut self.frames, record));
        }
        table.sites.iter().map(move |site| SiteKey {
            kind: at(&strings, site.kind),
            depth: site.depth,
            size_class: site.size_class,
            frames: table
                .frames_of(site)
                .iter()
                .map(|&id| at(&frames, id))
                .collect(),
        })
    }
}

/// 0 is what nothing is known of, as in a table.
fn number_of<K: Default + Eq + Hash>(known: &mut HashMap<K, u32>, key: K) -> u32 {
    if key == K::default() {
        return 0;
    }
    let next = known.len() as u32 + 1;
    *known.entry(key).or_insert(next)
}

fn at(numbers: &[u32], id: u32) -> u32 {
    let index = (id as usize).checked_sub(1);
    index
        .and_then(|index| numbers.get(index))
        .map_or(0, |number| *number)
}

fn invalid(what: &'static str) -> Error {
    Error::Invalid(what.into())
}

// --- reading ---------------------------------------------------------------------

impl SiteTable {
    /// Adds the part of a table that a block of this kind holds.
    pub(super) fn decode(
        &mut self,
        kind: Kind,
        first: u64,
        records: u32,
        payload: &[u8],
        offset: u64,
    ) -> Result<()> {
        let next = match kind {
            Kind::Strings => self.strings.len() + 1,
            Kind::Modules => self.modules.len() + 1,
            Kind::Frames => self.frames.len() + 1,
            _ => self.sites.len(),
        };
        if first != next as u64 {
            return Err(Error::damaged(offset, "a part of a table is missing"));
        }
        let mut cursor = Cursor::new(payload);
        for _ in 0..records {
            match kind {
                Kind::Strings => self.push_string(text(&mut cursor, offset)?.into()),
                Kind::Modules => self.module_record(&mut cursor),
                Kind::Frames => self.frame_record(&mut cursor),
                _ => self.site_record(&mut cursor),
            }
            .map_err(|what| Error::damaged(offset, what))?;
        }
        expect_end(&cursor, offset)
    }

    fn module_record(&mut self, cursor: &mut Cursor) -> Result<(), &'static str> {
        let record = ModuleRecord {
            path: reference(cursor, self.strings.len())?,
            build_id: reference(cursor, self.strings.len())?,
        };
        self.push_module(record)
    }

    fn frame_record(&mut self, cursor: &mut Cursor) -> Result<(), &'static str> {
        let record = FrameRecord {
            module: reference(cursor, self.modules.len())?,
            offset: number(cursor)?,
            symbol: reference(cursor, self.strings.len())?,
            file: reference(cursor, self.strings.len())?,
            line: u32::try_from(number(cursor)?).map_err(|_| "a line's number is too large")?,
        };
        self.push_frame(record)
    }

    fn site_record(&mut self, cursor: &mut Cursor) -> Result<(), &'static str> {
        let kind = reference(cursor, self.strings.len())?;
        let depth = number(cursor)?;
        let size_class = number(cursor)?;
        let count = number(cursor)?;
        if count > MAX_FRAMES_OF_A_SITE as u64 {
            return Err("a site has more frames than the format allows");
        }
        let start = self.frame_lists.len() as u32;
        for _ in 0..count {
            let frame = reference(cursor, self.frames.len())?;
            self.frame_lists.push(frame);
        }
        self.push_site(SiteRecord {
            kind,
            depth,
            size_class,
            frames: (start, count as u32),
        })
    }
}

fn number(cursor: &mut Cursor) -> Result<u64, &'static str> {
    cursor
        .varint()
        .ok_or("a block holds fewer than its records")
}

fn reference(cursor: &mut Cursor, known: usize) -> Result<u32, &'static str> {
    let number = number(cursor)?;
    if number > known as u64 {
        return Err("a table refers to what is not in the trace");
    }
    Ok(number as u32)
}

// --- writing ---------------------------------------------------------------------

/// A part of a table, ready to become a block.
pub struct Part {
    pub kind: Kind,
    pub first: u64,
    pub records: u32,
    pub payload: Vec<u8>,
}

/// How much of the tables has been written.
#[derive(Default)]
pub struct Written {
    strings: usize,
    modules: usize,
    frames: usize,
    sites: usize,
}

impl SiteTable {
    /// The parts that are new since the last call, in the order in which they must be written.
    pub(super) fn new_parts(&self, written: &mut Written) -> Vec<Part> {
        let mut parts = Vec::new();
        split(
            &mut parts,
            Kind::Strings,
            &mut written.strings,
            &self.strings,
            |out, text| {
                put_text(out, text);
            },
        );
        split(
            &mut parts,
            Kind::Modules,
            &mut written.modules,
            &self.modules,
            |out, module| {
                varint::put(out, u64::from(module.path));
                varint::put(out, u64::from(module.build_id));
            },
        );
        split(
            &mut parts,
            Kind::Frames,
            &mut written.frames,
            &self.frames,
            |out, frame| {
                varint::put(out, u64::from(frame.module));
                varint::put(out, frame.offset);
                varint::put(out, u64::from(frame.symbol));
                varint::put(out, u64::from(frame.file));
                varint::put(out, u64::from(frame.line));
            },
        );
        split(
            &mut parts,
            Kind::Sites,
            &mut written.sites,
            &self.sites,
            |out, site| {
                varint::put(out, u64::from(site.kind));
                varint::put(out, site.depth);
                varint::put(out, site.size_class);
                let frames = self.frames_of(site);
                varint::put(out, frames.len() as u64);
                for &frame in frames {
                    varint::put(out, u64::from(frame));
                }
            },
        );
        parts
    }
}

fn split<T>(
    parts: &mut Vec<Part>,
    kind: Kind,
    written: &mut usize,
    records: &[T],
    encode: impl Fn(&mut Vec<u8>, &T),
) {
    // A text may take 64 KiB: blocks end well before their limit.
    const ENOUGH: usize = MAX_PAYLOAD / 2;
    let base = usize::from(kind != Kind::Sites);
    while *written < records.len() {
        let first = (*written + base) as u64;
        let mut payload = Vec::new();
        let mut count = 0;
        while *written < records.len() && payload.len() < ENOUGH {
            encode(&mut payload, &records[*written]);
            *written += 1;
            count += 1;
        }
        parts.push(Part {
            kind,
            first,
            records: count,
            payload,
        });
    }
}

impl std::fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let module = base_name(self.module.path);
        match (self.symbol, module) {
            ("", "") => write!(f, "{:#x}", self.offset)?,
            ("", module) => write!(f, "{module}+{:#x}", self.offset)?,
            (symbol, _) => f.write_str(symbol)?,
        }
        match (self.file, self.line) {
            ("", _) if !self.symbol.is_empty() && !module.is_empty() => write!(f, " ({module})"),
            ("", _) => Ok(()),
            (file, 0) => write!(f, " ({})", base_name(file)),
            (file, line) => write!(f, " ({}:{line})", base_name(file)),
        }
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
