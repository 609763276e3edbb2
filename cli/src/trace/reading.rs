//! Reading a trace for its figures, with a bar, and errors that say what to do.

use std::fs::File;
use std::path::Path;

use trace_analysis::analysis::{self, Analysis, Error, Heap, Moment, SiteFigures, WithoutPages};
use trace_analysis::what_if::{self, Outcome};
use trace_format::{SiteId, TraceReader};

use super::{input, progress};
use crate::failure::Failure;

pub fn analyse(
    trace: &mut TraceReader<File>,
    path: &Path,
    moment: Moment,
) -> Result<Analysis, Failure> {
    let bar = progress::bar("reading", trace.event_count() * 2);
    let found = analysis::analyse(trace, moment, &mut |events| bar.inc(events)).map_err(
        |error| match error {
            Error::Trace(error) => input::unreadable(path, &error),
            Error::WithoutPages(why) => without_pages(path, why),
        },
    )?;
    bar.finish_and_clear();
    Ok(found)
}

/// Does the trace tell which pages its blocks hold?
pub fn has_pages(trace: &TraceReader<File>) -> bool {
    trace.has_addresses() && trace.properties().number("sample-bytes").unwrap_or(0) == 0
}

/// Of each site what was live when most was.
pub fn at_peak(
    trace: &mut TraceReader<File>,
    path: &Path,
    found: &Analysis,
) -> Result<Vec<SiteFigures>, Failure> {
    let bar = progress::bar("reading", found.peak.event);
    let peak = analysis::at_peak(trace, found, &mut |events| bar.inc(events))
        .map_err(|error| input::unreadable(path, &error))?;
    bar.finish_and_clear();
    Ok(peak)
}

/// What was live at the moment, and where it lay.
pub fn heap(trace: &mut TraceReader<File>, path: &Path, found: &Analysis) -> Result<Heap, Failure> {
    let bar = progress::bar("reading", found.moment.event);
    let heap = analysis::heap_at(trace, found.moment.event, &mut |events| bar.inc(events))
        .map_err(|error| input::unreadable(path, &error))?;
    bar.finish_and_clear();
    Ok(heap)
}

pub fn what_if(
    trace: &mut TraceReader<File>,
    path: &Path,
    limit: u64,
    groups: &[(Vec<SiteId>, f64)],
) -> Result<Outcome, Failure> {
    let bar = progress::bar("trying layouts", limit);
    let outcome = what_if::what_if(trace, limit, groups, &mut |events| bar.inc(events))
        .map_err(|error| input::unreadable(path, &error))?;
    bar.finish_and_clear();
    Ok(outcome)
}

pub fn without_pages(path: &Path, why: WithoutPages) -> Failure {
    let file = path.display();
    let next = match why {
        WithoutPages::Sample => "recording it again without --sample",
        WithoutPages::Jvm => {
            "pagewise trace simulate FILE: what other layouts of its heap would have done"
        }
        WithoutPages::NoAddresses => {
            "pagewise trace stat FILE, which needs neither; pagewise trace simulate FILE, for programs with a collector"
        }
    };
    Failure::new(
        format!("{file} does not tell which pages are held: {why}"),
        next.replace("FILE", &file.to_string()),
    )
    .kept("the file is unchanged")
}
