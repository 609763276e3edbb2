//! `pagewise trace simulate`: the Metis paper's interpreter on recorded traces, beside its controls.

use std::fs;
use std::path::Path;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use intervals::Interval;
use metis::algorithm::MetisOptions;
use metis::experiment::{self, Arm, ExperimentOptions, TraceInput, TraceReport};
use metis::grouping::Grouping;
use metis::heap::simulator::Malformed;
use metis::heap::{Collector, Growth, HeapOptions, NoGroups, Simulator, Stopped};
use metis::metrics::Averages;
use metis::workload::repeat::{Assignments, RepeatOptions, RootsAtEnd};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use trace_format::{Event, TraceReader};

use super::{input, kinship, progress, report};
use crate::commandline::{Layouts, SimulateArguments, SimulatedCollector};
use crate::ending::Ending;
use crate::failure::Failure;
use crate::report::json::{Destination, publish};
use crate::report::units;

/// Of a terminal's lines.
const WIDTH: usize = 110;
/// What a layout must improve to be worth something.
const DECISIVE: [&str; 2] = ["total-free-ratio", "all-holes"];

pub fn simulate(arguments: &SimulateArguments) -> Result<Ending> {
    if !arguments.train.is_empty() && arguments.train.len() != arguments.files.len() {
        return Err(Failure::new(
            "there must be as many --train FILE as traces to replay",
            "pagewise trace simulate --train a1.trace --train b1.trace a2.trace b2.trace",
        )
        .into());
    }
    if arguments.once {
        once(arguments)
    } else {
        experiment(arguments)
    }
}

/// Does the trace say itself whether it has frees?
fn told_frees(trace: &TraceReader) -> Option<bool> {
    let events = trace.properties().get("events")?;
    Some(events.split(' ').any(|event| event == "free"))
}

fn is_free(event: &Event) -> bool {
    matches!(event, Event::Free { .. })
}

/// Afterwards the trace is at its begin.
fn find_free(trace: &mut TraceReader, file: &Path) -> Result<bool, Failure> {
    let mut found = false;
    while !found {
        let unreadable = |error| input::unreadable(file, &error);
        let Some(batch) = trace.next_batch().map_err(unreadable)? else {
            break;
        };
        found = batch.events.iter().any(is_free);
    }
    trace.rewind();
    Ok(found)
}

/// Whose objects die by `frees` have no collector.
fn heap_of(arguments: &SimulateArguments, frees: bool) -> HeapOptions {
    let base = if frees {
        HeapOptions::native()
    } else {
        HeapOptions::default()
    };
    HeapOptions {
        heap_bytes: arguments.heap,
        collector: match arguments.collector {
            _ if frees => Collector::Explicit,
            SimulatedCollector::MarkSweep => Collector::MarkSweep,
            SimulatedCollector::ReferenceCounting => Collector::ReferenceCounting,
        },
        strict: arguments.strict,
        // The recorder of JVMs tells roots at allocations.
        deferred: !frees,
        ..base
    }
}

fn stopped(error: &Stopped) -> Failure {
    Failure::new(
        error.to_string(),
        "pagewise trace simulate --help, for sizes and limits",
    )
    .kept("the traces are unchanged")
}

// ---- Whole traces, once

#[derive(Serialize)]
struct Replayed {
    file: String,
    events: u64,
    allocations: u64,
    collections: u64,
    live_at_end: u64,
    peak_bytes: u64,
    heap_bytes: u64,
    seconds: f64,
    events_per_second: f64,
    impossible: Malformed,
    averages: Averages,
    stopped: Option<String>,
}

fn once(arguments: &SimulateArguments) -> Result<Ending> {
    let destination = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let mut all = Vec::new();
    for file in &arguments.files {
        all.push(replay(arguments, file)?);
    }
    publish(&once_in_words(&all), destination, &all)?;
    let failed = all.iter().any(|one| one.stopped.is_some());
    Ok(Ending::Exit(u8::from(failed)))
}

fn open(file: &Path) -> Result<TraceReader, Failure> {
    let trace = input::open(file)?;
    input::refuse_sample(
        &trace,
        file,
        "its heap would not be the program's",
        "the trace is unchanged",
    )?;
    Ok(trace)
}

