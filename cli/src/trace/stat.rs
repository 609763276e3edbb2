//! `pagewise trace stat`: what is in a trace.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use rustc_hash::FxHashMap;
use serde::Serialize;
use textplots::{AxisBuilder, Chart, LabelBuilder, LabelFormat, Plot, Shape};
use trace_analysis::analysis::{
    Analysis, Moment, PageFigures, Point, SiteFigures, knows_temporary,
};
use trace_format::{FrameId, Properties, SiteId, SiteTable};

use super::{input, reading, recorded_on};
use crate::commandline::StatArguments;
use crate::ending::Ending;
use crate::report::json::{Destination, publish};
use crate::report::plain::plain;
use crate::report::units;

const PLOT_WIDTH: u32 = 120;
const PLOT_HEIGHT: u32 = 40;
const SITE_WIDTH: usize = 60;

pub fn stat(arguments: &StatArguments) -> Result<Ending> {
    let destination = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let mut trace = input::open(&arguments.file)?;
    let found = reading::analyse(&mut trace, &arguments.file, arguments.at)?;
    let mut text = head(&found, trace.properties());
    text.push_str(&curve(&found));
    text.push_str(&histograms(&found));
    text.push_str(&sites(&found, trace.properties(), trace.sites(), arguments));
    let figures = report(&found, trace.properties(), trace.sites(), arguments);
    publish(&text, destination, &figures)?;
    Ok(Ending::Exit(0))
}

/// The executable, where its name is not the command's: what a link leads to.
pub fn other_program(properties: &Properties) -> Option<&str> {
    let program = properties.get("program")?;
    let started = properties.get("command")?.split(' ').next()?;
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    (name(program) != name(started)).then_some(program)
}

fn head(found: &Analysis, properties: &Properties) -> String {
    let mut text = String::new();
    for name in [
        "command",
        "program",
        "recorder",
        "allocator",
        "start",
        "ended",
    ] {
        let value = match name {
            "program" => other_program(properties).map(str::to_owned),
            "allocator" => recorded_on::allocator(properties),
            _ => properties.get(name).map(str::to_owned),
        };
        if let Some(value) = value {
            let _ = writeln!(text, "{name:<10}{}", plain(&value));
        }
    }
    let _ = writeln!(
        text,
        "{:<10}{}: {} of {}, {}; {}, {}",
        "events",
        units::count(found.events),
        units::counted(found.total.allocations as u64, "allocation"),
        units::bytes(found.total.allocated_bytes),
        units::counted(found.total.frees as u64, "free"),
        units::counted(u64::from(found.threads), "thread"),
        units::seconds(found.seconds),
    );
    if found.assigns + found.roots + found.jumps > 0 {
        let _ = writeln!(
            text,
            "{:<10}{} assignments, {} changes of roots, {} jumps",
            "",
            units::count(found.assigns),
            units::count(found.roots),
            units::count(found.jumps)
        );
    }
    if let Some(sample) = properties.number("sample-bytes").filter(|bytes| *bytes > 0) {
        let _ = writeln!(
            text,
            "{:<10}one in {} bytes: figures are estimates",
            "sampled",
            units::count(sample)
        );
    }
    let dropped = |name| properties.number(name).unwrap_or(0);
    for (name, number) in [
        (
            "dropped",
            dropped("dropped-allocations").saturating_add(dropped("dropped-frees")),
        ),
        ("children", dropped("lost-children")),
        ("unnamed", dropped("lost-modules")),
        ("damaged", dropped("damaged-chunks")),
        ("foreign", dropped("foreign-frees")),
        ("twice", found.double_frees),
    ] {
        let what = match name {
            "dropped" => "events that the recorder could not keep",
            "children" => "forked processes that could not be recorded",
            "unnamed" => "times a place could not be named, as too many libraries had been loaded",
            "damaged" => "chunks of the recording that end early: what comes after is missing",
            "foreign" => "frees of blocks that are not in the trace",
            _ => "frees of what had been freed before",
        };
        if number > 0 {
            let _ = writeln!(text, "{name:<10}{} {what}", units::count(number));
        }
    }
    if found.has_ends() {
        let _ = writeln!(
            text,
            "{:<10}{} at the peak, {} at the end",
            "live",
            units::bytes(found.peak.live_bytes),
            units::bytes(found.curve.last().map_or(0.0, |point| point.live_bytes))
        );
    } else {
        let _ = writeln!(
            text,
            "{:<10}not known: the collector's work is not in a trace",
            "live"
        );
    }
    if knows_temporary(properties) {
        let _ = writeln!(
            text,
            "{:<10}{} of allocations are freed before their thread makes another",
            "temporary",
            percent(found.total.temporary, found.total.allocations)
        );
    }
    if let Some(pages) = &found.pages
        && found.has_ends()
    {
        let _ = writeln!(
            text,
            "{:<10}{} held by {} of live blocks after event {}; {} pages are less than a quarter full",
            "pages",
            units::bytes(pages.held_bytes as f64),
            units::bytes(found.total.live_bytes),
            units::count(found.moment.event),
            units::count(pages.sparse_pages)
        );
    }
    text
}

