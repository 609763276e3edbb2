//! `pagewise trace`: record what a program allocates, and look at it.

pub mod analysis;
mod assemble;
mod clock;
mod convert;
mod group;
mod input;
mod jvm;
mod kinship;
mod model;
mod output;
mod pages;
mod pprof;
mod progress;
mod record;
pub mod replay;
mod report;
mod show;
mod simulate;
mod spool;
mod stat;
mod symbols;
mod what_if;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;

use crate::Ending;
use crate::commandline::TraceAction;
use crate::failure::Failure;

/// A trace is never written over by what is made of it, under whatever name.
fn refuse_to_overwrite(read: &[&Path], written: &[&Path]) -> Result<(), Failure> {
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let traces: Vec<_> = read.iter().filter_map(|path| identity(path)).collect();
    match written
        .iter()
        .find(|path| identity(path).is_some_and(|file| traces.contains(&file)))
    {
        Some(path) => Err(Failure::new(
            format!("{} is the trace itself: it would be lost", path.display()),
            "another name for the file to write",
        )),
        None => Ok(()),
    }
}

pub fn trace(action: &TraceAction) -> Result<Ending> {
    let (read, written) = action.files();
    refuse_to_overwrite(&read, &written)?;
    match action {
        TraceAction::Record(arguments) if arguments.jvm => jvm::record(arguments),
        TraceAction::Record(arguments) => record::record(arguments),
        TraceAction::Stat(arguments) => stat::stat(arguments),
        TraceAction::Show(arguments) => show::show(arguments),
        TraceAction::Convert(arguments) => convert::convert(arguments),
        TraceAction::Report(arguments) => report::report(arguments),
        TraceAction::Group(arguments) => group::group(arguments),
        TraceAction::Replay(arguments) => replay::replay(arguments),
        TraceAction::Simulate(arguments) => simulate::simulate(arguments),
    }
}
