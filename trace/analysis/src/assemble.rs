//! From what the recorder leaves of a process to its trace: addresses become objects, and places become sites.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use metis::heap::size_class;
use rustc_hash::FxHashMap;
use thiserror::Error;
use trace_format::{
    Event, Frame, JIT, Manner, Module, ObjectId, Occurrence, Options, Properties, Site, SiteId,
    ThreadId, TraceWriter,
};

use super::clock;
use super::perf_map::{self, Foldable, PerfMap};
use super::spool::{Action, Header, Place, PlaceId, Record, Return, Spool, Tables};
use super::stop::Stop;
use super::symbols::Symbols;

/// Times between events are written no more often.
const TIME_STEP_NS: u64 = 100_000;
/// One more site would not fit the format: all others share the last one.
const MAX_SITES: usize = (1 << 22) - 1;

/// Why a recording became no trace.
#[derive(Debug, Error)]
pub enum Error {
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] trace_format::Error),
    /// The recording could not be read.
    #[error(transparent)]
    Recording(#[from] io::Error),
    #[error("the recording is damaged: {0}")]
    Damaged(String),
    /// As whoever was told of the progress wished.
    #[error("stopped before the end")]
    Stopped,
}

/// What is told of progress: how many events there are so far. It may end the work.
pub type Progress<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// How a process came to its end, where somebody knows.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub ended: Option<String>,
    /// Names of the code that the process has made.
    pub generated: Rc<PerfMap>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    pub events: u64,
    pub allocations: u64,
    pub sites: usize,
    pub dropped: u64,
    pub lost_modules: u64,
    pub lost_children: u64,
    pub stop: Option<Stop>,
}

struct Assembly<W: Write> {
    writer: TraceWriter<W>,
    live: FxHashMap<u64, ObjectId>,
    sites: FxHashMap<(PlaceId, u64), SiteId>,
    /// Place and size class of each site.
    keys: Vec<(PlaceId, u64)>,
    threads: FxHashMap<u32, ThreadId>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    events: u64,
    allocations: u64,
    /// Frees of blocks that are not in the trace.
    foreign: u64,
    /// Blocks that were allocated again although nobody had freed them.
    lost: u64,
}

/// Writes the trace of one process, telling of progress every now and then.
pub fn assemble<W: Write>(
    spool: &mut Spool,
    out: W,
    known: &Known,
    symbols: &mut Symbols,
    progress: Progress,
) -> Result<(W, Assembled), Error> {
    let options = Options {
        with_addresses: true,
        ..Options::default()
    };
    let clock = clock::Clock::of(&spool.header);
    let properties = properties_of(&spool.header, known);
    let mut assembly = Assembly {
        writer: TraceWriter::new(out, properties, options)?,
        live: FxHashMap::default(),
        sites: FxHashMap::default(),
        keys: Vec::new(),
        threads: FxHashMap::default(),
        counts: Counts::default(),
    };
    let mut told = 0_u64;
    while let Some(record) = spool.next_record()? {
        let time = clock.nanoseconds(record.stamp);
        if time >= told.saturating_add(TIME_STEP_NS) {
            told = time;
        }
        assembly.record(&record, told)?;
        if assembly.counts.events.is_multiple_of(1 << 18)
            && progress(assembly.counts.events).is_break()
        {
            return Err(Error::Stopped);
        }
    }
    Ok(assembly.end(spool, symbols, &known.generated)?)
}

impl<W: Write> Assembly<W> {
    fn record(&mut self, record: &Record, time: u64) -> trace_format::Result<()> {
        match record.action {
            Action::Allocate {
                address,
                size,
                place,
                alignment,
            } => {
                let object = self.writer.latest_object() + 1;
                let thread = self.thread_of(record.thread);
                if let Some(lost) = self.live.insert(address, object) {
                    self.counts.lost += 1;
                    self.append(&Event::Free { object: lost }, thread, None, None, time)?;
                }
                let event = Event::Allocate {
                    object,
                    site: self.site_of(place, size),
                    size,
                    thread,
                };
                self.counts.allocations += 1;
                let manner = (alignment > 0).then_some(Manner::Aligned(alignment));
                self.append(&event, thread, Some(address), manner, time)
            }
            Action::Free {
                address,
                is_resized,
            } => match self.live.remove(&address) {
                Some(object) => {
                    let thread = self.thread_of(record.thread);
                    let manner = is_resized.then_some(Manner::Resized);
                    self.append(&Event::Free { object }, thread, None, manner, time)
                }
                None => {
                    self.counts.foreign += 1;
                    Ok(())
                }
            },
        }
    }