/// Live bytes over time, in braille.
pub fn curve(found: &Analysis) -> String {
    if !found.has_ends() || found.curve.len() < 3 || found.peak.live_bytes <= 0.0 {
        return String::new();
    }
    let unit = if found.peak.live_bytes < 1e6 {
        (1e3, "kB")
    } else {
        (1e6, "MB")
    };
    let has_time = found.seconds > 0.0;
    let points: Vec<(f32, f32)> = found
        .curve
        .iter()
        .map(|point| {
            let x = if has_time {
                point.seconds
            } else {
                point.event as f64
            };
            (x as f32, (point.live_bytes / unit.0) as f32)
        })
        .collect();
    let end = points
        .last()
        .map_or(1.0, |point| point.0)
        .max(f32::MIN_POSITIVE);
    let top = (found.peak.live_bytes / unit.0) as f32;
    let shape = Shape::Steps(&points);
    let mut chart = Chart::new_with_y_range(PLOT_WIDTH, PLOT_HEIGHT, 0.0, end, 0.0, top);
    let chart = chart
        .lineplot(&shape)
        .x_axis_style(textplots::LineStyle::None)
        .y_axis_style(textplots::LineStyle::None)
        .x_label_format(LabelFormat::Value)
        .y_label_format(LabelFormat::Value);
    chart.axis();
    chart.figures();
    let axis = if has_time { "seconds" } else { "events" };
    format!("\nlive {} over {axis}\n{chart}\n", unit.1)
}

fn histograms(found: &Analysis) -> String {
    let mut text = String::from("\nsizes                              ");
    let has_lifetimes = found.total.frees > 0.0;
    text.push_str(if has_lifetimes {
        "lifetimes, in bytes allocated meanwhile\n"
    } else {
        "\n"
    });
    let total = found.total.allocations.max(1.0);
    let sizes: Vec<String> = found
        .sizes
        .iter()
        .filter(|(_, count)| count / total >= 0.001)
        .map(|(class, count)| {
            bar(
                &format!("to {}", units::bytes(*class as f64)),
                count / total,
            )
        })
        .collect();
    let frees = found.total.frees.max(1.0);
    let names = ["1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB", "1 GB"];
    let lifetimes: Vec<String> = found
        .lifetimes
        .iter()
        .enumerate()
        .filter(|_| has_lifetimes)
        .map(|(class, count)| {
            let name = names
                .get(class)
                .map_or_else(|| "more".into(), |name| format!("to {name}"));
            bar(&name, count / frees)
        })
        .collect();
    for row in 0..sizes.len().max(lifetimes.len()) {
        let left = sizes.get(row).map_or("", String::as_str);
        let right = lifetimes.get(row).map_or("", String::as_str);
        let pad = 35_usize.saturating_sub(left.chars().count());
        let _ = writeln!(
            text,
            "{}",
            format!("{left}{}{right}", " ".repeat(pad)).trim_end()
        );
    }
    text
}

fn bar(name: &str, share: f64) -> String {
    let blocks = "▇".repeat((share * 12.0).ceil() as usize);
    format!("{name:>11} {:>5.1} % {blocks}", share * 100.0)
}

/// Sites that are shown as one.
pub struct Group {
    /// One of them.
    pub site: SiteId,
    pub sites: Vec<SiteId>,
    pub figures: SiteFigures,
}

/// Sites in order of what they allocated, those at one place (or with one stack) together unless `is_split`.
pub fn groups(found: &Analysis, known: &SiteTable, is_split: bool) -> Vec<Group> {
    let mut places: FxHashMap<(String, Vec<FrameId>), usize> = FxHashMap::default();
    let mut groups: Vec<Group> = Vec::new();
    for (site, figures) in found.sites.iter().enumerate() {
        if figures.allocations <= 0.0 {
            continue;
        }
        let site = site as SiteId;
        let frames = known.frame_ids(site);
        let kind = known
            .get(site)
            .map_or_else(String::new, |site| site.kind.to_owned());
        let next = groups.len();
        let place = if is_split || (frames.is_empty() && kind.is_empty()) {
            next
        } else {
            *places.entry((kind, frames.to_vec())).or_insert(next)
        };
        if place == next {
            groups.push(Group {
                site,
                sites: Vec::new(),
                figures: SiteFigures::default(),
            });
        }
        groups[place].sites.push(site);
        groups[place].figures.add(figures);
    }
    groups.sort_by(|a, b| {
        b.figures
            .allocated_bytes
            .total_cmp(&a.figures.allocated_bytes)
    });
    groups
}

fn describe(group: &Group, known: &SiteTable, is_split: bool) -> String {
    if is_split {
        known.describe(group.site)
    } else {
        known.describe_place(group.site)
    }
}

pub fn percent(part: f64, whole: f64) -> String {
    format!("{:.0} %", 100.0 * part / whole.max(1.0))
}

