//! `pagewise trace report`: which call sites pin my pages?

pub(super) mod page;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use trace_analysis::analysis::{
    Analysis, Heap, Moment, PageFigures, WithoutPages, knows_temporary,
};
use trace_analysis::elsewhere::Holders;
use trace_analysis::flame::Flame;
use trace_analysis::pages::PAGE;
use trace_analysis::what_if::{Outcome, is_drawn};
use trace_format::{Properties, SiteId, SiteTable};

use super::folded;
use super::input;
use super::losses::Losses;
use super::output::Output;
use super::stat::{self, Group};
use super::{reading, recorded_on};
use crate::commandline::ReportArguments;
use crate::ending::Ending;
use crate::report::json::publish;
use crate::report::page::document;
use crate::report::plain::plain;
use crate::report::units;

/// Of the pages held in the model: less is not worth a change.
const WORTHWHILE: f64 = 0.02;
/// Where little is held, chance moves more than a share of it.
const WORTHWHILE_PAGES: f64 = 16.0;
/// Where another allocator would hold less than this part of the pages, no layout in this one is the answer.
const OTHER_ALLOCATOR: f64 = 0.5;
/// Of all allocations: fewer that are temporary are not worth a change.
const FEWEST_TEMPORARY: f64 = 0.01;
/// So many places at most are said to hold pages together,
const TOGETHER: usize = 4;
/// fewer where they bring this part of it,
const MOST_OF: f64 = 0.9;
/// and none where the best of them alone brings nearly as much.
const ENOUGH_MORE: f64 = 1.5;
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

/// One place, what its blocks elsewhere would do, and what a group of its own would do in a model.
struct Row {
    place: String,
    live_objects: f64,
    live_bytes: f64,
    pinned_bytes: f64,
    lifetime: Option<f64>,
    /// Bytes of pages that could go back if its blocks lay elsewhere, by the addresses that were recorded.
    alone_bytes: f64,
    /// The same with those of all rows before it, too.
    together_bytes: f64,
    /// In the model; positive: pages given back.
    saved_bytes: f64,
    saved_by_chance: f64,
}

impl Row {
    /// Better than no group, by enough, and than a random group by as much.
    fn helps(&self, held: f64) -> bool {
        let least = worthwhile(held);
        self.saved_bytes > least && self.saved_bytes - self.saved_by_chance > least
    }
}

/// Of so many bytes of held pages, less is not worth a change.
fn worthwhile(held: f64) -> f64 {
    (WORTHWHILE * held).max(WORTHWHILE_PAGES * PAGE as f64)
}