fn replay(arguments: &SimulateArguments, file: &Path) -> Result<Replayed> {
    let mut trace = open(file)?;
    let frees = match told_frees(&trace) {
        Some(told) => told,
        None => find_free(&mut trace, file)?,
    };
    let mut heap =
        Simulator::new(heap_of(arguments, frees), NoGroups).map_err(|error| stopped(&error))?;
    let bar = progress::bar("replaying", trace.event_count());
    let mut end = None;
    // Of the replay alone: reading the file, and other programs' turns on the processor, are not counted.
    let mut seconds = 0.0;
    while end.is_none() {
        let unreadable = |error| input::unreadable(file, &error);
        let Some(batch) = trace.next_batch().map_err(unreadable)? else {
            break;
        };
        let start = processor_seconds();
        end = heap.run(&batch.events).err();
        seconds += processor_seconds() - start;
        bar.inc(batch.events.len() as u64);
    }
    bar.finish_and_clear();
    Ok(Replayed {
        file: file.display().to_string(),
        events: heap.events(),
        allocations: heap.allocations(),
        collections: heap.series().count,
        live_at_end: heap.objects().alive() as u64,
        peak_bytes: heap.peak_occupied_bytes(),
        heap_bytes: heap.heap_bytes(),
        seconds,
        events_per_second: heap.events() as f64 / seconds.max(1e-9),
        impossible: *heap.malformed(),
        averages: heap.series().averages(0),
        stopped: end.map(|end| end.to_string()),
    })
}

/// Of this thread.
fn processor_seconds() -> f64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0.0, |time| {
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    })
}

fn once_in_words(all: &[Replayed]) -> String {
    let mut table = table(&[
        "trace",
        "events",
        "allocations",
        "collections",
        "peak",
        "heap",
        "impossible events",
        "events/s",
    ]);
    for one in all {
        table.add_row([
            one.file.clone(),
            units::count(one.events),
            units::count(one.allocations),
            units::count(one.collections),
            units::bytes(one.peak_bytes as f64),
            units::bytes(one.heap_bytes as f64),
            impossible(&one.impossible),
            format!("{:.1} million", one.events_per_second / 1e6),
        ]);
    }
    let mut text = format!("{table}\n");
    for one in all {
        if let Some(stopped) = &one.stopped {
            text.push_str(&format!("{}: stopped: {stopped}\n", one.file));
        }
    }
    text.push_str(&format!("\n{}\n", wrapped(&soundness(all))));
    text
}

fn soundness(all: &[Replayed]) -> String {
    let worst = all.iter().max_by_key(|one| one.impossible.total());
    match worst.filter(|one| one.impossible.total() > 0) {
        None => "No event is impossible: nothing is used after the collector has found it dead, so the traces tell all references \
                 that matter here. Layouts are compared without --once."
            .to_owned(),
        Some(worst) => format!(
            "{} has {} of {} events that cannot have happened: the trace does not tell every reference in time, and figures of layouts \
             are as good as that. With --strict the replay stops at the first, and says which it is.",
            worst.file,
            units::count(worst.impossible.total()),
            units::count(worst.events)
        ),
    }
}

fn wrapped(text: &str) -> String {
    report::wrapped(text, WIDTH).join("\n")
}

fn impossible(malformed: &Malformed) -> String {
    match (malformed.total(), malformed.after_death) {
        (0, _) => "0".to_owned(),
        (all, dead) => format!("{} ({} of the dead)", units::count(all), units::count(dead)),
    }
}

// ---- The experiment

/// The events that are used of a trace, with what its sites are.
struct Loaded {
    events: Vec<Event>,
    trace: TraceReader,
}

fn load(file: &Path, count: usize) -> Result<Loaded> {
    let mut trace = open(file)?;
    let mut events = Vec::new();
    while events.len() < count {
        let unreadable = |error| input::unreadable(file, &error);
        let Some(batch) = trace.next_batch().map_err(unreadable)? else {
            break;
        };
        let left = count - events.len();
        events.extend(batch.events.iter().take(left));
    }
    Ok(Loaded { events, trace })
}

/// Gives the training trace's sites the numbers that they have in the testing trace, and says how many they have in common. Sites are
/// the same when all that is known about them is; those that only the training trace has get numbers of their own.
fn align(training: &mut Loaded, testing: &TraceReader) -> usize {
    let known = training.trace.sites().numbers_in(testing.sites());
    let first_own = testing.sites().len() as u32;
    let mut next = first_own;
    let mut renumbered: FxHashMap<u32, u32> = FxHashMap::default();
    for event in &mut training.events {
        if let Event::Allocate { site, .. } | Event::Jump { site, .. } = event {
            *site = *renumbered.entry(*site).or_insert_with(|| {
                let known = known.get(*site as usize).copied().flatten();
                known.unwrap_or_else(|| {
                    next += 1;
                    next - 1
                })
            });
        }
    }
    renumbered
        .values()
        .filter(|site| **site < first_own)
        .count()
}

