//! `pagewise trace`: record what a program allocates, and look at it.

pub mod analysis;
mod assemble;
mod clock;
mod convert;
mod group;
mod input;
mod jvm;
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

use anyhow::Result;

use crate::Ending;
use crate::commandline::TraceAction;

pub fn trace(action: &TraceAction) -> Result<Ending> {
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