    fn append(
        &mut self,
        event: &Event,
        thread: ThreadId,
        address: Option<u64>,
        manner: Option<Manner>,
        time: u64,
    ) -> trace_format::Result<()> {
        self.counts.events += 1;
        self.writer.occurrence(&Occurrence {
            event,
            address,
            time,
            thread,
            manner,
        })
    }

    fn thread_of(&mut self, thread: u32) -> ThreadId {
        let next = self.threads.len() as ThreadId;
        *self.threads.entry(thread).or_insert(next)
    }

    fn site_of(&mut self, place: PlaceId, size: u64) -> SiteId {
        let key = (place, size_class(size));
        if let Some(&site) = self.sites.get(&key) {
            return site;
        }
        if self.keys.len() >= MAX_SITES {
            return self.keys.len() as SiteId - 1;
        }
        let site = self.keys.len() as SiteId;
        self.keys.push(key);
        self.sites.insert(key, site);
        site
    }

    fn end(
        mut self,
        spool: &Spool,
        symbols: &mut Symbols,
        generated: &PerfMap,
    ) -> trace_format::Result<(W, Assembled)> {
        let started_as = started_as(&spool.header);
        for &(place, class) in &self.keys {
            let mut resolved = Vec::new();
            let depth = addresses_of(&spool.tables, place, &mut resolved);
            let mut frames: Vec<Resolved> = resolved
                .iter()
                .map(|&(at, seen)| Resolved::of(&spool.tables, at, seen, symbols, generated))
                .collect();
            perf_map::fold(&mut frames);
            for frame in &mut frames {
                if let Some(name) = started_as
                    .as_ref()
                    .filter(|_| frame.path == spool.header.program)
                {
                    frame.path.clone_from(name);
                }
            }
            self.writer.sites_mut().add(&Site {
                kind: "",
                depth,
                size_class: Some(class),
                frames: frames.iter().map(Resolved::frame).collect(),
            })?;
        }
        let header = &spool.header;
        let dropped = header
            .dropped_allocations
            .saturating_add(header.dropped_frees);
        for (name, number) in [
            ("dropped-allocations", header.dropped_allocations),
            ("dropped-frees", header.dropped_frees),
            ("foreign-frees", self.counts.foreign),
            ("lost-frees", self.counts.lost),
        ] {
            self.writer.set_property(name, number.to_string());
        }
        for (name, number) in [
            ("lost-modules", header.lost_modules),
            ("lost-children", header.lost_children),
        ] {
            if number > 0 {
                self.writer.set_property(name, number.to_string());
            }
        }
        if !generated.is_empty() {
            self.writer
                .set_property("perf-map", generated.len().to_string());
        }
        if let Some(build_id) = build_id_of(spool) {
            self.writer.set_property("build-id", build_id);
        }
        let assembled = Assembled {
            events: self.counts.events,
            allocations: self.counts.allocations,
            sites: self.keys.len(),
            dropped,
            lost_modules: header.lost_modules,
            lost_children: header.lost_children,
            stop: header.stop,
        };
        Ok((self.writer.finish()?, assembled))
    }
}

/// The name by which the program was started, where that is a link to it: nobody knows Debian's redis-server as redis-check-rdb.
fn started_as(header: &Header) -> Option<String> {
    let word = header.name.as_str();
    let is_program = |path: &PathBuf| {
        path.canonicalize()
            .is_ok_and(|real| real == Path::new(&header.program))
    };
    let found = if word.contains('/') {
        Some(PathBuf::from(word)).filter(is_program)
    } else {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders)
            .map(|folder| folder.join(word))
            .find(is_program)
    };
    let found = std::path::absolute(found?).ok()?;
    (found != Path::new(&header.program)).then(|| found.to_string_lossy().into_owned())
}

