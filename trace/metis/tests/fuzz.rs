//! Damaged, foreign and hostile files: an error or a trace, never a panic, and never much memory or time. A seed is printed:
//! `FUZZ_SEED=N FUZZ_ROUNDS=N cargo test --test fuzz` repeats a run, and makes a longer one.
#![allow(clippy::unwrap_used)]

mod counting;
#[path = "../../format/tests/damage/mod.rs"]
mod damage;

use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use counting::peak_of;
use damage::{Block, MAX_PAYLOAD};
use metis::algorithm::{Control, Metis, MetisOptions, Plan};
use metis::grouping::spans::SpanHeap;
use metis::heap::{HeapOptions, NoGroups, Simulator, SpanOptions};
use metis::workload::{Kind, Style, generate};
use trace_format::{Codec, Error, Options, TraceReader, text};

const MB: usize = 1 << 20;
/// For a file of kilobytes: blocks and batches, tables, the simulated heaps.
const MEMORY: usize = 64 * MB;
const TIME: Duration = Duration::from_secs(10);

type Trace<'a> = TraceReader<Cursor<&'a [u8]>>;

/// The committed samples of Java programs, a made-up native program, and what no recorder has written yet.
fn whole_traces() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/metis/samples");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 14, "the samples are missing");
    let mut traces: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    for codec in [Codec::None, Codec::Zstd, Codec::Deflate] {
        let options = Options {
            codec,
            events_in_a_block: 100,
            ..Options::default()
        };
        traces.push(text::read(native_text().as_bytes(), Vec::new(), options).unwrap());
    }
    traces
}

/// Addresses, alignments, resizes, times and threads.
fn native_text() -> String {
    let mut text = String::from("pagewise-trace 1 addresses\nproperty frees by-thread\n");
    for (number, event) in generate(Kind::Survivors, Style::Native, 1, 3000)
        .into_iter()
        .enumerate()
    {
        if number % 50 == 0 {
            text += &format!("time {}\n", number * 1000);
        }
        match event {
            trace_format::Event::Allocate {
                object, site, size, ..
            } => {
                let manner = if number % 9 == 0 { "aligned 64\n" } else { "" };
                let thread = number % 3;
                let address = object * 4096;
                text += &format!("{manner}allocate {object} {site} {size} {thread} {address:#x}\n");
            }
            trace_format::Event::Free { object } => {
                let manner = if number % 7 == 0 { "resized\n" } else { "" };
                text += &format!("{manner}free {object}\n");
            }
            _ => {}
        }
    }
    for site in 0..40 {
        text += &format!("site {site} type=- depth={site} class=64\n");
        text += &format!(
            "frame {:#x} symbol=f{site} file=a.c line={site} module=/lib/a build=00ff\n",
            site * 16
        );
    }
    text
}

/// All that is made of a trace. An error ends it, as it ends the command.
fn use_it(bytes: &[u8], random: &mut fastrand::Rng) -> Result<(), Error> {
    let mut trace: Trace = TraceReader::new(Cursor::new(bytes))?;
    for site in 0..trace.sites().len() as u32 {
        trace.sites().describe(site);
    }
    let options = HeapOptions {
        max_heap_bytes: 1 << 24,
        ..HeapOptions::default()
    };
    let granule = options.granule_bytes;
    let metis = Metis::new(MetisOptions::default(), Control::Learned, granule);
    let mut collected = Simulator::new(options, NoGroups).unwrap();
    let mut grouped = Simulator::new(options, metis).unwrap();
    let mut native = SpanHeap::new(&Plan::default(), SpanOptions::default());
    let mut seen = 0;
    let result = loop {
        match trace.next_batch() {
            Err(error) => break Err(error),
            Ok(None) => break Ok(()),
            Ok(Some(batch)) => {
                // Running out of the simulated heap is an answer.
                let _ = collected.run(&batch.events);
                let _ = grouped.run(&batch.events);
                native.run(&batch.events);
                seen += batch.events.len() as u64;
            }
        }
    };
    assert!(seen <= trace.event_count());
    assert!(result.is_err() || seen == trace.event_count());
    let written = text::write(&mut trace, std::io::sink());
    assert_eq!(written.is_err(), result.is_err());
    let _ = trace.seek_to_event(random.u64(..2 * seen.max(1)));
    let _ = trace.next_batch();
    result
}