struct Report {
    head: Vec<(&'static str, String)>,
    rows: Vec<Row>,
    /// Of pages, by the addresses that were recorded.
    held_bytes: f64,
    model_bytes: f64,
    temporary: Option<Temporary>,
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
    let temporary = Temporary::of(
        &found,
        &groups,
        trace.properties(),
        trace.sites(),
        arguments.top,
    );
    groups.retain(|group| group.figures.live_objects > 0.0);
    groups.sort_by(|a, b| b.figures.pinned_bytes.total_cmp(&a.figures.pinned_bytes));
    let heap = reading::heap(&mut trace, &arguments.file, &found)?;
    keep_largest(&mut groups, &heap, arguments.top);
    let holders = Holders::of(&heap, &places(&groups)).unwrap_or_default();
    let members = members(&found, &groups);
    let outcome = reading::what_if(&mut trace, &arguments.file, found.moment.event, &members)?;
    let by_chance = by_chance(&heap, &members, &outcome);
    drop(heap);
    let mut rows = rows(&groups, trace.sites(), &outcome, &holders, &by_chance);
    tell_apart(&mut rows, &groups, trace.sites());
    let mut head = head(&found, &pages, trace.properties(), at);
    let held = units::bytes(outcome.ungrouped_bytes as f64);
    head.push((
        "model",
        format!("a model of an allocator with size classes would hold {held} of pages for the same blocks"),
    ));
    let losses = Losses::of(trace.properties()).in_words();
    if !losses.is_empty() {
        head.push(("lost", losses.join("; ")));
    }
    let report = Report {
        head,
        rows,
        held_bytes: pages.held_bytes as f64,
        model_bytes: outcome.ungrouped_bytes as f64,
        temporary,
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

/// Blocks that are freed before their thread allocates another, and where most of them come from.
struct Temporary {
    summary: String,
    rows: Vec<Vec<String>>,
}

impl Temporary {
    /// None where the trace does not tell, or has next to none.
    fn of(
        found: &Analysis,
        groups: &[Group],
        properties: &Properties,
        known: &SiteTable,
        count: usize,
    ) -> Option<Self> {
        let all = found.total.temporary;
        let fewest = (FEWEST_TEMPORARY * found.total.allocations).max(1.0);
        if !knows_temporary(properties) || all < fewest {
            return None;
        }
        let has_any = |group: &&Group| group.figures.temporary > 0.0;
        let mut most: Vec<&Group> = groups.iter().filter(has_any).collect();
        most.sort_by(|a, b| b.figures.temporary.total_cmp(&a.figures.temporary));
        most.truncate(count);
        let rows = most.iter().map(|group| {
            let figures = &group.figures;
            vec![
                units::count(figures.temporary as u64),
                stat::percent(figures.temporary, all),
                stat::percent(figures.temporary, figures.allocations),
                units::bytes(figures.allocated_bytes / figures.allocations.max(1.0)),
                place(group.site, known),
            ]
        });
        Some(Self {
            summary: format!(
                "{} of {} ({}) are temporary: freed before their thread made another. A buffer that is kept would do.",
                units::count(all as u64),
                units::counted(found.total.allocations as u64, "allocation"),
                stat::percent(all, found.total.allocations),
            ),
            rows: rows.collect(),
        })
    }
}

/// Of those of all places, of this place's allocations, and their mean size.
const TEMPORARY_COLUMNS: [&str; 5] = ["temporary", "of all", "of its own", "mean", "place"];

/// Those that pin most, or whose blocks elsewhere would let most go.
fn keep_largest(groups: &mut Vec<Group>, heap: &Heap, count: usize) {
    let holders = Holders::of(heap, &places(groups)).unwrap_or_default();
    let mut sized: Vec<(f64, Group)> = std::mem::take(groups)
        .into_iter()
        .enumerate()
        .map(|(place, group)| {
            let free = holders.free_bytes(place) as f64;
            (group.figures.pinned_bytes.max(free), group)
        })
        .filter(|(most, _)| *most > 0.0)
        .collect();
    sized.sort_by(|a, b| b.0.total_cmp(&a.0));
    sized.truncate(count);
    groups.extend(sized.into_iter().map(|(_, group)| group));
}

fn places(groups: &[Group]) -> Vec<&[SiteId]> {
    groups.iter().map(|group| &group.sites[..]).collect()
}

/// The sites of each group, and its share of all allocations.
fn members(found: &Analysis, groups: &[Group]) -> Vec<(Vec<SiteId>, f64)> {
    let all = found.total.allocations.max(1.0);
    let member = |group: &Group| (group.sites.clone(), group.figures.allocations / all);
    groups.iter().map(member).collect()
}

/// What random groups as large as these would free elsewhere.
fn by_chance(heap: &Heap, members: &[(Vec<SiteId>, f64)], outcome: &Outcome) -> Vec<f64> {
    let gain = |(group, ((_, share), own)): (usize, (&(Vec<SiteId>, f64), &u64))| {
        let drawn = |object, _| is_drawn(object, group, *share).then_some(0);
        let holders = Holders::by(heap, 1, drawn).unwrap_or_default();
        holders.gain(&[0], &[*own]) as f64
    };
    let owns = members.iter().zip(&outcome.random_own_bytes);
    owns.enumerate().map(gain).collect()
}

fn rows(
    groups: &[Group],
    known: &SiteTable,
    outcome: &Outcome,
    holders: &Holders,
    by_chance: &[f64],
) -> Vec<Row> {
    let saved = |bytes: u64| outcome.ungrouped_bytes as f64 - bytes as f64;
    let outcomes = outcome.grouped_bytes.iter().zip(&outcome.random_bytes);
    let gain = |places: &[usize]| {
        let chance: f64 = places.iter().map(|&place| by_chance[place]).sum();
        (holders.gain(places, &outcome.own_bytes) as f64 - chance).max(0.0)
    };
    groups
        .iter()
        .zip(outcomes)
        .enumerate()
        .map(|(number, (group, (grouped, random)))| Row {
            place: place(group.site, known),
            live_objects: group.figures.live_objects,
            live_bytes: group.figures.live_bytes,
            pinned_bytes: group.figures.pinned_bytes,
            lifetime: (group.figures.frees > 0.0)
                .then(|| group.figures.lifetimes / group.figures.frees),
            alone_bytes: gain(&[number]),
            together_bytes: gain(&(0..=number).collect::<Vec<_>>()),
            saved_bytes: saved(*grouped),
            saved_by_chance: saved(*random),
        })
        .collect()
}

/// A place; with stacks: who called whom, innermost first.
pub fn place(site: SiteId, known: &SiteTable) -> String {
    let mut place = plain(&known.describe_place(site));
    let site = known.get(site).unwrap_or_default();
    let frames = site.own_frames();
    for pair in frames[..frames.len().min(FRAMES)].windows(2) {
        let (callee, caller) = (&pair[0], &pair[1]);
        // Of neighbours in one file its name once is enough.
        let is_plain = caller.line == 0
            && !caller.symbol.is_empty()
            && caller.module.path == callee.module.path
            && caller.file == callee.file;
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
        if let Some(frame) = site.own_frames().first().filter(|_| !is_unique(name)) {
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
            "ran on",
            recorded_on::allocator(properties)
                .map_or_else(|| "not known".into(), |name| plain(&name)),
        ),
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

/// The answer: who pins, what its blocks elsewhere would let go, what a model says of other layouts, what to type next.
fn answer(report: &Report) -> Vec<String> {
    let by_pins = |a: &&Row, b: &&Row| a.pinned_bytes.total_cmp(&b.pinned_bytes);
    let Some(worst) = report.rows.iter().max_by(by_pins) else {
        return vec![
            "No page is held by few survivors: there is nothing to gain by another layout.".into(),
        ];
    };
    let mut sentences = Vec::new();
    if worst.pinned_bytes > 0.0 {
        sentences.push(format!(
            "{} pins most: its {} {} {} that nobody can use, {:.0} % of all that is pinned.",
            worst.place,
            units::counted(worst.live_objects as u64, "live block"),
            if worst.live_objects as u64 == 1 {
                "holds"
            } else {
                "hold"
            },
            units::bytes(worst.pinned_bytes),
            100.0 * worst.pinned_bytes / report.found.total.pinned_bytes.max(1.0)
        ));
    }
    sentences.extend(blocks_elsewhere(report, worst));
    sentences.extend(other_allocator(report));
    sentences.push(match helpful(report).first() {
        None => format!(
            "In a model of an allocator with size classes, keeping any one of these places' blocks on pages of their \
             own would free less than {:.0} % of its pages or fewer than {}, or no more than a random group does: \
             there grouping by call site would not help.",
            WORTHWHILE * 100.0,
            WORTHWHILE_PAGES
        ),
        Some(best) => format!(
            "In a model of an allocator with size classes, most would be freed by keeping the blocks of {} on pages of \
             their own: {} of {} ({:.0} %). A random group of as many allocations: {}.",
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

/// What could go back if some blocks lay elsewhere, in the allocator that was recorded.
fn blocks_elsewhere(report: &Report, worst: &Row) -> Vec<String> {
    let least = worthwhile(report.held_bytes);
    let by_gain = |a: &&Row, b: &&Row| a.alone_bytes.total_cmp(&b.alone_bytes);
    let best = report.rows.iter().max_by(by_gain).unwrap_or(worst);
    let share = |bytes: f64| 100.0 * bytes / report.held_bytes.max(1.0);
    let mut sentences = Vec::new();
    if best.alone_bytes > least {
        let whose = match std::ptr::eq(best, worst) && worst.pinned_bytes > 0.0 {
            true => "its blocks".to_owned(),
            false => format!("the blocks of {}", best.place),
        };
        sentences.push(format!(
            "With {whose} elsewhere, {} of the {} ({:.0} %) could go back to the system.",
            units::bytes(best.alone_bytes),
            units::bytes(report.held_bytes),
            share(best.alone_bytes)
        ));
    }
    // As few rows as bring nearly all that the first of them bring together.
    let first = &report.rows[..report.rows.len().min(TOGETHER)];
    let most = first.last().map_or(0.0, |row| row.together_bytes);
    let few = first
        .iter()
        .position(|row| row.together_bytes >= MOST_OF * most);
    if let Some(last) = few
        && most > least
        && last > 0
        && first[last].together_bytes > ENOUGH_MORE * best.alone_bytes
    {
        let names: Vec<&str> = first[..=last].iter().map(|row| &*row.place).collect();
        sentences.push(format!(
            "Blocks of several places lie on the same pages: with those of {} elsewhere, {} of {} ({:.0} %) could go.",
            listed(&names),
            units::bytes(first[last].together_bytes),
            units::bytes(report.held_bytes),
            share(first[last].together_bytes)
        ));
    } else if best.alone_bytes <= least {
        sentences.push(format!(
            "With the blocks of any one of these places elsewhere, less than {:.0} % of the pages or fewer than {} \
             could go back.",
            WORTHWHILE * 100.0,
            WORTHWHILE_PAGES
        ));
    }
    sentences
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} and of {last}", before.join(", of ")),
    }
}

/// The program's own allocator may mix sizes that others keep apart.
fn other_allocator(report: &Report) -> Option<String> {
    let gain = report.held_bytes - report.model_bytes;
    (report.model_bytes < OTHER_ALLOCATOR * report.held_bytes
        && gain > WORTHWHILE_PAGES * PAGE as f64)
        .then(|| {
            format!(
                "A model of an allocator with size classes would hold {} where the program's holds {}: try another one \
                 (pagewise trace replay), or pagewise run --policy general.",
                units::bytes(report.model_bytes),
                units::bytes(report.held_bytes)
            )
        })
}

/// A name that is not the answer one hoped for: what to do about it.
fn hint(place: &str, stacks: Stacks) -> Option<String> {
    let name = place.split(" < ").next().unwrap_or(place);
    let function = name.split(" (").next().unwrap_or(name);
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

const COLUMNS: [&str; 9] = [
    "pins",
    "blocks",
    "live",
    "lives",
    "elsewhere",
    "own pages",
    "at random",
    "helps",
    "place",
];

fn cells(row: &Row, held: f64) -> [String; 9] {
    [
        units::bytes(row.pinned_bytes),
        units::count(row.live_objects as u64),
        units::bytes(row.live_bytes),
        row.lifetime
            .map_or_else(|| "to the end".into(), units::bytes),
        change(row.alone_bytes),
        change(row.saved_bytes),
        change(row.saved_by_chance),
        if row.helps(held) { "yes" } else { "no" }.into(),
        row.place.clone(),
    ]
}

const NOTE: &str = "pins: free bytes of pages less than a quarter full, shared out among the places whose blocks hold them. \
blocks, live: what of the place is live at that moment. lives: bytes that the program allocates during the life of one of its \
blocks, on average; to the end: none was freed. elsewhere: bytes of pages that only this place's blocks hold, and that could go back \
if those lay elsewhere (in a pool of their own), by the addresses that were recorded, less what a random group as large would free; glibc gives them back when malloc_trim is called. \
own pages: what keeping this place's blocks apart from all others would do, in a model of an \
allocator with size classes (lowest free place first), against the same model without groups. at random: the same for as many \
allocations drawn by chance. helps: in the model, frees at least 2 % of the pages, 16 at least, and by as much more than chance.";

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
        let rows = report.rows.iter();
        let rows = rows.map(|row| with_short_place(cells(row, report.model_bytes).to_vec()));
        let _ = writeln!(text, "\n{}", stat::table(COLUMNS.to_vec(), rows));
    }
    let _ = writeln!(text, "\n{}\n", wrapped(NOTE, WIDTH).join("\n"));
    if let Some(temporary) = &report.temporary {
        let rows = temporary.rows.iter().cloned().map(with_short_place);
        let _ = writeln!(
            text,
            "{}\n\n{}\n",
            wrapped(&temporary.summary, WIDTH).join("\n"),
            stat::table(TEMPORARY_COLUMNS.to_vec(), rows)
        );
    }
    for line in &report.next {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// As a terminal has room for it.
pub fn with_short_place(mut cells: Vec<String>) -> Vec<String> {
    if let Some(place) = cells.last_mut() {
        *place = shortened(place);
    }
    cells
}

/// Of a stack its innermost callers, as many as fit.
fn shortened(place: &str) -> String {
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
        places: document::Table {
            id: "places",
            title: "Places",
            columns: &COLUMNS,
            rows: rows
                .map(|row| cells(row, report.model_bytes).to_vec())
                .collect(),
            note: NOTE,
        },
        temporary: report.temporary.as_ref().map(|temporary| document::Table {
            id: "temporary",
            title: "Temporary allocations",
            columns: &TEMPORARY_COLUMNS,
            rows: temporary.rows.clone(),
            note: &temporary.summary,
        }),
        next: &report.next,
        at: report.at,
        found: &report.found,
    }
}
