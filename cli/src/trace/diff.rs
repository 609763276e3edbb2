//! `pagewise trace diff`: what each place holds more or less than in another recording.

mod page;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use trace_analysis::analysis::{Analysis, Moment, SiteFigures};
use trace_analysis::diff::{Change, Diff, Measure, Side, diff as compare};
use trace_format::Properties;

use super::losses::Losses;
use super::output::Output;
use super::{input, kinship, reading, recorded_on, report, stat};
use crate::commandline::DiffArguments;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::report::json::{Destination, publish};
use crate::report::page::document::Table;
use crate::report::plain::plain;
use crate::report::units;
use crate::tell::tell;

pub fn diff(arguments: &DiffArguments) -> Result<Ending> {
    let destination = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let page = arguments.html.as_deref().map(Output::open).transpose()?;
    let mut before = input::open(&arguments.before)?;
    let mut after = input::open(&arguments.after)?;
    let was = reading::analyse(&mut before, &arguments.before, arguments.at)?;
    let is = reading::analyse(&mut after, &arguments.after, arguments.at)?;
    let sides = [
        Side {
            found: &was,
            sites: before.sites(),
            properties: before.properties(),
        },
        Side {
            found: &is,
            sites: after.sites(),
            properties: after.properties(),
        },
    ];
    let measures = measures(&sides);
    let by = chosen(arguments, &measures)?;
    let with_callers = kinship::are_alike(before.properties(), after.properties());
    let mut found = compare(&sides[0], &sides[1], with_callers);
    found
        .changes
        .sort_by(|a, b| b.of(by).abs().total_cmp(&a.of(by).abs()));
    let comparison = Comparison {
        arguments,
        warnings: warnings(&sides, &found, with_callers),
        with_callers,
        sides,
        found,
        measures,
        by,
    };
    for warning in &comparison.warnings {
        tell(&plain(warning));
    }
    if let Some(mut out) = page {
        let written = out.write_all(comparison.html()?.as_bytes());
        written.map_err(|error| out.blame(error.into()))?;
        out.finish()?;
    } else {
        publish(&comparison.text(), destination, &comparison.figures())?;
    }
    Ok(Ending::Exit(0))
}

/// What both traces tell.
fn measures(sides: &[Side; 2]) -> Vec<Measure> {
    let have = |known: fn(&Analysis) -> bool| sides.iter().all(|side| known(side.found));
    let mut measures = vec![Measure::Allocated, Measure::Number];
    if have(Analysis::has_ends) {
        measures.insert(0, Measure::Live);
        if have(|found| found.pages.is_some()) {
            measures.push(Measure::Pinned);
        }
    }
    measures
}

fn chosen(arguments: &DiffArguments, known: &[Measure]) -> Result<Measure, Failure> {
    let Some(by) = arguments.by else {
        return Ok(known[0]);
    };
    if known.contains(&by) {
        return Ok(by);
    }
    let what = match by {
        Measure::Pinned => "which pages are held",
        _ => "what was live",
    };
    Err(Failure::new(
        format!("one of the two traces does not tell {what}"),
        "--by allocated",
    )
    .kept("nothing was changed"))
}

/// Why the two recordings are not, or not quite, of the same thing.
fn warnings(sides: &[Side; 2], found: &Diff, with_callers: bool) -> Vec<String> {
    let [before, after] = sides;
    let mut said = Vec::new();
    let names = sides.each_ref().map(|side| programs(side.properties));
    let share_one = names[0].iter().any(|name| names[1].contains(name));
    if !share_one && !names[0].is_empty() && !names[1].is_empty() {
        said.push(format!(
            "these are recordings of other programs, {} and {}: what differs need not be a change",
            names[0][0], names[1][0]
        ));
    }
    let rates = sides.each_ref().map(|side| sample(side.properties));
    if rates[0] != rates[1] {
        said.push(format!(
            "A {}, B {}: figures are estimates, and differ by chance alone; record both with the same --sample",
            rate(rates[0]),
            rate(rates[1])
        ));
    }
    let allocators = sides
        .each_ref()
        .map(|side| recorded_on::allocator(side.properties));
    if let [Some(was), Some(is)] = allocators
        && was != is
    {
        said.push(format!(
            "A ran on {was}, B on {is}: which pages are held is the allocators' doing as well"
        ));
    }
    if !with_callers {
        said.push(format!(
            "A is {}, B {}: places are the calls that allocated, without their callers",
            kinship::manner(before.properties),
            kinship::manner(after.properties)
        ));
    }
    if !found.rebuilt.is_empty() {
        said.push(format!(
            "built anew between the two: {}; its places are matched by function, the calls of one function together",
            found.rebuilt.join(", ")
        ));
    }
    for (name, side) in [("A", before), ("B", after)] {
        let losses = Losses::of(side.properties).in_words();
        if !losses.is_empty() {
            said.push(format!("{name}: {}", losses.join("; ")));
        }
        if let Some(excerpt) = side.properties.get("excerpt") {
            said.push(format!("{name} is a part of a recording: {excerpt}"));
        }
    }
    let is_known = |change: &Change| change.before.is_some() && change.after.is_some();
    if !found.changes.is_empty() && !found.changes.iter().any(is_known) {
        said.push("the two have no place in common".into());
    }
    said
}

