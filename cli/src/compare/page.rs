//! What `compare --report` shows.

use anyhow::Result;

use super::configuration::Series;
use crate::report::json::{Configuration, Ratio};
use crate::report::page::{Line, Page, Saving};
use crate::report::{savings, table, units};
use crate::words::{invocation, quoted};

pub fn of(
    command: &[String],
    answer: Vec<String>,
    series: &[Series],
    configurations: &[Configuration],
    ratios: &[Ratio],
) -> Result<String> {
    let mut rows: Vec<Vec<String>> = table::rows(configurations, ratios);
    let of_trials = series.iter().map(|one| [faults(one), collections(one)]);
    let extra = of_trials.chain(ratios.iter().map(|_| [String::new(), String::new()]));
    for (row, more) in rows.iter_mut().zip(extra) {
        row.extend(more);
    }
    let page = Page {
        title: quoted(command),
        answer,
        lines: series.iter().flat_map(lines).collect(),
        columns: vec![
            "configuration",
            "peak",
            "average",
            "CPU",
            "wall",
            "page faults",
            "collections",
        ],
        rows,
        savings: series.iter().zip(configurations).flat_map(saved).collect(),
        command: invocation(),
    };
    Ok(page.html()?)
}

/// One of each run; the one whose peak lies in the middle stands for all.
fn lines(series: &Series) -> Vec<Line> {
    let mut by_peak: Vec<usize> = (0..series.trials.len()).collect();
    by_peak.sort_by_key(|run| series.trials[*run].memory.peak.bytes);
    let main = by_peak.get(by_peak.len() / 2).copied();
    let line = |(run, curve)| Line::of(&series.name, run + 1, Some(run) == main, curve);
    let curves = series
        .trials
        .iter()
        .map(|trial| trial.memory.curve.as_ref());
    let curves = curves
        .enumerate()
        .filter_map(|(run, curve)| Some((run, curve?)));
    curves.map(line).collect()
}

fn saved((series, configuration): (&Series, &Configuration)) -> Vec<Saving> {
    let parts = configuration.statistics.as_ref().map(savings::parts);
    let saving = |(bytes, what)| Saving {
        configuration: series.name.clone(),
        what,
        bytes,
    };
    parts.into_iter().flatten().map(saving).collect()
}

fn faults(series: &Series) -> String {
    let each = series.trials.iter().map(|trial| {
        let usage = &trial.ended.usage;
        usage.minor_faults.saturating_add(usage.major_faults)
    });
    units::count(each.fold(0, u64::saturating_add) / series.trials.len().max(1) as u64)
}

/// None are seen without the library.
fn collections(series: &Series) -> String {
    let seen = series.trials.iter().filter_map(|trial| {
        let statistics = trial.statistics.as_ref()?;
        Some(statistics.get("collections_seen"))
    });
    let seen: Vec<u64> = seen.collect();
    match seen.len() {
        0 => "not seen".into(),
        runs => units::count(seen.into_iter().fold(0, u64::saturating_add) / runs as u64),
    }
}
