//! `pagewise compare`: the same command under several policies, in alternating runs.

mod capture;
mod configuration;
mod page;
mod progress;
mod rounds;
mod trouble;
mod verdict;
mod written;

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use self::capture::Input;
use self::configuration::Series;
use self::progress::Progress;
use self::rounds::{Again, Rounds};
use self::written::WrittenFiles;
use crate::commandline::CompareArguments;
use crate::ending::Ending;
use crate::launch::environment::inherited_options;
use crate::launch::signals::Gate;
use crate::launch::supervise;
use crate::load::{Load, Look};
use crate::report::json::{
    CompareReport, Configuration, Destination, Ratio, SCHEMA, Source, publish,
};
use crate::report::{style, table};
use crate::run::{check_options, check_outputs, mention_killed_run, prepare};
use crate::tell::tell;
use crate::words::text_of;

/// The outputs were not the same.
const EXIT_OUTPUT_DIFFERS: u8 = 1;
/// A run failed, so there are no ratios.
const EXIT_RUN_FAILED: u8 = 2;

pub fn compare(arguments: &CompareArguments) -> Result<Ending> {
    let common = &arguments.common;
    let files = WrittenFiles::new(&arguments.files)?;
    let inherited = inherited_options()?;
    check_options(&common.options, &inherited, true)?;
    for policy in &arguments.policies {
        mention_killed_run(*policy);
    }
    check_outputs(&[
        ("--json", common.json.as_deref()),
        ("--report", common.report.as_deref()),
    ])?;
    let destination = common.json.as_deref().map(Destination::open).transpose()?;
    let report = common
        .report
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    // Before signals are held back, so that Ctrl-C ends a wait for input.
    let input = Input::read()?;

    let gate = Gate::close().context("cannot hold back signals")?;
    supervise::adopt_orphans().context("cannot adopt orphans")?;
    let mut setting = prepare(common, &arguments.policies, &inherited, &gate)?;
    setting.keeps_curve = report.is_some();
    setting.timeout = arguments.timeout_seconds.map(Duration::from_secs);
    let mut series = configuration::name(&arguments.policies);
    let (look, own_before) = (Look::now(), own_cpu());
    if !common.quiet {
        announce(&series, arguments.runs, &look);
    }
    let mut rounds = Rounds::new(&setting, input, files);
    let outcome = run_all(&mut rounds, &mut series, arguments.runs, common.quiet)?;
    let own = own_cpu().saturating_sub(own_before);
    let compared = Comparison {
        arguments,
        command: text_of(&common.command),
        series,
        outcome,
        load: look.load_since(own),
        written_files: rounds.files.are_asked_for().then(|| rounds.files.count()),
    };
    compared.report(destination, report)
}

/// What the runs so far and this process itself have used.
fn own_cpu() -> Duration {
    supervise::own_usage().cpu + supervise::usage_of_children().cpu
}

/// What is about to happen, before anything does: a command may have effects that are not wanted ten times.
fn announce(series: &[Series], runs: u32, look: &Look) {
    if let Some(busy) = look.warning() {
        tell(&format!(
            "this machine is busy ({busy}): times will be unsure. Better when it is quiet, or with more --runs"
        ));
    }
    let names: Vec<&str> = series.iter().map(|one| one.name.as_str()).collect();
    tell(&format!(
        "the command will be run {} times, in turns ({}, {runs} each); what it writes, sends or deletes, it does each time",
        series.len() as u64 * u64::from(runs),
        names.join(", ")
    ));
}

/// How the runs ended.
struct Outcome {
    /// A signal asked to end before all were done.
    interrupted: Option<Signal>,
    again: Option<Again>,
}

fn run_all(
    rounds: &mut Rounds,
    series: &mut [Series],
    count: u32,
    is_quiet: bool,
) -> Result<Outcome> {
    let progress = Progress::new(series, count, is_quiet);
    let interrupted = rounds.run(series, count, &progress);
    progress.finish();
    let interrupted = interrupted?;
    if interrupted.is_some() {
        keep_whole_rounds(series);
    } else if trouble::is_in_doubt(series) {
        let first = &series[0];
        if !is_quiet {
            tell(&format!(
                "running {} once more, to see whether it does the same",
                first.name
            ));
        }
        let again = rounds.run_again(first)?;
        return Ok(Outcome { interrupted, again });
    }
    Ok(Outcome {
        interrupted,
        again: None,
    })
}

