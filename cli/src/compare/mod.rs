//! `pagewise compare`: the same command under several policies, in alternating runs.

mod capture;
mod configuration;
mod progress;
mod verdict;

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use self::capture::{Input, Reference};
use self::configuration::Series;
use self::progress::Progress;
use crate::commandline::CompareArguments;
use crate::ending::Ending;
use crate::launch::signals::{Gate, Interrupted};
use crate::launch::supervise;
use crate::report::json::{CompareReport, Configuration, Destination, SCHEMA, Source, publish};
use crate::report::{style, table};
use crate::run::{check_options, mention_killed_run, prepare, text_of};
use crate::tell::tell;
use crate::trial::{self, Setting};

/// The outputs were not the same.
const EXIT_OUTPUT_DIFFERS: u8 = 1;
/// A run failed, so there are no ratios.
const EXIT_RUN_FAILED: u8 = 2;

pub fn compare(arguments: &CompareArguments) -> Result<Ending> {
    let common = &arguments.common;
    check_options(&common.options)?;
    let inherited = std::env::var("PAGEWISE_OPTIONS").unwrap_or_default();
    for policy in &arguments.policies {
        mention_killed_run(*policy);
    }
    // Before signals are held back, so that Ctrl-C ends a wait for input.
    let input = Input::read().context("cannot read standard input")?;
    let destination = common.json.as_deref().map(Destination::open).transpose()?;

    let gate = Gate::close().context("cannot hold back signals")?;
    supervise::adopt_orphans().context("cannot adopt orphans")?;
    let mut setting = prepare(common, &arguments.policies, &inherited, &gate)?;
    setting.timeout = arguments.timeout_seconds.map(Duration::from_secs);
    let mut series = configuration::name(&arguments.policies);
    let progress = Progress::new(&series, arguments.runs, common.quiet);
    let outcome = run_all(&setting, &mut series, &input, arguments.runs, &progress);
    progress.finish();
    match outcome? {
        Outcome::Interrupted(signal) => {
            tell("interrupted: no figures");
            Ok(Ending::Signal(signal as i32))
        }
        Outcome::Complete => report(arguments, &text_of(common), &series, destination),
    }
}

enum Outcome {
    Complete,
    Interrupted(Signal),
}

/// Round by round, so that a change of the machine's mood meets every configuration. Every second round
/// goes backwards: no configuration always follows the same one.
fn run_all(
    setting: &Setting,
    series: &mut [Series],
    input: &Input,
    rounds: u32,
    progress: &Progress,
) -> Result<Outcome> {
    let mut reference = Reference::default();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..series.len()).collect();
        // The very first run is the first configuration's: its output is the reference.
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            if let Some(signal) = setting.gate.pending_end() {
                return Ok(Outcome::Interrupted(signal));
            }
            progress.begin(&series[index], round);
            if let Some(signal) = run_one(setting, &mut series[index], input, &mut reference)? {
                return Ok(Outcome::Interrupted(signal));
            }
            progress.end();
        }
        // The rest of the round has shown whether the others fail as well.
        if series.iter().any(Series::has_failed) {
            break;
        }
    }
    Ok(Outcome::Complete)
}

/// Returns the signal that asked us to end meanwhile.
fn run_one(
    setting: &Setting,
    series: &mut Series,
    input: &Input,
    reference: &mut Reference,
) -> Result<Option<Signal>> {
    let captured = capture::Captured::new().context("cannot make a temporary file for output")?;
    let streams = captured.streams(input).context("cannot capture output")?;
    let trial = match trial::run(setting, series.policy, streams) {
        Ok(trial) => trial,
        Err(error) => match error.downcast::<Interrupted>() {
            Ok(Interrupted(signal)) => return Ok(Some(signal)),
            Err(error) => return Err(error),
        },
    };
    if trial.ended.interrupted.is_some() {
        return Ok(trial.ended.interrupted);
    }
    let difference = reference
        .compare(&captured)
        .context("cannot read captured output")?;
    series.add(trial, difference, &captured);
    Ok(None)
}

fn report(
    arguments: &CompareArguments,
    command: &[String],
    series: &[Series],
    destination: Option<Destination>,
) -> Result<Ending> {
    let has_failed = series.iter().any(Series::has_failed);
    let source = Source::of(series.iter().flat_map(|one| &one.trials));
    let configurations: Vec<Configuration> = series.iter().map(|one| one.figures(source)).collect();
    let control = configuration::control(series);
    let ratios = if has_failed {
        Vec::new()
    } else {
        verdict::ratios(&configurations, control)
    };
    let figures = CompareReport {
        schema: SCHEMA,
        command,
        runs: arguments.runs as usize,
        configurations: &configurations,
        ratios: &ratios,
        aa_control: control
            .map(|(one, other)| [one, other].map(|index| configurations[index].name.clone())),
    };
    let written = if has_failed {
        tell(&verdict::failures(series));
        let kept = "which runs failed is on standard error";
        destination.map_or(Ok(()), |destination| destination.write(&figures, kept))
    } else {
        let has_colour = style::allows_colour(&io::stdout());
        let mut text = table::render(&configurations, &ratios, has_colour);
        text.push_str(&verdict::notes(series, &configurations, &ratios));
        publish(&(text + "\n"), destination, &figures)
    };
    let differs = verdict::tell_differences(series);
    written?;
    Ok(Ending::Exit(match (has_failed, differs) {
        (true, _) => EXIT_RUN_FAILED,
        (false, true) => EXIT_OUTPUT_DIFFERS,
        (false, false) => 0,
    }))
}
