//! `pagewise trace replay`: the trace's allocations and frees, made again in real memory, under several allocators.
//!
//!     program     trace to operations              (this process)
//!     driver      one allocator's process: sends it operations, looks at its memory while it waits
//!     loader      the process that obeys           (this program once more, preloaded)
//!     resident    which of its pages are the allocator's
//!     view        table, JSON, picture

pub mod allocator;
mod driver;
pub mod loader;
mod operation;
mod program;
mod resident;
mod view;

use std::fs;
use std::path::Path;

use anyhow::Result;
use trace_format::TraceReader;

use self::allocator::Allocator;
use self::driver::{Plan, Replay};
use self::program::{Needs, Program, each_operation};
use super::{input, output::Output, progress};
use crate::commandline::ReplayArguments;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::measure::available::available;
use crate::report::json::{Destination, publish};
use crate::report::units;
use crate::tell::tell;

/// Of the memory that is available, a replay may have this part.
const SHARE_OF_MEMORY: f64 = 0.9;
/// Bytes that the loader keeps for each block that is live.
const SLOT: u64 = 16;

/// Some allocator did not come to the trace's end.
const EXIT_STOPPED: u8 = 1;

pub fn replay(arguments: &ReplayArguments) -> Result<Ending> {
    let allocators = allocators(&arguments.allocators)?;
    let json = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let picture = arguments.plot.as_deref().map(Output::open).transpose()?;
    let mut trace = input::open(&arguments.file)?;
    input::refuse_sample(
        &trace,
        &arguments.file,
        "it cannot be replayed",
        "nothing was replayed",
    )?;
    let memory = available_memory();
    let needs = needs(&mut trace, &arguments.file, memory)?;
    check_needs(&needs, &arguments.file, memory)?;
    let plan = Plan {
        path: &arguments.file,
        needs,
        samples: arguments.samples,
        pace: arguments.pace,
        memory,
    };
    let bar = progress::bar("replaying", trace.event_count() * allocators.len() as u64);
    let mut replays = Vec::new();
    for allocator in allocators {
        bar.set_message(allocator.name());
        let found = driver::replay(&mut trace, &plan, allocator, &bar)?;
        check_replay(&found)?;
        replays.push(found);
    }
    bar.finish_and_clear();
    let figures = view::json(&arguments.file, &needs, &replays);
    let published = publish(&view::text(&needs, &replays), json, &figures);
    // Each result, whatever becomes of the other.
    if let Some(picture) = picture {
        view::plot(picture, &replays)?;
    }
    published?;
    let is_whole = replays.iter().all(|replay| replay.stopped.is_none());
    Ok(Ending::Exit(if is_whole { 0 } else { EXIT_STOPPED }))
}

/// Those asked for, each once; by default all that are installed.
fn allocators(asked: &[Allocator]) -> Result<Vec<Allocator>, Failure> {
    let mut chosen = Vec::new();
    for &allocator in asked {
        allocator.library()?;
        if !chosen.contains(&allocator) {
            chosen.push(allocator);
        }
    }
    if !asked.is_empty() {
        return Ok(chosen);
    }
    for allocator in Allocator::ALL {
        match allocator.library() {
            Ok(_) => chosen.push(allocator),
            Err(failure) => tell(&format!("left out: {} ({})", failure.what, failure.next)),
        }
    }
    Ok(chosen)
}

fn needs(trace: &mut TraceReader<fs::File>, path: &Path, memory: u64) -> Result<Needs, Failure> {
    let bar = progress::bar("reading", trace.event_count());
    let mut program = Program::new(memory);
    each_operation(trace, path, &mut program, &bar, |_, _| true)?;
    bar.finish_and_clear();
    Ok(program.needs)
}

fn check_needs(needs: &Needs, path: &Path, memory: u64) -> Result<(), Failure> {
    let file = path.display();
    if needs.operations == 0 {
        return Err(Failure::new(
            format!("there is nothing to replay in {file}: no allocations"),
            format!("pagewise trace stat {file}"),
        )
        .kept("nothing was replayed"));
    }
    if needs.frees == 0 && needs.managed > 0 {
        return Err(Failure::new(
            format!(
                "{file} is of a program with a collector: it does not say when blocks are freed"
            ),
            format!("pagewise trace simulate {file}, which collects it"),
        )
        .kept("nothing was replayed"));
    }
    let most = needs
        .peak_bytes
        .saturating_add(u64::from(needs.slots) * SLOT);
    if most > memory {
        return Err(Failure::new(
            format!(
                "at its peak {file} has {} live, and this machine has {} left for that",
                units::bytes(most as f64),
                units::bytes(memory as f64)
            ),
            "ending other programs, or a machine with more memory",
        )
        .kept("nothing was replayed"));
    }
    if needs.skipped > 0 {
        let skipped = units::counted(needs.skipped, "free");
        tell(&format!("{skipped} of blocks that were not live: left out"));
    }
    Ok(())
}

/// A measurement that cannot be, or an allocator that loses data, is no result.
fn check_replay(found: &Replay) -> Result<(), Failure> {
    let name = found.allocator.name();
    if let Some(sample) = found.below_live() {
        return Err(Failure::new(
            format!(
                "under {name} {} were resident with {} live (after {}): the measurement is wrong",
                units::bytes(sample.resident_bytes as f64),
                units::bytes(sample.live_bytes as f64),
                units::counted(sample.operations, "operation")
            ),
            "turning off what merges equal pages: pagewise doctor",
        )
        .kept("no figures were written"));
    }
    if found.overwritten > 0 {
        return Err(Failure::new(
            format!(
                "under {name} {} changed while nobody wrote to them: the allocator gave memory out twice",
                units::counted(found.overwritten, "block")
            ),
            "another version of the allocator",
        )
        .kept("no figures were written"));
    }
    Ok(())
}

/// What can be used without pushing other programs out.
fn available_memory() -> u64 {
    // Unknown: half of what an address space holds is refused by the allocator itself.
    let bytes = available().unwrap_or(1 << 46);
    (bytes as f64 * SHARE_OF_MEMORY) as u64
}