fn build_id_of(spool: &Spool) -> Option<&str> {
    let modules = &spool.tables.modules;
    let own = modules
        .iter()
        .find(|module| module.path == spool.header.program)?;
    (!own.build_id.is_empty()).then_some(&own.build_id)
}

/// The return addresses of a place, each with the time at which it was seen; its depth.
fn addresses_of(tables: &Tables, place: PlaceId, out: &mut Vec<(Return, u64)>) -> Option<u64> {
    match tables.place(place)? {
        (Place::Caller { at, depth }, stamp) => {
            out.push((*at, *stamp));
            // 0 is a stack that is not the thread's own.
            u64::from(*depth).checked_sub(1)
        }
        (Place::Stack(stack), stamp) => {
            out.extend(stack.iter().map(|&at| (at, *stamp)));
            None
        }
    }
}

struct Resolved {
    path: String,
    build_id: String,
    offset: u64,
    symbol: String,
    file: String,
    line: u32,
    is_python: bool,
}

impl Foldable for Resolved {
    fn symbol(&self) -> &str {
        &self.symbol
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn is_python(&self) -> bool {
        self.is_python
    }
}

impl Resolved {
    fn of(
        tables: &Tables,
        at: Return,
        seen: u64,
        symbols: &mut Symbols,
        generated: &PerfMap,
    ) -> Self {
        let Some(module) = tables.module_of(at, seen) else {
            return Self::outside_modules(at, generated);
        };
        let offset = at.address.wrapping_sub(module.bias);
        let mut found = symbols.find(&module.path, &module.build_id, offset);
        if found.symbol.is_empty() {
            // A runtime names the parts that it has brought along, such as node its builtins.
            found = generated.find(at.address).unwrap_or_default().found;
        }
        Self {
            path: module.path.clone(),
            build_id: module.build_id.clone(),
            offset,
            symbol: found.symbol,
            file: found.file,
            line: found.line,
            is_python: false,
        }
    }

    /// By the process's perf map, where it tells.
    fn outside_modules(at: Return, generated: &PerfMap) -> Self {
        let known = generated.find(at.address);
        let path = if known.is_some() { JIT } else { "" };
        let offset = known.as_ref().map_or(at.address, |known| known.offset);
        let is_python = known.as_ref().is_some_and(|known| known.is_python);
        let found = known.map(|known| known.found).unwrap_or_default();
        Self {
            path: path.to_owned(),
            build_id: String::new(),
            offset,
            symbol: found.symbol,
            file: found.file,
            line: found.line,
            is_python,
        }
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            module: Module {
                path: &self.path,
                build_id: &self.build_id,
            },
            offset: self.offset,
            symbol: &self.symbol,
            file: &self.file,
            line: self.line,
        }
    }
}

fn properties_of(header: &Header, known: &Known) -> Properties {
    let site = match header.stacks {
        Some(_) => "stack size-class",
        None => "return-address depth size-class",
    };
    let mut properties = Properties::new()
        .with("recorder", concat!("pagewise ", env!("CARGO_PKG_VERSION")))
        .with("runtime", "native")
        .with("events", "allocate free")
        .with("frees", "by-thread")
        .with("site", site)
        .with(
            "depth-unit",
            "16 bytes of stack to 4 KB, then eight steps a doubling",
        )
        .with("program", &*header.program)
        .with("command", &*header.command)
        .with("process", header.process.to_string())
        .with("start", clock::rfc_3339(header.start_real_ns));
    if let Some(stacks) = header.stacks {
        properties.set("stacks", stacks.name());
    }
    if !header.allocator.is_empty() {
        properties.set("allocator", header.allocator.as_str());
    }
    if !header.settings.is_empty() {
        // One a line.
        let settings: Vec<String> = header
            .settings
            .iter()
            .map(|one| one.replace('\n', " "))
            .collect();
        properties.set("allocator-settings", settings.join("\n"));
    }
    if header.sample_bytes > 0 {
        properties.set("sample-bytes", header.sample_bytes.to_string());
    }
    if let Some(ended) = &known.ended {
        properties.set("ended", ended.as_str());
    }
    if let Some(stop) = header.stop {
        properties.set("stopped", stop.to_string());
    }
    properties
}