/// Runs whose round was not completed have no partner to be compared with.
fn keep_whole_rounds(series: &mut [Series]) {
    let whole = series.iter().map(|one| one.trials.len()).min().unwrap_or(0);
    for one in series {
        one.trials.truncate(whole);
    }
}

struct Comparison<'a> {
    arguments: &'a CompareArguments,
    command: Vec<String>,
    series: Vec<Series>,
    outcome: Outcome,
    load: Load,
    /// How many the first run wrote. None: they were not to be compared.
    written_files: Option<usize>,
}

impl Comparison<'_> {
    fn report(
        &self,
        destination: Option<Destination>,
        page: Option<Destination>,
    ) -> Result<Ending> {
        let rounds = self.series.first().map_or(0, |one| one.trials.len());
        if let Some(signal) = self.outcome.interrupted {
            if rounds == 0 {
                tell("interrupted before every configuration had run once: no figures");
                return Ok(Ending::Signal(signal as i32));
            }
            let of = self.arguments.runs;
            tell(&format!(
                "interrupted: the figures are of {rounds} of {of} rounds"
            ));
        }
        let has_failed = self.series.iter().any(Series::has_failed);
        let written = self.publish(destination, page, has_failed);
        if self.written_files == Some(0) {
            tell("--files: the first run wrote no file with such a name, so none were compared");
        }
        let differs = trouble::tell_differences(&self.series, &self.command, self.outcome.again);
        written?;
        Ok(match (self.outcome.interrupted, has_failed, differs) {
            (Some(signal), ..) => Ending::Signal(signal as i32),
            (None, true, _) => Ending::Exit(EXIT_RUN_FAILED),
            (None, false, true) => Ending::Exit(EXIT_OUTPUT_DIFFERS),
            (None, false, false) => Ending::Exit(0),
        })
    }

    fn publish(
        &self,
        destination: Option<Destination>,
        page: Option<Destination>,
        has_failed: bool,
    ) -> Result<()> {
        let series = &self.series;
        let source = Source::of(series.iter().flat_map(|one| &one.trials));
        let figures = |one: &Series| one.figures(source, self.written_files.is_some());
        let configurations: Vec<Configuration> = series.iter().map(figures).collect();
        let control = configuration::control(series);
        let ratios = if has_failed {
            Vec::new()
        } else {
            verdict::ratios(&configurations, control)
        };
        let figures = CompareReport {
            schema: SCHEMA,
            command: &self.command,
            runs: self.arguments.runs as usize,
            rounds: series.first().map_or(0, |one| one.trials.len()),
            interrupted: self.outcome.interrupted.is_some(),
            load: &self.load,
            configurations: &configurations,
            ratios: &ratios,
            aa_control: control
                .map(|(one, other)| [one, other].map(|index| configurations[index].name.clone())),
        };
        let notes = self.notes(&configurations, &ratios, has_failed);
        let drawn = page.map_or(Ok(()), |destination| {
            let answer = notes.clone();
            let page = page::of(&self.command, answer, series, &configurations, &ratios)?;
            anyhow::Ok(destination.write_text(&page, "the figures are shown all the same")?)
        });
        if has_failed {
            tell(&notes.join("\n"));
            let kept = "which runs failed is on standard error";
            destination.map_or(Ok(()), |destination| destination.write(&figures, kept))?;
            return drawn;
        }
        let has_colour = style::allows_colour(&io::stdout());
        let table = table::render(&configurations, &ratios, has_colour);
        let text = format!("{table}\n{}\n", notes.join("\n"));
        publish(&text, destination, &figures)?;
        drawn
    }

    /// What stands below the table, or in its place where a run has failed.
    fn notes(
        &self,
        configurations: &[Configuration],
        ratios: &[Ratio],
        has_failed: bool,
    ) -> Vec<String> {
        if has_failed {
            return vec![trouble::failures(&self.series, self.outcome.again)];
        }
        let mut notes = verdict::notes(&self.series, configurations, ratios);
        notes.extend(self.load.warning());
        notes.extend(verdict::next(&self.series, ratios, &self.command));
        notes
    }
}