/// The names of the program: by which it was started, and its file's.
fn programs(properties: &Properties) -> Vec<&str> {
    let started = properties
        .get("command")
        .and_then(|command| command.split(' ').next());
    let paths = started.into_iter().chain(properties.get("program"));
    paths
        .map(|path| path.rsplit('/').next().unwrap_or(path))
        .collect()
}

fn sample(properties: &Properties) -> u64 {
    properties.number("sample-bytes").unwrap_or(0)
}

fn rate(bytes: u64) -> String {
    match bytes {
        0 => "has every allocation".into(),
        bytes => format!("is a sample of one in {} bytes", units::count(bytes)),
    }
}

/// The two traces beside each other.
struct Comparison<'a> {
    arguments: &'a DiffArguments,
    sides: [Side<'a>; 2],
    found: Diff,
    measures: Vec<Measure>,
    by: Measure,
    with_callers: bool,
    warnings: Vec<String>,
}

impl Comparison<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, head) in self.heads() {
            let _ = writeln!(text, "{name}  {head}");
        }
        let _ = writeln!(
            text,
            "\n{}",
            report::wrapped(&self.answer(), report::WIDTH).join("\n")
        );
        if let Some(summary) = self.summary() {
            let rows = self.rows().map(report::with_short_place);
            let table = stat::table(self.header(), rows);
            let _ = writeln!(text, "\n{summary}\n{table}");
        }
        text
    }

    fn html(&self) -> Result<String> {
        let columns = self.header();
        let summary = self.summary();
        page::html(&page::Page {
            answer: self.answer(),
            warnings: &self.warnings,
            heads: self.heads(),
            found: self.sides.each_ref().map(|side| side.found),
            places: summary.as_ref().map(|summary| Table {
                id: "places",
                title: "Places",
                columns: &columns,
                rows: self.rows().collect(),
                note: summary,
            }),
        })
    }

    fn heads(&self) -> [(&'static str, String); 2] {
        let [before, after] = &self.sides;
        [
            ("A", self.head(&self.arguments.before, before)),
            ("B", self.head(&self.arguments.after, after)),
        ]
    }

    fn changed(&self) -> impl Iterator<Item = &Change> {
        self.found.changes.iter().filter(|one| !one.is_none())
    }

    /// What the table has; none where nothing differs.
    fn summary(&self) -> Option<String> {
        let count = self.changed().count();
        (count > 0).then(|| {
            format!(
                "{} of {} that differ, by {}",
                count.min(self.arguments.top),
                units::counted(count as u64, "place"),
                self.title(self.by)
            )
        })
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        let shown = self.changed().take(self.arguments.top);
        shown.map(|change| self.row(change))
    }

    fn head(&self, file: &Path, side: &Side) -> String {
        let command = side.properties.get("command").unwrap_or("not known");
        let total = &side.found.total;
        let mut line = format!(
            "{}: {}; {} of {}",
            file.display(),
            plain(command),
            units::counted(total.allocations as u64, "allocation"),
            units::bytes(total.allocated_bytes)
        );
        if self.measures.contains(&Measure::Live) {
            let _ = write!(
                line,
                ", {} {}",
                units::bytes(total.live_bytes),
                self.title(Measure::Live)
            );
        }
        line
    }

    /// How much in all, and where most of it is.
    fn answer(&self) -> String {
        let [was, is] = self
            .sides
            .each_ref()
            .map(|side| self.by.of(&side.found.total));
        let title = self.title(self.by);
        let mut answer = match is - was {
            0.0 => {
                format!("{title}: the same in B as in A, {}.", self.amount(is))
            }
            change => format!(
                "{title}: {} in B, {} in A, {}.",
                self.amount(is),
                self.amount(was),
                self.signed(change)
            ),
        };
        if let Some(most) = self
            .found
            .changes
            .first()
            .filter(|one| one.of(self.by) != 0.0)
        {
            let _ = write!(
                answer,
                " The largest change is at {}: {}.",
                self.place(most),
                self.signed(most.of(self.by))
            );
        }
        for (what, is_so) in [
            ("New in B", Change::is_new as fn(&Change) -> bool),
            ("No more in B", Change::has_vanished),
        ] {
            let these = || self.found.changes.iter().filter(|one| is_so(one));
            let count = these().count() as u64;
            if count > 0 {
                let sum = these().map(|one| one.of(self.by)).sum();
                let _ = write!(
                    answer,
                    " {what}: {}, {}.",
                    units::counted(count, "place"),
                    self.signed(sum)
                );
            }
        }
        answer
    }

    fn header(&self) -> Vec<&'static str> {
        let others = self.others().map(|measure| self.title(measure));
        let first = [self.title(self.by), "A", "B"].into_iter();
        first.chain(others).chain(["", "place"]).collect()
    }

    fn row(&self, change: &Change) -> Vec<String> {
        let mut row = vec![
            self.signed(change.of(self.by)),
            self.amount(self.by.of(&change.was)),
            self.amount(self.by.of(&change.is)),
        ];
        row.extend(
            self.others()
                .map(|measure| signed(change.of(measure), measure)),
        );
        row.push(state(change).unwrap_or("").into());
        row.push(self.place(change));
        row
    }

    fn others(&self) -> impl Iterator<Item = Measure> {
        let by = self.by;
        self.measures.iter().copied().filter(move |&one| one != by)
    }

    fn title(&self, measure: Measure) -> &'static str {
        match (measure, self.arguments.at) {
            (Measure::Live, Moment::Peak) => "live at peak",
            (Measure::Live, Moment::Pinned) => "live at worst",
            (Measure::Live, Moment::End) => "live at end",
            (Measure::Allocated, _) => "allocated",
            (Measure::Number, _) => "allocations",
            (Measure::Pinned, _) => "pins",
        }
    }

    fn place(&self, change: &Change) -> String {
        let [before, after] = &self.sides;
        let (sites, site) = match (change.after, change.before) {
            (Some(site), _) => (after.sites, site),
            (None, site) => (before.sites, site.unwrap_or_default()),
        };
        match self.with_callers {
            true => report::place(site, sites),
            false => plain(&sites.describe_place(site)),
        }
    }

    fn amount(&self, value: f64) -> String {
        amount(value, self.by)
    }

    fn signed(&self, value: f64) -> String {
        signed(value, self.by)
    }

    fn figures(&self) -> Figures<'_> {
        let all = &self.found.changes;
        let shown = all.iter().filter(|one| !one.is_none());
        let count = |is_so: fn(&Change) -> bool| all.iter().filter(|one| is_so(one)).count();
        let [before, after] = &self.sides;
        Figures {
            schema: 1,
            before: TraceFigures::of(&self.arguments.before, before),
            after: TraceFigures::of(&self.arguments.after, after),
            warnings: &self.warnings,
            at: self.arguments.at,
            by: self.by,
            places: all.len(),
            new: count(Change::is_new),
            vanished: count(Change::has_vanished),
            same: count(Change::is_none),
            changes: shown
                .take(self.arguments.top)
                .map(|change| ChangeFigures {
                    place: self.place(change),
                    state: state(change),
                    before: &change.was,
                    after: &change.is,
                    live_bytes: change.of(Measure::Live),
                    allocated_bytes: change.of(Measure::Allocated),
                    allocations: change.of(Measure::Number),
                    pinned_bytes: change.of(Measure::Pinned),
                })
                .collect(),
        }
    }
}

