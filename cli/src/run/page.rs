//! What `run --report` shows.

use anyhow::Result;

use crate::commandline::CommonArguments;
use crate::measure::curve::Curve;
use crate::policy::Policy;
use crate::report::page::{Line, Page, Saving};
use crate::report::{savings, units};
use crate::trial::Trial;
use crate::words::{invocation, quoted, text_of};

pub fn of(
    common: &CommonArguments,
    policy: Policy,
    trial: &Trial,
    summary: &str,
) -> Result<String> {
    let memory = &trial.memory;
    let line = |name: &str, curve: &Option<Curve>| {
        let curve = curve.as_ref()?;
        Some(Line::of(name, 1, true, curve))
    };
    let unshared = memory
        .unshared_curve
        .clone()
        .filter(|_| memory.shares_pages());
    let lines = [
        line(&format!("{policy}: physical memory"), &memory.curve),
        line("without shared pages (estimate)", &unshared),
    ];
    let statistics = trial.statistics.as_ref();
    let collections = statistics.map_or(0, |s| s.get("collections_seen"));
    let page = Page {
        title: quoted(&text_of(&common.command)),
        answer: vec![format!("Under {policy}: {summary}.")],
        lines: lines.into_iter().flatten().collect(),
        columns: vec![
            "configuration",
            "peak",
            "average",
            "CPU",
            "wall",
            "page faults",
            "collections",
            "looks at memory",
        ],
        rows: vec![vec![
            policy.to_string(),
            units::bytes(memory.peak.bytes as f64),
            units::bytes(memory.average_bytes),
            units::duration(trial.cpu()),
            units::duration(trial.wall),
            units::count(trial.ended.usage.minor_faults + trial.ended.usage.major_faults),
            units::count(collections),
            units::count(memory.samples),
        ]],
        savings: statistics.map_or(Vec::new(), |statistics| {
            let parts = savings::parts(statistics).into_iter();
            let saving = |(bytes, what)| Saving {
                configuration: policy.to_string(),
                what,
                bytes,
            };
            parts.map(saving).collect()
        }),
        command: invocation(),
    };
    Ok(page.html()?)
}
