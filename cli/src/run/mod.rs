//! `pagewise run`: the command, unchanged but for its memory, and one line about it.

mod page;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::commandline::{CommonArguments, RunArguments};
use crate::ending::Ending;
use crate::failure::Failure;
use crate::ksm;
use crate::launch::environment::{inherited_options, option_value};
use crate::launch::signals::{self, Gate};
use crate::launch::supervise::{self, End};
use crate::launch::{executable, filter, library, options, preload};
use crate::measure::SamplerKind;
use crate::policy::Policy;
use crate::report::json::{Configuration, Destination, RunReport, SCHEMA, Source};
use crate::report::plain::plain;
use crate::report::target::is_same_file;
use crate::report::{savings, units};
use crate::tell::tell;
use crate::trial::{self, Setting, Streams, Trial, library_of};
use crate::words::text_of;

pub fn run(arguments: &RunArguments) -> Result<Ending> {
    let common = &arguments.common;
    let inherited = inherited_options()?;
    check_options(&common.options, &inherited, arguments.policy.is_some())?;
    let policy = choose_policy(arguments.policy, &inherited);
    check_outputs(&[
        ("--json", common.json.as_deref()),
        ("--curve", arguments.curve.as_deref()),
        ("--report", common.report.as_deref()),
    ])?;
    let open = |path: &Option<PathBuf>| path.as_deref().map(Destination::open).transpose();
    let destinations = Destinations {
        json: open(&common.json)?,
        curve: open(&arguments.curve)?,
        report: open(&common.report)?,
    };
    mention_killed_run(policy);

    let gate = Gate::close().context("cannot hold back signals")?;
    supervise::adopt_orphans().context("cannot adopt orphans")?;
    let mut setting = prepare(common, &[policy], &inherited, &gate)?;
    setting.keeps_curve = destinations.curve.is_some() || destinations.report.is_some();
    if common.sampler.is_none() && !arguments.exact && destinations.curve.is_none() {
        setting.sampler = SamplerKind::Counters;
    }
    let streams = Streams {
        stdin: Stdio::inherit(),
        stdout: Stdio::inherit(),
        stderr: Stdio::inherit(),
        are_captured: false,
    };
    let trial = trial::run(&setting, policy, streams)?;
    let summary = summary(&trial, policy);
    if !common.quiet {
        tell(&summary);
    }
    let end = trial.ended.end;
    let written = write(common, policy, &trial, destinations, &summary);
    if common.quiet && written.is_err() {
        tell(&summary);
    }
    written?;
    Ok(match end {
        End::Exited(status) => Ending::Exit(u8::try_from(status).unwrap_or(u8::MAX)),
        End::Killed(signal) => Ending::Signal(signal),
    })
}

struct Destinations {
    json: Option<Destination>,
    curve: Option<Destination>,
    report: Option<Destination>,
}

/// Each file, whatever becomes of the others.
fn write(
    common: &CommonArguments,
    policy: Policy,
    trial: &Trial,
    destinations: Destinations,
    summary: &str,
) -> Result<()> {
    let kept = "the command has run; its figures are on standard error";
    let drawn = match destinations.curve.zip(trial.memory.curve.as_ref()) {
        Some((curve, points)) => curve.write_text(&points.csv(), kept),
        None => Ok(()),
    };
    let shown = match destinations.report {
        Some(report) => report.write_text(&page::of(common, policy, trial, summary)?, kept),
        None => Ok(()),
    };
    let trials = std::slice::from_ref(trial);
    let source = Source::of(trials.iter());
    let command = text_of(&common.command);
    let figures = || RunReport {
        schema: SCHEMA,
        command: &command,
        configuration: Configuration::of(policy.name(), trials, true, source),
    };
    let written = match destinations.json {
        Some(json) => json.write(&figures(), kept),
        None => Ok(()),
    };
    Ok(drawn.and(shown).and(written)?)
}

/// Two results do not go to one file.
pub fn check_outputs(files: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    for (place, (name, one)) in files.iter().enumerate() {
        for (other_name, other) in &files[..place] {
            if let Some((one, other)) = one.zip(*other)
                && is_same_file(one, other)
            {
                return Err(Failure::new(
                    format!("{other_name} and {name} both write to {}", one.display()),
                    "another FILE for one of them",
                ));
            }
        }
    }
    Ok(())
}

/// What `run` and `compare` find out before they start anything.
pub fn prepare<'a>(
    common: &'a CommonArguments,
    policies: &[Policy],
    inherited_options: &str,
    gate: &'a Gate,
) -> Result<Setting<'a>, Failure> {
    let program = executable::of(&common.command)?;
    let mut wanted: Vec<&library::Library> = Vec::new();
    for library in policies.iter().filter_map(|policy| library_of(*policy)) {
        if !wanted.iter().any(|one| one.file_name == library.file_name) {
            wanted.push(library);
        }
    }
    let mut libraries = Vec::new();
    if !wanted.is_empty() {
        match preload::check(&program) {
            Ok(()) => {
                for library in wanted {
                    libraries.push((library.file_name, library.find_working()?));
                }
            }
            Err(refusal) => tell(&format!(
                "{refusal}: it cannot be preloaded and runs as plain"
            )),
        }
    }
    let mut options = format!("{inherited_options},{}", common.options);
    if !libraries.is_empty() && option_value(&options, "seccomp").is_none() {
        options.push_str(&bearing_filters(&libraries));
    }
    Ok(Setting {
        command: &common.command,
        libraries,
        options,
        sampler: common.sampler.unwrap_or_else(SamplerKind::exact),
        period: common.sample_ms.map(Duration::from_millis),
        timeout: None,
        keeps_curve: false,
        gate,
    })
}