/// Readings of the paper's ambiguous sentences; what is not given is as ever.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Readings {
    growth: Option<Growth>,
    metis: Option<MetisOptions>,
    assignments: Option<Assignments>,
    roots_at_end: Option<RootsAtEnd>,
}

impl Readings {
    fn of(arguments: &SimulateArguments) -> Result<Self> {
        let Some(file) = &arguments.readings else {
            return Ok(Self::default());
        };
        let wrong = |why: String| {
            let next = r#"{"metis": {"region_size": "largest-graph"}}, for instance; docs/notes/metis.md has the names"#;
            Failure::new(format!("cannot read {}: {why}", file.display()), next)
        };
        let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        Ok(serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?)
    }

    fn apply(&self, options: &mut ExperimentOptions) {
        options.heap.growth = self.growth.unwrap_or(options.heap.growth);
        options.metis = self.metis.unwrap_or(options.metis);
        let repeat = &mut options.repeat;
        repeat.assignments = self.assignments.unwrap_or(repeat.assignments);
        repeat.roots_at_end = self.roots_at_end.unwrap_or(repeat.roots_at_end);
    }
}

fn experiment(arguments: &SimulateArguments) -> Result<Ending> {
    let destination = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let readings = Readings::of(arguments)?;
    let mut reports = Vec::new();
    for (at, file) in arguments.files.iter().enumerate() {
        let testing = load(file, arguments.block)?;
        let training = match arguments.train.get(at) {
            Some(train_file) => Some(train(train_file, arguments, file, &testing)?),
            None => None,
        };
        reports.push(run(
            arguments,
            &readings,
            file,
            &testing,
            training.as_ref(),
        )?);
    }
    let traces = reports.iter().flat_map(|report| &report.traces);
    let text: String = traces.map(in_words).collect();
    publish(&text, destination, &reports)?;
    Ok(Ending::Exit(0))
}

fn train(
    path: &Path,
    arguments: &SimulateArguments,
    tested: &Path,
    testing: &Loaded,
) -> Result<Loaded> {
    // The paper's layouts learn from the first block.
    let blocks = match arguments.layouts {
        Layouts::Paper => 1,
        Layouts::All => arguments.train_blocks,
    };
    let mut training = load(path, arguments.block.saturating_mul(blocks))?;
    kinship::check(
        (path, training.trace.properties()),
        (tested, testing.trace.properties()),
    )?;
    let known = align(&mut training, &testing.trace);
    kinship::check_known(known, path, tested)?;
    Ok(training)
}

fn run(
    arguments: &SimulateArguments,
    readings: &Readings,
    file: &Path,
    testing: &Loaded,
    training: Option<&Loaded>,
) -> Result<experiment::Report> {
    let mut options = ExperimentOptions {
        heap: heap_of(
            arguments,
            told_frees(&testing.trace).unwrap_or_else(|| testing.events.iter().any(is_free)),
        ),
        repeat: RepeatOptions {
            block: arguments.block,
            repetitions: arguments.repetitions,
            ..RepeatOptions::default()
        },
        training_blocks: arguments.train_blocks,
        seeds: (1..=arguments.seeds).collect(),
        arms: arms(arguments.layouts, training.is_some()),
        foresight: arguments.layouts == Layouts::All,
        ..ExperimentOptions::default()
    };
    readings.apply(&mut options);
    let name = file.display().to_string();
    let trace = TraceInput {
        name: &name,
        testing: &testing.events,
        training: training.map(|training| &training.events[..]),
    };
    let all = options.seeds.len() * options.arms.len();
    let bar = progress::bar("simulating", all as u64);
    let report = experiment::run(&options, &[trace], |done, _| bar.set_position(done as u64))
        .map_err(|error| stopped(&error))?;
    bar.finish_and_clear();
    Ok(report)
}

fn arms(layouts: Layouts, is_trained: bool) -> Vec<Arm> {
    let mut arms = Arm::DEFAULT.to_vec();
    if layouts == Layouts::All {
        for grouping in [Grouping::Components, Grouping::Deaths] {
            arms.extend([Arm::Elsewhere(grouping), Arm::ElsewhereRandom(grouping)]);
            arms.extend([Arm::Chunks(grouping), Arm::ChunksRandom(grouping)]);
        }
        arms.extend([
            Arm::Ends,
            Arm::EndsRandom,
            Arm::Starts,
            Arm::StartsRandom,
            Arm::Selected,
            Arm::SelectedRandom,
            Arm::KnownSurvivors,
            Arm::KnownDeaths,
        ]);
    }
    if !is_trained {
        arms.retain(|arm| !arm.needs_training());
    }
    arms
}

