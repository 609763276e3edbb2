//! `pagewise trace report --folded`: all stacks with what they hold, for tools that draw flame graphs.

use std::fmt::Write as _;

use anyhow::Result;
use trace_analysis::analysis::{Moment, WithoutPages};
use trace_analysis::flame::{Flame, Kind};

use super::{input, reading};
use crate::commandline::ReportArguments;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::report::json::publish;

pub fn folded(arguments: &ReportArguments, kind: Kind) -> Result<Ending> {
    let file = &arguments.file;
    let mut trace = input::open(file)?;
    let has_pages = reading::has_pages(&trace);
    let found = reading::analyse(&mut trace, file, moment(arguments, kind, has_pages))?;
    if kind != Kind::Allocated && !found.has_ends() {
        return Err(Failure::new(
            format!(
                "{} does not tell what was live: a collector freed it",
                file.display()
            ),
            format!(
                "pagewise trace report --folded allocated {}",
                file.display()
            ),
        )
        .kept("the file is unchanged")
        .into());
    }
    if kind == Kind::Pinned && found.pages.is_none() {
        return Err(reading::without_pages(file, WithoutPages::of(trace.properties())).into());
    }
    let peak = match kind {
        Kind::Peak => reading::at_peak(&mut trace, file, &found)?,
        _ => Vec::new(),
    };
    let flame = Flame {
        found: &found,
        peak: &peak,
        sites: trace.sites(),
    };
    let mut text = String::new();
    for (stack, value) in flame.folded(kind) {
        let _ = writeln!(text, "{stack} {value}");
    }
    publish(&text, None, &())?;
    Ok(Ending::Exit(0))
}

/// The report's own, where it matters and the trace has pages.
fn moment(arguments: &ReportArguments, kind: Kind, has_pages: bool) -> Moment {
    match (arguments.at, kind) {
        (_, Kind::Allocated | Kind::Peak) => Moment::Peak,
        (Some(at), _) => at,
        (None, Kind::Live) if !has_pages => Moment::Peak,
        (None, _) => Moment::Pinned,
    }
}