/// The option for filters that were found harmless, with its comma.
fn bearing_filters(libraries: &[(&str, PathBuf)]) -> String {
    let paths: Vec<&Path> = libraries.iter().map(|(_, path)| path.as_path()).collect();
    match filter::option_for(&paths) {
        Ok(option) => option
            .map(|option| format!(",{option}"))
            .unwrap_or_default(),
        Err(reason) => {
            tell(&format!(
                "a seccomp filter is in force here (a container's, or a service's), and {reason}: the command runs as \
                 plain. --options seccomp=ignore takes the risk, or: docker run --security-opt seccomp=unconfined ..."
            ));
            String::new()
        }
    }
}

/// Both are wrong before the command starts rather than left out while it runs. `has_policy`: what the environment says of
/// it does not count.
pub fn check_options(given: &str, inherited: &str, has_policy: bool) -> Result<(), Failure> {
    // These two are pagewise's own to set.
    for (name, next) in [
        (
            "policy",
            "--policy share (run) or --with plain,share (compare)",
        ),
        ("statistics", "--json FILE: it holds the statistics"),
    ] {
        if option_value(given, name).is_some() {
            return Err(Failure::new(
                format!("--options cannot set {name}: pagewise sets it"),
                next,
            ));
        }
    }
    let mistaken = |place: &str, mistake: &options::Mistake| {
        let advice = mistake.advice();
        Failure::new(
            format!("{place}: {mistake}"),
            format!("{advice} (pagewise run --help; docs/reference/options.md)"),
        )
    };
    options::check(given, "").map_err(|mistake| mistaken("--options", &mistake))?;
    let ours = if has_policy {
        "policy=auto,statistics=/"
    } else {
        "statistics=/"
    };
    options::check(inherited, &format!("{given},{ours}"))
        .map_err(|mistake| mistaken("PAGEWISE_OPTIONS", &mistake))
}

/// What the environment says was checked before.
fn choose_policy(asked: Option<Policy>, inherited_options: &str) -> Policy {
    let inherited = || option_value(inherited_options, "policy")?.parse().ok();
    asked.or_else(inherited).unwrap_or(Policy::Auto)
}

/// A ksm run that was killed has left page merging switched on.
pub fn mention_killed_run(policy: Policy) {
    if policy.merged_pages_per_round().is_some() {
        return; // It puts things right by itself.
    }
    let places = ksm::Places::default();
    let Some(saved) = places.left_by_killed_run() else {
        return;
    };
    match places.put_back(&saved) {
        Ok(()) => tell("an earlier run was killed: page merging is as it was before it again"),
        Err(_) => tell(&format!(
            "an earlier run was killed and left page merging switched on; as root: {}",
            saved.commands()
        )),
    }
}

fn summary(trial: &Trial, policy: Policy) -> String {
    let mut line: Vec<String> = ending(trial).into_iter().collect();
    line.push(peak(trial));
    line.extend(largest(trial));
    match &trial.statistics {
        Some(statistics) => line.push(savings::clause(policy, statistics)),
        None if policy.is_preloaded() => {
            line.push("it ran as plain, so what Pagewise would save is not known".into());
        }
        None => {}
    }
    line.extend(addresses(trial.ended.end, address_limits()));
    let left_plain = trial
        .statistics
        .as_ref()
        .map_or(0, |statistics| statistics.get("programs_left_plain"));
    if left_plain > 0 {
        line.push(format!(
            "programs started without the library, which they cannot bear: {left_plain}"
        ));
    }
    match trial.ended.left_over {
        0 => {}
        1 => line.push("1 process goes on running and is not counted further".into()),
        more => line.push(format!(
            "{more} processes go on running and are not counted further"
        )),
    }
    line.join("; ")
}

/// Less is not worth a word.
const WORTH_SAYING: u64 = 10_000_000;
/// One part in so many of the peak is not, either: the estimate is no better.
const WORTH_SAYING_OF_PEAK: u64 = 20;

/// A peak that lasts for less than the time between two looks is a good part of a run of so few.
const FEW_LOOKS: u64 = 50;

