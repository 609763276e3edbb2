//! `pagewise trace report`: which call sites pin my pages?

mod page;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use trace_analysis::analysis::{Analysis, Moment, PageFigures, WithoutPages};
use trace_analysis::flame::Flame;
use trace_analysis::pages::PAGE;
use trace_analysis::what_if::Outcome;
use trace_format::{Properties, SiteId, SiteTable};

use super::folded;
use super::input;
use super::losses::Losses;
use super::output::Output;
use super::reading;
use super::stat::{self, Group};
use crate::commandline::ReportArguments;
use crate::ending::Ending;
use crate::report::json::publish;
use crate::report::plain::plain;
use crate::report::units;

/// Of the pages held in the model: less is not worth a change.
const WORTHWHILE: f64 = 0.02;
/// Where little is held, chance moves more than a share of it.
const WORTHWHILE_PAGES: f64 = 16.0;
/// Where another allocator would hold less than this part of the pages, no layout in this one is the answer.
const OTHER_ALLOCATOR: f64 = 0.5;
/// Of a stack's frames so many are shown.
const FRAMES: usize = 4;
/// Of a stack in the table.
const STACK_WIDTH: usize = 96;
/// Of lines on a terminal.
pub const WIDTH: usize = 110;

/// What the recorder knows of the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stacks {
    No,
    ByFramePointers,
    Whole,
}

impl Stacks {
    fn of(properties: &Properties) -> Self {
        let has_stacks = properties
            .get("site")
            .is_some_and(|site| site.starts_with("stack"));
        match properties.get("stacks") {
            _ if !has_stacks => Self::No,
            Some("unwind-tables") => Self::Whole,
            _ => Self::ByFramePointers,
        }
    }
}

/// One place and what a group of its own would do.
struct Row {
    place: String,
    live_objects: f64,
    live_bytes: f64,
    pinned_bytes: f64,
    lifetime: Option<f64>,
    /// Positive: pages given back.
    saved_bytes: f64,
    saved_by_chance: f64,
}

impl Row {
    /// Better than no group, by enough, and than a random group by as much.
    fn helps(&self, held: f64) -> bool {
        let least = (WORTHWHILE * held).max(WORTHWHILE_PAGES * PAGE as f64);
        self.saved_bytes > least && self.saved_bytes - self.saved_by_chance > least
    }
}