fn sites(
    found: &Analysis,
    properties: &Properties,
    known: &SiteTable,
    arguments: &StatArguments,
) -> String {
    let knows_temporary = knows_temporary(properties);
    let mut groups = groups(found, known, arguments.split);
    let has_ends = found.has_ends();
    if has_ends && arguments.at == Moment::End {
        // What is live at the end was asked for: a leak may be a small part of what was allocated.
        groups.sort_by(|a, b| b.figures.live_bytes.total_cmp(&a.figures.live_bytes));
    }
    let mut header = vec!["allocated", "", "allocations", "mean"];
    let at = match arguments.at {
        Moment::Peak => "live at peak",
        Moment::Pinned => "live at worst",
        Moment::End => "live at end",
    };
    if has_ends {
        header.extend([at, "pins", "lives"]);
    }
    if knows_temporary {
        header.push("temporary");
    }
    header.push("site");
    let mut rows = Vec::new();
    for group in groups.iter().take(arguments.top) {
        let figures = &group.figures;
        let share = figures.allocated_bytes / found.total.allocated_bytes.max(1.0);
        let mut row = vec![
            units::bytes(figures.allocated_bytes),
            format!("{:.1} %", share * 100.0),
            units::count(figures.allocations as u64),
            units::bytes(figures.allocated_bytes / figures.allocations.max(1.0)),
        ];
        if has_ends {
            row.push(units::bytes(figures.live_bytes));
            row.push(units::bytes(figures.pinned_bytes));
            row.push(if figures.frees > 0.0 {
                units::bytes(figures.lifetimes / figures.frees)
            } else {
                "-".into()
            });
        }
        if knows_temporary {
            row.push(percent(figures.temporary, figures.allocations));
        }
        row.push(shortened(&plain(&describe(group, known, arguments.split))));
        rows.push(row);
    }
    let what = if arguments.split { "site" } else { "place" };
    let all: usize = groups.iter().map(|group| group.sites.len()).sum();
    let of = if arguments.split {
        String::new()
    } else {
        format!(" with {}", units::counted(all as u64, "site"))
    };
    format!(
        "\n{} of {}{of}, by what was allocated there\n{}\n",
        groups.len().min(arguments.top),
        units::counted(groups.len() as u64, what),
        table(header, rows)
    )
}

/// Columns of figures and, last, of text.
pub fn table(header: Vec<&str>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    let last = table.column_count().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        if index < last {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

pub fn shortened(text: &str) -> String {
    if text.chars().count() <= SITE_WIDTH {
        return text.to_owned();
    }
    // Function, file and key stand at either end of long names.
    let chars: Vec<char> = text.chars().collect();
    let half = SITE_WIDTH / 2 - 1;
    let start: String = chars[..half].iter().collect();
    let end: String = chars[chars.len() - half..].iter().collect();
    format!("{start}..{end}")
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    properties: std::collections::BTreeMap<&'a str, &'a str>,
    events: u64,
    allocations: f64,
    allocated_bytes: f64,
    frees: f64,
    /// Null where it is not known.
    temporary_allocations: Option<f64>,
    assigns: u64,
    root_changes: u64,
    jumps: u64,
    threads: u32,
    seconds: f64,
    double_frees: u64,
    /// Null for a program with a collector.
    peak_live_bytes: Option<f64>,
    at: Moment,
    moment: Point,
    pages: Option<PageFigures>,
    sites: Vec<SiteReport>,
    curve: &'a [Point],
}

#[derive(Serialize)]
struct SiteReport {
    /// One of them, where several were put together.
    site: SiteId,
    sites: usize,
    description: String,
    /// Null where it is not known.
    temporary_allocations: Option<f64>,
    #[serde(flatten)]
    figures: SiteFigures,
}

fn report<'a>(
    found: &'a Analysis,
    properties: &'a Properties,
    known: &SiteTable,
    arguments: &StatArguments,
) -> Report<'a> {
    let groups = groups(found, known, arguments.split);
    Report {
        schema: 1,
        properties: properties.iter().collect(),
        events: found.events,
        allocations: found.total.allocations,
        allocated_bytes: found.total.allocated_bytes,
        frees: found.total.frees,
        temporary_allocations: knows_temporary(properties).then_some(found.total.temporary),
        assigns: found.assigns,
        root_changes: found.roots,
        jumps: found.jumps,
        threads: found.threads,
        seconds: found.seconds,
        double_frees: found.double_frees,
        peak_live_bytes: found.has_ends().then_some(found.peak.live_bytes),
        at: arguments.at,
        moment: found.moment,
        pages: found.pages,
        sites: groups
            .into_iter()
            .take(arguments.top)
            .map(|group| SiteReport {
                site: group.site,
                sites: group.sites.len(),
                description: describe(&group, known, arguments.split),
                temporary_allocations: knows_temporary(properties)
                    .then_some(group.figures.temporary),
                figures: group.figures,
            })
            .collect(),
        curve: &found.curve,
    }
}