/// How the command, or a process of its, was killed. None: it ended by itself.
fn ending(trial: &Trial) -> Option<String> {
    let why = trial.ran_out.map(|ran_out| match ran_out.limit {
        Some(limit) => format!(
            "the memory limit of {} was reached",
            units::bytes(limit as f64)
        ),
        None => "the machine's memory ran out".to_owned(),
    });
    match (trial.ended.end.signal(), why, trial.ran_out) {
        (Some(signal), Some(why), _) if signal == libc::SIGKILL => Some(format!(
            "the command was killed by {}: {why}",
            signals::in_words(signal)
        )),
        (Some(signal), ..) => Some(format!(
            "the command was killed by {}",
            signals::in_words(signal)
        )),
        (None, Some(why), Some(ran_out)) => Some(format!(
            "the kernel killed {} of the command: {why}",
            match ran_out.processes {
                1 => "1 process".to_owned(),
                more => format!("{more} processes"),
            }
        )),
        _ => None,
    }
}

/// The limit on addresses, which this process and the command have in common, and the hard one. None: no limit.
fn address_limits() -> Option<(u64, u64)> {
    let limits = getrlimit(Resource::RLIMIT_AS).ok();
    limits.filter(|(soft, _)| *soft != RLIM_INFINITY)
}

/// What no sharing helps against, where the command failed under it: a shared page counts once for each place that
/// shows it.
fn addresses(end: End, limits: Option<(u64, u64)>) -> Option<String> {
    let has_failed = !matches!(end, End::Exited(0));
    let (soft, hard) = limits.filter(|_| has_failed)?;
    let next = match hard {
        RLIM_INFINITY => "try: ulimit -v unlimited",
        _ => "root, or the job script, can raise them",
    };
    Some(format!(
        "if memory is what it lacked: addresses are limited to {} here, and shared pages count in full ({next})",
        units::bytes(soft as f64)
    ))
}

/// Who had most at the peak, where there were several.
fn largest(trial: &Trial) -> Option<String> {
    let largest = trial.memory.largest.as_ref()?;
    (largest.bytes >= WORTH_SAYING).then(|| {
        let bytes = units::bytes(largest.bytes as f64);
        format!(
            "{} (process {}) had most: {bytes}",
            plain(&largest.name),
            largest.process
        )
    })
}

/// `is_the_kernels`: the peak is, which misses none.
fn few_looks(looks: u64, is_the_kernels: bool) -> Option<String> {
    match looks {
        0..5 => Some(format!(" (a short run: {looks} samples)")),
        5..FEW_LOOKS if !is_the_kernels => {
            Some(format!(" ({looks} looks: a peak between two is missed)"))
        }
        _ => None,
    }
}

fn peak(trial: &Trial) -> String {
    let memory = &trial.memory;
    if memory.samples == 0 {
        return format!(
            "the run was over in {}, before its memory could be measured",
            units::duration(trial.wall)
        );
    }
    let mut text = format!(
        "peak {} of physical memory",
        units::bytes(memory.peak.bytes as f64)
    );
    let saved = memory.unshared_peak_bytes.saturating_sub(memory.peak.bytes);
    if saved >= WORTH_SAYING.max(memory.peak.bytes / WORTH_SAYING_OF_PEAK) {
        let without = units::bytes(memory.unshared_peak_bytes as f64);
        text.push_str(&format!(" instead of about {without}"));
    }
    text.extend(few_looks(memory.samples, memory.is_peak_of_process));
    if memory.swap_bytes > 0 {
        let swap = units::bytes(memory.swap_bytes as f64);
        text.push_str(&format!(" and {swap} of swap"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_over_the_environment() {
        assert_eq!(choose_policy(None, ""), Policy::Auto);
        assert_eq!(choose_policy(None, "policy=share"), Policy::Share);
        assert_eq!(choose_policy(None, "policy=nonsense"), Policy::Auto);
        assert_eq!(
            choose_policy(Some(Policy::Huge), "policy=share"),
            Policy::Huge
        );
    }

    #[test]
    fn who_has_looked_seldom_says_so() {
        assert!(few_looks(4, true).is_some_and(|said| said.contains("4 samples")));
        assert!(few_looks(5, false).is_some_and(|said| said.contains("is missed")));
        assert_eq!(few_looks(5, true), None);
        assert_eq!(few_looks(FEW_LOOKS, false), None);
    }

    #[test]
    fn options_that_are_ours_are_refused() {
        let check = |options| check_options(options, "", true);
        assert!(check("threshold=8K,verbose=1").is_ok());
        assert!(check("policy=share").is_err());
        assert!(check("verbose=1, statistics = /tmp").is_err());
    }

    #[test]
    fn a_wrong_option_says_where_it_stands_and_what_was_meant() {
        let failure = check_options("treshold=8K", "", true).expect_err("a wrong name");
        let said = failure.to_string();
        assert!(
            said.starts_with("--options: no such option: treshold\n"),
            "{said}"
        );
        assert!(said.contains("try: threshold ("), "{said}");
        let failure = check_options("", "decay=soon", true).expect_err("a wrong value");
        assert!(
            failure
                .what
                .starts_with("PAGEWISE_OPTIONS: decay cannot be soon")
        );
        assert!(check_options("decay=1", "decay=soon,policy=plian", true).is_ok());
        assert!(check_options("", "policy=plian", false).is_err());
    }
}