fn in_words(report: &TraceReport) -> String {
    let mut text = format!("{}\n{}\n", report.name, layouts_table(report));
    let learned = report
        .comparisons
        .iter()
        .filter(|one| one.to.ends_with("-random") && DECISIVE.contains(&one.metric.as_str()));
    let mut table = table(&[
        "layout against its random control",
        "metric",
        "ratio",
        "difference",
    ]);
    let mut any = false;
    for one in learned {
        any = true;
        table.add_row([
            one.arm.clone(),
            one.metric.clone(),
            one.ratio
                .map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            difference(&one.difference),
        ]);
    }
    if any {
        text.push_str(&format!("\n{table}\n"));
    }
    for why in &report.left_out {
        text.push_str(&format!("left out: {why}\n"));
    }
    text.push_str(&format!("\n{}\n\n", wrapped(&conclusion(report))));
    text
}

/// Which layouts are worth something: fewer holes and less free memory than without groups, and than chance.
fn conclusion(report: &TraceReport) -> String {
    let learned: Vec<&str> = report
        .arms
        .iter()
        .map(|arm| arm.name.as_str())
        .filter(|name| {
            *name != "no-groups" && !name.ends_with("-random") && !name.starts_with("known-")
        })
        .collect();
    let is_better = |arm: &str, is_base: &dyn Fn(&str) -> bool| {
        let mut measures = report.comparisons.iter().filter(|one| {
            one.arm == arm && is_base(&one.to) && DECISIVE.contains(&one.metric.as_str())
        });
        measures.clone().count() == DECISIVE.len() && measures.all(|one| one.difference.high < 0.0)
    };
    let is_worth_it = |arm: &&&str| {
        is_better(arm, &|to| to == "no-groups") && is_better(arm, &|to| to.ends_with("-random"))
    };
    let worth_it: Vec<&str> = learned.iter().filter(is_worth_it).copied().collect();
    let seeds = report.arms.first().map_or(0, |arm| arm.runs.len());
    let caution = match seeds {
        0 | 1 => " One seed gives no interval: --seeds 10 does.",
        _ => "",
    };
    if report.arms.iter().all(|arm| arm.series.is_empty()) {
        return "The heap was never collected: there is nothing to compare. A smaller --heap, or a longer trace.".to_owned();
    }
    let verdict = if worth_it.is_empty() {
        format!(
            "None of {} has both less free memory (total free) and fewer holes (all holes) than no groups and than random groups: \
             by call site nothing is to be won here.",
            learned.join(", ")
        )
    } else {
        format!(
            "Worth it, with less free memory (total free) and fewer holes (all holes) than no groups and than random groups, each by an \
             interval that excludes zero: {}.",
            worth_it.join(", ")
        )
    };
    format!("{verdict}{caution}")
}

fn layouts_table(report: &TraceReport) -> Table {
    let mut table = table(&[
        "layout",
        "groups",
        "fragmentation",
        "total free",
        "global holes",
        "all holes",
        "hole size",
        "efficiency",
        "significance",
        "impossible",
    ]);
    for arm in &report.arms {
        let runs = arm.runs.len().max(1) as f64;
        let mean = |of: &dyn Fn(&Averages) -> Option<f64>| {
            let values: Vec<f64> = arm
                .runs
                .iter()
                .filter_map(|run| of(&run.activation))
                .collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let figure = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let groups = arm.runs.iter().map(|run| run.groups).sum::<usize>() as f64 / runs;
        let wrong: u64 = arm.runs.iter().map(|run| run.malformed.total()).sum();
        table.add_row([
            arm.name.clone(),
            format!("{groups:.0}"),
            figure(mean(&|averages| averages.fragmentation_ratio), 4),
            figure(mean(&|averages| averages.total_free_ratio), 4),
            figure(mean(&|averages| averages.global_holes), 1),
            figure(mean(&|averages| averages.all_holes), 1),
            figure(mean(&|averages| averages.hole_size), 0),
            figure(mean(&|averages| averages.region_group_efficiency), 2),
            figure(mean(&|averages| averages.region_group_significance), 2),
            units::count(wrong),
        ]);
    }
    table
}

fn difference(interval: &Interval) -> String {
    let verdict = if interval.excludes_zero() {
        ""
    } else {
        ", undecided"
    };
    format!("{:.4} to {:.4}{verdict}", interval.low, interval.high)
}

// ---- Output

fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