fn state(change: &Change) -> Option<&'static str> {
    match change {
        change if change.is_new() => Some("new"),
        change if change.has_vanished() => Some("vanished"),
        _ => None,
    }
}

fn amount(value: f64, measure: Measure) -> String {
    match measure {
        Measure::Number => units::count(value.round() as u64),
        _ => units::bytes(value),
    }
}

fn signed(value: f64, measure: Measure) -> String {
    match value {
        value if value > 0.0 => format!("+{}", amount(value, measure)),
        value if value < 0.0 => format!("-{}", amount(-value, measure)),
        _ => "0".into(),
    }
}

#[derive(Serialize)]
struct Figures<'a> {
    schema: u32,
    before: TraceFigures<'a>,
    after: TraceFigures<'a>,
    warnings: &'a [String],
    at: Moment,
    by: Measure,
    places: usize,
    new: usize,
    vanished: usize,
    /// In both, with the same figures.
    same: usize,
    changes: Vec<ChangeFigures<'a>>,
}

#[derive(Serialize)]
struct TraceFigures<'a> {
    trace: String,
    command: Option<&'a str>,
    program: Option<&'a str>,
    sample_bytes: u64,
    #[serde(flatten)]
    total: &'a SiteFigures,
}

impl<'a> TraceFigures<'a> {
    fn of(file: &Path, side: &Side<'a>) -> Self {
        Self {
            trace: file.display().to_string(),
            command: side.properties.get("command"),
            program: side.properties.get("program"),
            sample_bytes: sample(side.properties),
            total: &side.found.total,
        }
    }
}

#[derive(Serialize)]
struct ChangeFigures<'a> {
    place: String,
    /// Null: it is in both.
    state: Option<&'static str>,
    before: &'a SiteFigures,
    after: &'a SiteFigures,
    live_bytes: f64,
    allocated_bytes: f64,
    allocations: f64,
    pinned_bytes: f64,
}
