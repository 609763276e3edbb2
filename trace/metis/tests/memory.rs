//! What is held while a trace is read and replayed is proportional to live objects and sites, not to events.
#![allow(clippy::unwrap_used)]

mod counting;

use std::io::{Seek, Write};

use counting::peak_of;
use metis::algorithm::{Control, Metis, MetisOptions, Plan};
use metis::grouping::spans::SpanHeap;
use metis::heap::{HeapOptions, NoGroups, Placement, Simulator, SpanOptions};
use metis::workload::Style;
use trace_format::{Event, Options, Properties, SiteId, TraceReader, TraceWriter};

/// Enough for simulated heaps to have grown as far as they do.
const FEW: u64 = 400_000;
const MANY: u64 = 10 * FEW;
const LIVE: u64 = 4_000;
const SITES: u64 = 500;
/// Forty bytes for each block of the file.
const MOST_GROWTH: f64 = 1.02;

/// A program that goes on doing the same, with as much alive at any time: an object more, and the oldest goes.
fn events(style: Style) -> impl Iterator<Item = Event> {
    (1..).flat_map(move |object: u64| {
        let thread = 0;
        let allocate = Event::Allocate {
            object,
            site: (object % SITES) as SiteId,
            size: 16 + object % 7 * 16,
            thread,
        };
        let oldest = object.checked_sub(LIVE).filter(|&oldest| oldest > 0);
        let (root, end) = match style {
            Style::Native => (None, oldest.map(|object| Event::Free { object })),
            Style::Managed => (
                Some(Event::AddRoot { object, thread }),
                oldest.map(|object| Event::RemoveRoot { object, thread }),
            ),
        };
        [Some(allocate), root, end].into_iter().flatten()
    })
}

/// In a file: the reader must not keep what it has read.
fn trace_of(style: Style, count: u64) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    let mut writer = TraceWriter::new(&mut file, Properties::new(), Options::default()).unwrap();
    for event in events(style).take(count as usize) {
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap().flush().unwrap();
    file.rewind().unwrap();
    file
}

/// The peak over reading the whole trace, with what is done with each batch.
fn peak_while<P>(
    style: Style,
    events: u64,
    begin: impl Fn() -> P,
    step: impl Fn(&mut P, &[Event]),
) -> f64 {
    let file = trace_of(style, events);
    let ((), peak) = peak_of(|| {
        let mut trace = TraceReader::new(file).unwrap();
        let mut state = begin();
        while let Some(batch) = trace.next_batch().unwrap() {
            step(&mut state, &batch.events);
        }
    });
    peak as f64
}

fn check<P>(what: &str, style: Style, begin: impl Fn() -> P, step: impl Fn(&mut P, &[Event])) {
    let few = peak_while(style, FEW, &begin, &step);
    let many = peak_while(style, MANY, &begin, &step);
    println!("{what}: {few} bytes for {FEW} events, {many} for {MANY}");
    assert!(
        many <= few * MOST_GROWTH,
        "{what}: {few} bytes for {FEW} events, {many} for {MANY}"
    );
}

fn check_simulator<P: Placement>(
    what: &str,
    style: Style,
    options: HeapOptions,
    placement: impl Fn() -> P,
) {
    check(
        what,
        style,
        || Simulator::new(options, placement()).unwrap(),
        |heap, events| heap.run(events).unwrap(),
    );
}

#[test]
fn reading_takes_a_block() {
    check("reading", Style::Managed, || (), |(), _| ());
}

#[test]
fn simulated_heaps_take_what_is_live() {
    let options = HeapOptions::default();
    let metis = || {
        Metis::new(
            MetisOptions::default(),
            Control::Learned,
            options.granule_bytes,
        )
    };
    check_simulator("mark-sweep", Style::Managed, options, || NoGroups);
    check_simulator("metis", Style::Managed, options, metis);
    check_simulator(
        "freed by the program",
        Style::Native,
        HeapOptions::native(),
        || NoGroups,
    );
}

#[test]
fn spans_take_what_is_live() {
    let begin = || SpanHeap::new(&Plan::default(), SpanOptions::default());
    check("spans", Style::Native, begin, |heap, events| {
        heap.run(events)
    });
}

/// A simulator that kept anything for each event would be seen.
#[test]
#[should_panic(expected = "hoarding")]
fn hoarding_is_seen() {
    check("hoarding", Style::Managed, Vec::new, |kept, events| {
        kept.extend(events.iter().map(|_| 0_u8));
    });
}