struct Report {
    head: Vec<(&'static str, String)>,
    rows: Vec<Row>,
    model_bytes: f64,
    found: Analysis,
    at: Moment,
    /// How sites were told apart.
    stacks: Stacks,
    /// Commands for what this page does not say.
    next: [String; 4],
}

pub fn report(arguments: &ReportArguments) -> Result<Ending> {
    if let Some(kind) = arguments.folded {
        return folded::folded(arguments, kind);
    }
    let at = arguments.at.unwrap_or(Moment::Pinned);
    let out = arguments.html.as_deref().map(Output::open).transpose()?;
    let mut trace = input::open(&arguments.file)?;
    let found = reading::analyse(&mut trace, &arguments.file, at)?;
    let pages = found.pages.filter(|_| found.has_ends());
    let pages = pages.ok_or_else(|| {
        reading::without_pages(&arguments.file, WithoutPages::of(trace.properties()))
    })?;
    let mut groups = stat::groups(&found, trace.sites(), false);
    groups.sort_by(|a, b| b.figures.pinned_bytes.total_cmp(&a.figures.pinned_bytes));
    groups.retain(|group| group.figures.pinned_bytes > 0.0);
    groups.truncate(arguments.top);
    let members = members(&found, trace.sites(), &groups);
    let outcome = reading::what_if(&mut trace, &arguments.file, found.moment.event, &members)?;
    let mut rows = rows(&groups, trace.sites(), &outcome);
    tell_apart(&mut rows, &groups, trace.sites());
    let mut head = head(&found, &pages, trace.properties(), at);
    let held = units::bytes(outcome.ungrouped_bytes as f64);
    head.push((
        "model",
        format!("an allocator with size classes would hold {held} of pages for the same blocks"),
    ));
    let losses = Losses::of(trace.properties()).in_words();
    if !losses.is_empty() {
        head.push(("lost", losses.join("; ")));
    }
    let report = Report {
        head,
        rows,
        model_bytes: outcome.ungrouped_bytes as f64,
        found,
        at,
        stacks: Stacks::of(trace.properties()),
        next: next(&arguments.file),
    };
    if let Some(mut out) = out {
        let peak = reading::at_peak(&mut trace, &arguments.file, &report.found)?;
        let flame = Flame {
            found: &report.found,
            peak: &peak,
            sites: trace.sites(),
        };
        let written = out.write_all(page::html(&page_of(&report), &flame)?.as_bytes());
        written.map_err(|error| out.blame(error.into()))?;
        out.finish()?;
    } else {
        publish(&text(&report), None, &())?;
    }
    Ok(Ending::Exit(0))
}

/// The sites of each group, and its share of all allocations.
fn members(found: &Analysis, known: &SiteTable, groups: &[Group]) -> Vec<(Vec<SiteId>, f64)> {
    let place = |site: SiteId| (known.frame_ids(site), known.get(site).map(|site| site.kind));
    let all = found.total.allocations.max(1.0);
    groups
        .iter()
        .map(|group| {
            let is_bare = known.frame_ids(group.site).is_empty();
            let sites = (0..found.sites.len() as SiteId)
                .filter(|&site| {
                    site == group.site || (!is_bare && place(site) == place(group.site))
                })
                .collect();
            (sites, group.figures.allocations / all)
        })
        .collect()
}

fn rows(groups: &[Group], known: &SiteTable, outcome: &Outcome) -> Vec<Row> {
    let saved = |bytes: u64| outcome.ungrouped_bytes as f64 - bytes as f64;
    let outcomes = outcome.grouped_bytes.iter().zip(&outcome.random_bytes);
    groups
        .iter()
        .zip(outcomes)
        .map(|(group, (grouped, random))| Row {
            place: place(group.site, known),
            live_objects: group.figures.live_objects,
            live_bytes: group.figures.live_bytes,
            pinned_bytes: group.figures.pinned_bytes,
            lifetime: (group.figures.frees > 0.0)
                .then(|| group.figures.lifetimes / group.figures.frees),
            saved_bytes: saved(*grouped),
            saved_by_chance: saved(*random),
        })
        .collect()
}

/// A place; with stacks: who called whom, innermost first.
pub fn place(site: SiteId, known: &SiteTable) -> String {
    let mut place = plain(&known.describe_place(site));
    let site = known.get(site).unwrap_or_default();
    for pair in site.frames[..site.frames.len().min(FRAMES)].windows(2) {
        let (callee, caller) = (&pair[0], &pair[1]);
        // Of neighbours in one file its name once is enough.
        let is_plain = caller.line == 0
            && !caller.symbol.is_empty()
            && caller.module.path == callee.module.path;
        let name = match is_plain {
            true => caller.symbol.to_owned(),
            false => caller.to_string(),
        };
        let _ = write!(place, " < {}", plain(&name));
    }
    place
}

/// Of several calls on one line, or in one function without lines, the offset tells which.
fn tell_apart(rows: &mut [Row], groups: &[Group], known: &SiteTable) {
    let names: Vec<String> = rows.iter().map(|row| row.place.clone()).collect();
    let is_unique = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    for ((row, group), name) in rows.iter_mut().zip(groups).zip(&names) {
        let site = known.get(group.site).unwrap_or_default();
        if let Some(frame) = site.frames.first().filter(|_| !is_unique(name)) {
            row.place = format!("{name} at {:#x}", frame.offset);
        }
    }
}

fn head(
    found: &Analysis,
    pages: &PageFigures,
    properties: &Properties,
    at: Moment,
) -> Vec<(&'static str, String)> {
    let moment = match at {
        Moment::Peak => "when most bytes were live",
        Moment::Pinned => "when most bytes of held pages were free",
        Moment::End => "at the end of the trace",
    };
    let free = pages.held_bytes as f64 - found.total.live_bytes;
    let share = |part: f64| 100.0 * part / (pages.held_bytes as f64).max(1.0);
    let command = properties.get("command").unwrap_or("not known");
    let command = match stat::other_program(properties) {
        Some(program) => format!("{command} (the file is {program})"),
        None => command.to_owned(),
    };
    vec![
        ("command", plain(&command)),
        (
            "moment",
            format!(
                "{moment}: after event {} of {}, {} into the run",
                units::count(found.moment.event),
                units::count(found.events),
                units::seconds(found.moment.seconds)
            ),
        ),
        (
            "pages",
            format!(
                "{} held by {} of live blocks: {} ({:.0} %) are free and held all the same",
                units::bytes(pages.held_bytes as f64),
                units::bytes(found.total.live_bytes),
                units::bytes(free),
                share(free)
            ),
        ),
        (
            "pinned",
            format!(
                "{} ({:.0} %) by few survivors: {} less than a quarter full",
                units::bytes(pages.pinned_bytes as f64),
                share(pages.pinned_bytes as f64),
                units::counted(pages.sparse_pages, "page")
            ),
        ),
    ]
}

/// The answer in four sentences at most: who pins, whether another allocator or grouping helps, what to type next.
fn answer(report: &Report) -> Vec<String> {
    let Some(worst) = report.rows.first() else {
        return vec![
            "No page is held by few survivors: there is nothing to gain by another layout.".into(),
        ];
    };
    let pinned = report.found.total.pinned_bytes.max(1.0);
    let mut sentences = vec![format!(
        "{} pins most: its {} hold {} that nobody can use, {:.0} % of all that is pinned.",
        worst.place,
        units::counted(worst.live_objects as u64, "live block"),
        units::bytes(worst.pinned_bytes),
        100.0 * worst.pinned_bytes / pinned
    )];
    sentences.extend(other_allocator(report));
    sentences.push(match helpful(report).first() {
        None => format!(
            "Keeping any one of these places' blocks on pages of their own would free less than {:.0} % of the pages \
             or fewer than {}, or no more than a random group does: grouping by call site would not help here.",
            WORTHWHILE * 100.0,
            WORTHWHILE_PAGES
        ),
        Some(best) => format!(
            "Most would be freed by keeping the blocks of {} on pages of their own: {} of {} ({:.0} %). A random group \
             of as many allocations: {}.",
            best.place,
            units::bytes(best.saved_bytes),
            units::bytes(report.model_bytes),
            100.0 * best.saved_bytes / report.model_bytes.max(1.0),
            change(best.saved_by_chance)
        ),
    });
    sentences.extend(hint(&worst.place, report.stacks));
    sentences
}

/// The program's own allocator may mix sizes that others keep apart.
fn other_allocator(report: &Report) -> Option<String> {
    let held = report
        .found
        .pages
        .map_or(0.0, |pages| pages.held_bytes as f64);
    let gain = held - report.model_bytes;
    (report.model_bytes < OTHER_ALLOCATOR * held && gain > WORTHWHILE_PAGES * PAGE as f64).then(|| {
        format!(
            "An allocator with size classes would hold {} where the program's holds {}: try another one (pagewise trace \
             replay), or pagewise run --policy general.",
            units::bytes(report.model_bytes),
            units::bytes(held)
        )
    })
}

/// A name that is not the answer one hoped for: what to do about it.
fn hint(place: &str, stacks: Stacks) -> Option<String> {
    let function = place.split([' ', '(']).next().unwrap_or(place);
    if function.contains("+0x") {
        return Some(format!(
            "{function} has no name: install the debugging symbols of that file (Debian: a package -dbgsym) and record again."
        ));
    }
    let is_wrapper = ["alloc", "new", "strdup"]
        .iter()
        .any(|word| function.to_lowercase().contains(word));
    let next = match stacks {
        Stacks::Whole => return None,
        // It has shown what it can.
        Stacks::ByFramePointers if place.contains(" < ") => return None,
        Stacks::ByFramePointers => {
            "its callers have no frame pointers: record with --stacks, which does without"
        }
        Stacks::No => "record with --stacks to see its callers",
    };
    is_wrapper.then(|| format!("{function} seems to be a wrapper that many places call: {next}."))
}

fn helpful(report: &Report) -> Vec<&Row> {
    let mut rows: Vec<&Row> = report
        .rows
        .iter()
        .filter(|row| row.helps(report.model_bytes))
        .collect();
    rows.sort_by(|a, b| b.saved_bytes.total_cmp(&a.saved_bytes));
    rows
}

/// What a layout does to the pages that are held.
fn change(saved: f64) -> String {
    match saved {
        saved if saved > 0.0 => format!("frees {}", units::bytes(saved)),
        saved if saved < 0.0 => format!("costs {}", units::bytes(-saved)),
        _ => "nothing".into(),
    }
}

const COLUMNS: [&str; 8] = [
    "pins",
    "blocks",
    "live",
    "lives",
    "own pages",
    "at random",
    "helps",
    "place",
];

fn cells(row: &Row, held: f64) -> [String; 8] {
    [
        units::bytes(row.pinned_bytes),
        units::count(row.live_objects as u64),
        units::bytes(row.live_bytes),
        row.lifetime
            .map_or_else(|| "to the end".into(), units::bytes),
        change(row.saved_bytes),
        change(row.saved_by_chance),
        if row.helps(held) { "yes" } else { "no" }.into(),
        row.place.clone(),
    ]
}

const NOTE: &str = "pins: free bytes of pages less than a quarter full, shared out among the places whose blocks hold them. \
blocks, live: what of the place is live at that moment. lives: bytes that the program allocates during the life of one of its \
blocks, on average; to the end: none was freed. own pages: what keeping this place's blocks apart from all others would do, in a model of an \
allocator with size classes (lowest free place first), against the same model without groups. at random: the same for as many \
allocations drawn by chance. helps: frees at least 2 % of the pages, 16 at least, and by as much more than chance.";

/// Further questions, and who answers them.
fn next(file: &Path) -> [String; 4] {
    let file = file.display();
    [
        format!("all call sites grouped at once:  pagewise trace group {file}"),
        "(This page is of one moment, group averages over the run: a layout may help in one and not in the other.)".to_owned(),
        format!("the same in other allocators:    pagewise trace replay {file}"),
        format!("for other flame graph tools:     pagewise trace report --folded pinned {file}"),
    ]
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for sentence in answer(report) {
        let _ = writeln!(text, "{}", wrapped(&sentence, WIDTH).join("\n"));
    }
    text.push('\n');
    for (name, value) in &report.head {
        let _ = writeln!(text, "{name:<9}{value}");
    }
    text.push_str(&stat::curve(&report.found));
    if !report.rows.is_empty() {
        let rows = report.rows.iter().map(|row| {
            let mut cells = cells(row, report.model_bytes);
            cells[7] = shortened(&cells[7]);
            cells.to_vec()
        });
        let _ = writeln!(text, "\n{}", stat::table(COLUMNS.to_vec(), rows));
    }
    let _ = writeln!(text, "\n{}\n", wrapped(NOTE, WIDTH).join("\n"));
    for line in &report.next {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Of a stack its innermost callers, as many as fit.
pub fn shortened(place: &str) -> String {
    if !place.contains(" < ") {
        return stat::shortened(place);
    }
    if place.chars().count() <= STACK_WIDTH {
        return place.to_owned();
    }
    let start: String = place.chars().take(STACK_WIDTH - 2).collect();
    format!("{start}..")
}

pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

/// The same for a browser.
fn page_of(report: &Report) -> page::Page<'_> {
    let rows = report.rows.iter();
    page::Page {
        answer: answer(report),
        head: &report.head,
        columns: &COLUMNS,
        rows: rows
            .map(|row| cells(row, report.model_bytes).to_vec())
            .collect(),
        note: NOTE,
        next: &report.next,
        at: report.at,
        found: &report.found,
    }
}
