//! What a replay is shown as: a table, JSON, a picture.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::{Value, json};

use super::driver::{Replay, Sample};
use super::program::Needs;
use crate::report::units;
use crate::trace::chart::axes;
use crate::trace::output::Output;
use crate::trace::stat;

const PLOT: (u32, u32) = (900, 640);
const COLUMNS: [&str; 7] = [
    "allocator",
    "peak",
    "of live",
    "average",
    "of live",
    "CPU",
    "",
];
/// One for each allocator, in the order of their replays (Okabe and Ito's, for all eyes).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

pub fn text(needs: &Needs, replays: &[Replay]) -> String {
    let live = replays.first();
    let (peak, average) = live.map_or((0.0, 0.0), |replay| {
        (replay.live_peak() as f64, replay.live_average())
    });
    let rows = replays.iter().map(|replay| {
        vec![
            replay.allocator.name().to_owned(),
            units::bytes(replay.peak() as f64),
            units::ratio(replay.peak_fragmentation()),
            units::bytes(replay.average()),
            units::ratio(replay.average_fragmentation()),
            units::seconds(replay.cpu_seconds),
            remark(replay),
        ]
    });
    format!(
        "operations  {} in {}\nlive        {} at the peak, {} on average\n\n{}\n",
        units::count(needs.operations),
        units::counted(u64::from(needs.threads), "thread"),
        units::bytes(peak),
        units::bytes(average),
        stat::table(COLUMNS.to_vec(), rows)
    )
}

fn remark(replay: &Replay) -> String {
    if let Some(stopped) = &replay.stopped {
        return format!("not to the end: {stopped}");
    }
    match replay.refused {
        0 => String::new(),
        refused => format!("{} refused", units::counted(refused, "allocation")),
    }
}

pub fn json(file: &Path, needs: &Needs, replays: &[Replay]) -> Value {
    let allocators: Vec<Value> = replays
        .iter()
        .map(|replay| {
            json!({
                "allocator": replay.allocator,
                "peak_resident_bytes": replay.peak(),
                "average_resident_bytes": replay.average(),
                "peak_live_bytes": replay.live_peak(),
                "average_live_bytes": replay.live_average(),
                "peak_fragmentation": replay.peak_fragmentation(),
                "average_fragmentation": replay.average_fragmentation(),
                "cpu_seconds": replay.cpu_seconds,
                "wall_seconds": replay.wall_seconds,
                "refused": replay.refused,
                "stopped": replay.stopped,
                "curve": replay.samples,
            })
        })
        .collect();
    json!({
        "schema": 1,
        "trace": file.display().to_string(),
        "operations": needs.operations,
        "threads": needs.threads,
        "skipped_frees": needs.skipped,
        "allocators": allocators,
    })
}

/// Above, resident and live memory; below, the one over the other.
pub fn plot(mut out: Output, replays: &[Replay]) -> Result<()> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, PLOT).into_drawing_area();
        area.fill(&WHITE)?;
        let (above, below) = area.split_vertically(PLOT.1 * 3 / 5);
        let operations = most(replays, |sample| sample.operations as f64);
        let axis = if operations < MANY {
            (1.0, "allocations and frees")
        } else {
            (1e6, "million allocations and frees")
        };
        let megabytes = |sample: &Sample| Some(sample.resident_bytes as f64 / 1e6);
        let live = replays.first().map(|replay| {
            curve(replay, axis.0, &|sample| {
                Some(sample.live_bytes as f64 / 1e6)
            })
        });
        chart(&above, axis, "resident MB", replays, &megabytes, live)?;
        // With next to nothing live the ratio says nothing, and would hide the rest.
        let least = most(replays, |sample| sample.live_bytes as f64) / 10.0;
        let ratio = |sample: &Sample| {
            let live = sample.live_bytes as f64;
            (live > 0.0 && live >= least).then(|| sample.resident_bytes as f64 / live)
        };
        chart(&below, axis, "resident / live", replays, &ratio, None)?;
        area.present()?;
    }
    out.write_all(svg.as_bytes())
        .map_err(|error| out.blame(error.into()))?;
    Ok(out.finish()?)
}

type Points = Vec<(f64, f64)>;

/// Longer traces are shown in millions.
const MANY: f64 = 1e5;

fn curve(replay: &Replay, unit: f64, of: &dyn Fn(&Sample) -> Option<f64>) -> Points {
    let point = |sample: &Sample| Some((sample.operations as f64 / unit, of(sample)?));
    replay.samples.iter().filter_map(point).collect()
}

fn most(replays: &[Replay], of: fn(&Sample) -> f64) -> f64 {
    let samples = replays.iter().flat_map(|replay| &replay.samples);
    samples.map(of).fold(0.0, f64::max)
}

fn chart(
    area: &DrawingArea<SVGBackend, Shift>,
    (unit, what): (f64, &str),
    title: &str,
    replays: &[Replay],
    of: &dyn Fn(&Sample) -> Option<f64>,
    live: Option<Points>,
) -> Result<()> {
    let curves: Vec<Points> = replays
        .iter()
        .map(|replay| curve(replay, unit, of))
        .collect();
    let points = || curves.iter().flatten();
    let end = (most(replays, |sample| sample.operations as f64) / unit).max(1e-6);
    let top = points().fold(1e-6, |top: f64, point| top.max(point.1)) * 1.05;
    let mut chart = axes(area, (end, top), (what, title))?;
    for ((replay, points), colour) in replays.iter().zip(curves).zip(COLOURS.iter().cycle()) {
        let colour = *colour;
        chart
            .draw_series(LineSeries::new(points, &colour))?
            .label(replay.allocator.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    if let Some(live) = live {
        chart
            .draw_series(LineSeries::new(live, &BLACK))?
            .label("live")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
