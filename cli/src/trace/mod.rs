//! `pagewise trace`: record what a program allocates, and look at it.

mod chart;
mod convert;
mod diff;
mod folded;
mod group;
mod input;
mod jvm;
mod kinship;
mod losses;
mod output;
mod perf_maps;
mod profiles;
mod progress;
mod reading;
mod record;
mod recorded_on;
pub mod replay;
mod report;
mod show;
mod simulate;
mod spools;
mod stat;

use std::path::Path;

use anyhow::Result;

use crate::commandline::TraceAction;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::report::target::is_same_file;

/// What is read is never written over by what is made of it, under whatever name; nor is one result by another.
fn check_files(read: &[&Path], written: &[&Path]) -> Result<(), Failure> {
    let is_read = |path: &Path| read.iter().any(|other| is_same_file(path, other));
    if let Some(path) = written.iter().find(|path| is_read(path)) {
        return Err(Failure::new(
            format!(
                "{} is the trace itself, or read with it: it would be lost",
                path.display()
            ),
            "another name for the file to write",
        ));
    }
    for (index, path) in written.iter().enumerate() {
        if written[..index]
            .iter()
            .any(|other| is_same_file(path, other))
        {
            return Err(Failure::new(
                format!(
                    "two results would go to {}: one would be lost",
                    path.display()
                ),
                "another name for one of them",
            ));
        }
    }
    Ok(())
}

pub fn trace(action: &TraceAction) -> Result<Ending> {
    let (read, written) = action.files();
    check_files(&read, &written)?;
    match action {
        TraceAction::Record(arguments) if arguments.jvm => jvm::record::record(arguments),
        TraceAction::Record(arguments) => record::record(arguments),
        TraceAction::Stat(arguments) => stat::stat(arguments),
        TraceAction::Show(arguments) => show::show(arguments),
        TraceAction::Convert(arguments) => convert::convert(arguments),
        TraceAction::Report(arguments) => report::report(arguments),
        TraceAction::Diff(arguments) => diff::diff(arguments),
        TraceAction::Group(arguments) => group::group(arguments),
        TraceAction::Replay(arguments) => replay::replay(arguments),
        TraceAction::Simulate(arguments) => simulate::simulate(arguments),
    }
}
