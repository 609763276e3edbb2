//! From what the recorder leaves of a process to its trace.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::rc::Rc;

use thiserror::Error;
use trace_format::{Occurrence, Options, Properties, TraceWriter};

use super::clock;
use super::frames;
use super::objects::Objects;
use super::perf_map::PerfMap;
use super::spool::{Header, Spool};
use super::stop::Stop;
use super::symbols::Symbols;

/// Times between events are written no more often.
const TIME_STEP_NS: u64 = 100_000;
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
    pub damaged_chunks: u64,
    pub stop: Option<Stop>,
}

struct Assembly<W: Write> {
    writer: TraceWriter<W>,
    objects: Objects,
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
        objects: Objects::default(),
    };
    let mut told = 0_u64;
    while let Some(record) = spool.next_record()? {
        let time = clock.nanoseconds(record.stamp);
        if time >= told.saturating_add(TIME_STEP_NS) {
            told = time;
        }
        let writer = &mut assembly.writer;
        let write = &mut |occurrence: &Occurrence| writer.occurrence(occurrence);
        assembly.objects.record(&record, told, write)?;
        let events = assembly.objects.counts.events;
        if events.is_multiple_of(1 << 18) && progress(events).is_break() {
            return Err(Error::Stopped);
        }
    }
    Ok(assembly.end(spool, symbols, &known.generated)?)
}

impl<W: Write> Assembly<W> {
    fn end(
        mut self,
        spool: &Spool,
        symbols: &mut Symbols,
        generated: &PerfMap,
    ) -> trace_format::Result<(W, Assembled)> {
        let sites = self.writer.sites_mut();
        frames::add_sites(sites, &self.objects.keys, spool, symbols, generated)?;
        let Objects { counts, keys, .. } = &self.objects;
        let header = &spool.header;
        let dropped = header
            .dropped_allocations
            .saturating_add(header.dropped_frees);
        for (name, number) in [
            ("dropped-allocations", header.dropped_allocations),
            ("dropped-frees", header.dropped_frees),
            ("foreign-frees", counts.foreign),
            ("lost-frees", counts.lost),
        ] {
            self.writer.set_property(name, number.to_string());
        }
        for (name, number) in [
            ("lost-modules", header.lost_modules),
            ("lost-children", header.lost_children),
            ("damaged-chunks", spool.damaged_chunks()),
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
            events: counts.events,
            allocations: counts.allocations,
            sites: keys.len(),
            dropped,
            lost_modules: header.lost_modules,
            lost_children: header.lost_children,
            damaged_chunks: spool.damaged_chunks(),
            stop: header.stop,
        };
        Ok((self.writer.finish()?, assembled))
    }
}

pub(crate) fn build_id_of(spool: &Spool) -> Option<&str> {
    let modules = &spool.tables.modules;
    let own = modules
        .iter()
        .find(|module| module.path == spool.header.program)?;
    (!own.build_id.is_empty()).then_some(&own.build_id)
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