/// Within memory and time; what is wrong is said, and lies within the file.
fn survive(what: &str, bytes: &[u8], memory: usize, random: &mut fastrand::Rng) -> bool {
    let begun = Instant::now();
    let (result, peak) = peak_of(|| use_it(bytes, random));
    assert!(peak <= memory, "{what}: {peak} bytes of memory");
    assert!(begun.elapsed() <= TIME, "{what}: {:?}", begun.elapsed());
    match &result {
        Err(Error::Damaged { offset, .. }) => assert!(*offset <= bytes.len() as u64, "{what}"),
        Err(Error::Foreign(_) | Error::Version(_)) | Ok(()) => {}
        Err(other) => panic!("{what}: {other}"),
    }
    result.is_ok()
}

#[test]
fn damaged_files_are_survived() {
    let number = |name, other| std::env::var(name).map_or(other, |text| text.parse().unwrap());
    let seed = number("FUZZ_SEED", fastrand::u64(..));
    let rounds = number("FUZZ_ROUNDS", 4000);
    println!("FUZZ_SEED={seed}");
    let whole = whole_traces();
    let mut good = 0;
    for round in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        let (what, bytes) = damage::damaged(&whole, &mut random);
        let name = format!(
            "{what} (FUZZ_SEED={} FUZZ_ROUNDS=1)",
            seed.wrapping_add(round)
        );
        good += u64::from(survive(&name, &bytes, MEMORY, &mut random));
    }
    // Else it would be the check sums alone that are tried.
    assert!(
        rounds < 100 || (rounds / 20..rounds).contains(&good),
        "{good} of {rounds} were read"
    );
}

#[test]
fn a_file_may_end_at_every_border_of_blocks_and_beside_it() {
    let mut random = fastrand::Rng::with_seed(1);
    for bytes in whole_traces() {
        for border in damage::borders(&bytes) {
            for end in [
                border.saturating_sub(1),
                border,
                border + 1,
                border + damage::HEADER,
            ] {
                let cut = &bytes[..end.min(bytes.len())];
                let is_read = survive(&format!("cut at {end}"), cut, MEMORY, &mut random);
                assert_eq!(is_read, end >= damage::FILE_HEADER, "cut at {end}");
            }
        }
    }
}

/// Kilobytes of which every block decompresses to a megabyte of records, as large as the format allows them.
#[test]
fn bombs_are_bounded_by_the_formats_limits() {
    let mut random = fastrand::Rng::with_seed(1);
    // Index blocks that tell of more blocks than the file has bytes, each with the one before it.
    let entries = MAX_PAYLOAD as u32 / 4;
    let (mut chain, mut before, mut at) = (Vec::new(), 0, damage::FILE_HEADER);
    for _ in 0..300 {
        let block = chained(before, entries);
        (before, at) = (at, at + block.length());
        chain.push(block);
    }
    let file = damage::ended(&chain, before as u64);
    assert!(!survive("index", &file, MEMORY, &mut random));

    // Sites of which nothing is known: four zeros.
    let sites = MAX_PAYLOAD as u32 / 4;
    let tables: Vec<Block> = (0..100)
        .map(|part| {
            Block::of(
                damage::SITES,
                sites,
                part * u64::from(sites),
                &vec![0; MAX_PAYLOAD],
            )
        })
        .collect();
    assert!(!survive(
        "sites",
        &damage::joined(&tables),
        512 * MB,
        &mut random
    ));
}

/// An index block that follows the one at `before`, of blocks of no known type, each a byte after the other.
fn chained(before: usize, entries: u32) -> Block {
    let mut payload = vec![];
    let mut rest = before;
    while rest > 0x7f {
        payload.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    payload.push(rest as u8);
    payload.extend([99, 1, 0].repeat(entries as usize));
    Block::of(damage::INDEX, entries, 0, &payload)
}
