//! `pagewise compare`: the same command under several policies, in alternating runs.

mod capture;
mod configuration;
mod progress;
mod verdict;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use self::capture::{Input, Reference};
use self::configuration::Series;
use self::progress::Progress;
use crate::commandline::CompareArguments;
use crate::failure::Failure;
use crate::launch::signals::Gate;
use crate::launch::supervise;
use crate::report::json::{CompareReport, Configuration, Destination, Ratio, SCHEMA};
use crate::report::{style, table};
use crate::run::{check_options, mention_killed_run, prepare, text_of};
use crate::trial::{self, Setting};
use crate::{Ending, tell};

/// The outputs were not the same.
const EXIT_OUTPUT_DIFFERS: u8 = 1;
/// A run failed, so there are no ratios.
const EXIT_RUN_FAILED: u8 = 2;

pub fn compare(arguments: &CompareArguments) -> Result<Ending> {
    let common = &arguments.common;
    check_options(&common.options)?;
    let inherited = std::env::var("PAGEWISE_OPTIONS").unwrap_or_default();
    let destination = common.json.as_deref().map(Destination::open).transpose()?;
    for policy in &arguments.policies {
        mention_killed_run(*policy);
    }
    // Before signals are held back, so that Ctrl-C ends a wait for input.
    let input = Input::read().context("cannot read standard input")?;

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
            Ok(Ending::Signal(signal))
        }
        Outcome::Complete => report(arguments, &text_of(common), &series, destination),
    }
}

enum Outcome {
    Complete,
    Interrupted(i32),
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
                return Ok(Outcome::Interrupted(signal as i32));
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
) -> Result<Option<i32>> {
    let captured = capture::Captured::new().context("cannot make a temporary file for output")?;
    let streams = captured.streams(input).context("cannot capture output")?;
    let trial = trial::run(setting, series.policy, streams)?;
    if let Some(signal) = trial.ended.interrupted {
        return Ok(Some(signal as i32));
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
    let configurations: Vec<Configuration> = series.iter().map(Series::figures).collect();
    let control = configuration::control(series);
    let ratios = if has_failed {
        Vec::new()
    } else {
        verdict::ratios(&configurations, control)
    };
    let shown = if has_failed {
        verdict::failures(series)
    } else {
        let has_colour = style::allows_colour(&io::stdout());
        let mut text = table::render(&configurations, &ratios, has_colour);
        text.push_str(&verdict::notes(series, &configurations, &ratios));
        text
    };
    show(&shown, has_failed)?;
    let differs = verdict::tell_differences(series);
    if let Some(destination) = destination {
        write(
            destination,
            arguments,
            command,
            &configurations,
            &ratios,
            control,
        )?;
    }
    Ok(Ending::Exit(match (has_failed, differs) {
        (true, _) => EXIT_RUN_FAILED,
        (false, true) => EXIT_OUTPUT_DIFFERS,
        (false, false) => 0,
    }))
}

/// A reader that has gone away, such as `head`, is no error.
fn show(text: &str, is_error: bool) -> Result<()> {
    if is_error {
        tell(text);
        return Ok(());
    }
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the table")
        }
        _ => Ok(()),
    }
}

fn write(
    destination: Destination,
    arguments: &CompareArguments,
    command: &[String],
    configurations: &[Configuration],
    ratios: &[Ratio],
    control: Option<(usize, usize)>,
) -> Result<(), Failure> {
    destination.write(&CompareReport {
        schema: SCHEMA,
        command,
        runs: arguments.runs as usize,
        configurations,
        ratios,
        aa_control: control
            .map(|(one, other)| [one, other].map(|index| configurations[index].name.clone())),
    })
}
