//! Runs that failed, and outputs that differ: what happened, and whether Pagewise has a part in it.

use std::env;

use super::capture::elsewhere;
use super::configuration::Series;
use super::rounds::Again;
use super::written::{FileDifference, Otherwise};
use crate::launch::signals;
use crate::report::plain::plain;
use crate::tell::tell;
use crate::trial::Trial;

/// Should the first configuration be run once more, to learn whether the command does the same twice?
pub fn is_in_doubt(series: &[Series]) -> bool {
    let others_failed = series.iter().any(Series::has_failed) && !series[0].has_failed();
    let has_differed = series.iter().any(Series::differs);
    others_failed || (has_differed && runs_of_first(series) < 2)
}

fn runs_of_first(series: &[Series]) -> usize {
    let policy = series[0].policy;
    let same = series.iter().filter(|one| one.policy == policy);
    same.map(|one| one.trials.len()).sum()
}

/// Which runs failed, how, and what they said.
pub fn failures(series: &[Series], again: Option<Again>) -> String {
    let mut lines = vec!["a run failed, so there is nothing to compare:".to_owned()];
    for one in series {
        let Some(trial) = one.trials.iter().find(|trial| !trial.has_succeeded()) else {
            lines.push(format!("  {}: succeeded", one.name));
            continue;
        };
        lines.push(format!("  {}: {}", one.name, how(trial)));
        lines.extend(last_words(one));
    }
    lines.push(format!("  try: {}", advice(series, again)));
    lines.join("\n")
}

fn how(trial: &Trial) -> String {
    match (trial.ended.timed_out, trial.ended.end.signal()) {
        (true, _) => "did not end in time (--timeout-seconds)".into(),
        (false, Some(signal)) => format!("killed by {}", signals::in_words(signal)),
        (false, None) => format!("exit status {}", trial.ended.end.status()),
    }
}

fn last_words(series: &Series) -> Vec<String> {
    let Some(words) = &series.last_words else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (name, ends) in [
        ("standard error", &words.errors),
        ("standard output", &words.output),
    ] {
        if !ends.is_empty() {
            lines.push(format!("    its {name} ends:"));
            lines.extend(ends.iter().map(|line| format!("    | {line}")));
        }
    }
    if lines.is_empty() {
        lines.push("    it wrote nothing".into());
    }
    lines
}

fn advice(series: &[Series], again: Option<Again>) -> String {
    let first = &series[0].name;
    let words = series.iter().filter_map(|one| one.last_words.as_ref());
    if words.into_iter().any(|words| words.lacked_room) {
        return format!(
            "{}: what runs write is kept in {}, which is full",
            elsewhere(),
            env::temp_dir().display()
        );
    }
    if again == Some(Again::Failed) {
        return format!(
            "a command that can be run twice: {first}, run once more, failed as well. An earlier run leaves something \
             behind (a file, a folder, a lock) that the next one stumbles over"
        );
    }
    if !series[0].has_failed() {
        return "PAGEWISE_OPTIONS=verbose=1, and report this as a bug of pagewise".into();
    }
    if series[0].trials[0].has_succeeded() {
        return format!(
            "a command that can be run twice: {first} succeeded at first, and failed later"
        );
    }
    format!("the command by itself, as {first} fails as well")
}

/// Says loudly which outputs are not the first run's. Returns whether there are any.
pub fn tell_differences(series: &[Series], command: &[String], again: Option<Again>) -> bool {
    let first = &series[0].name;
    for one in series {
        if let Some(at) = one.difference {
            tell(&format!(
                "OUTPUT DIFFERS: {} wrote something else than the first run of {first}, from line {} (byte {}) on",
                one.name, at.line, at.byte
            ));
        }
        if let Some(difference) = &one.file_difference {
            tell(&format!(
                "FILES DIFFER: {} {}",
                one.name,
                file(difference, first)
            ));
        }
    }
    let differs = series.iter().any(Series::differs);
    if differs && let Some(reason) = reason(series, command, again) {
        tell(&reason);
    }
    differs
}

fn file(difference: &FileDifference, first: &str) -> String {
    let path = plain(&difference.path.to_string_lossy());
    match difference.how {
        Otherwise::Content(at) => format!(
            "wrote {path} otherwise than the first run of {first}, from line {} (byte {}) on",
            at.line, at.byte
        ),
        Otherwise::Missing => format!("did not write {path}, as the first run of {first} did"),
        Otherwise::Added => format!("wrote {path}, which the first run of {first} did not"),
    }
}

fn reason(series: &[Series], command: &[String], again: Option<Again>) -> Option<String> {
    let policy = series[0].policy;
    let first_differs = series
        .iter()
        .any(|one| one.policy == policy && one.differs());
    if first_differs || again == Some(Again::Differed) {
        return Some(format!(
            "the output of {policy} itself changes from run to run, so nothing follows from it for the others: {}",
            remedy(command)
        ));
    }
    match again {
        Some(Again::Same) => Some(format!(
            "{policy}, run once more, wrote the same as the first time: the difference comes from the other configuration"
        )),
        Some(Again::Failed) => Some(format!(
            "{policy}, run once more, failed: the command cannot be run twice"
        )),
        _ => None,
    }
}

/// What makes a program's output the same each time.
fn remedy(command: &[String]) -> &'static str {
    let program = command.first().map_or("", String::as_str);
    let name = program.rsplit('/').next().unwrap_or(program);
    match name {
        "R" | "Rscript" | "littler" | "r" => {
            "put set.seed(1) at the top of the script if it draws random numbers, and print no times"
        }
        _ if name.starts_with("python") => {
            "give random numbers a seed (random.seed(1), numpy.random.seed(1)), and print no times"
        }
        _ => "give random numbers a seed (in R: set.seed(1)), and print no times",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::capture::{Difference, LastWords};
    use crate::compare::configuration;
    use crate::launch::supervise::End;
    use crate::policy::Policy;
    use crate::report::json::tests::trial;

    fn series(ends: [&[i32]; 2]) -> Vec<Series> {
        let mut series = configuration::name(&[Policy::Plain, Policy::Auto]);
        for (one, ends) in series.iter_mut().zip(ends) {
            for status in ends {
                let mut trial = trial(5, 100, None);
                trial.ended.end = End::Exited(*status);
                one.trials.push(trial);
            }
        }
        series
    }

    #[test]
    fn a_command_that_cannot_be_run_twice_is_not_blamed_on_us() {
        let only_once = series([&[0], &[1]]);
        assert!(is_in_doubt(&only_once));
        let said = failures(&only_once, Some(Again::Failed));
        assert!(
            said.contains("plain, run once more, failed as well"),
            "{said}"
        );
        let said = failures(&only_once, Some(Again::Same));
        assert!(said.contains("report this as a bug"), "{said}");
        let later = series([&[0, 1], &[0, 0]]);
        assert!(!is_in_doubt(&later));
        assert!(failures(&later, None).contains("plain succeeded at first, and failed later"));
    }

    #[test]
    fn both_outputs_of_a_failed_run_are_shown() {
        let mut failed = series([&[0], &[1]]);
        let lines = |text: &str| vec![text.to_owned()];
        failed[1].last_words = Some(LastWords {
            errors: lines("some trouble"),
            output: lines("row 7"),
            lacked_room: false,
        });
        let said = failures(&failed, None);
        assert!(
            said.contains("standard error ends:\n    | some trouble\n"),
            "{said}"
        );
        assert!(
            said.contains("standard output ends:\n    | row 7\n"),
            "{said}"
        );
    }

    #[test]
    fn a_full_disk_is_the_first_suspect() {
        let mut failed = series([&[1], &[1]]);
        assert!(failures(&failed, None).contains("the command by itself"));
        failed[0].last_words = Some(LastWords {
            lacked_room: true,
            ..LastWords::default()
        });
        let said = failures(&failed, None);
        assert!(
            said.contains("try: TMPDIR=") && said.contains("which is full"),
            "{said}"
        );
    }

    #[test]
    fn who_differs_from_himself_proves_nothing_about_others() {
        let mut differing = series([&[0], &[0]]);
        differing[1].difference = Some(Difference { byte: 1, line: 1 });
        assert!(is_in_doubt(&differing));
        let command = ["Rscript".to_owned(), "x.R".to_owned()];
        let said = |again| reason(&differing, &command, again).unwrap_or_default();
        assert!(said(Some(Again::Differed)).contains("set.seed(1)"));
        assert!(said(Some(Again::Same)).contains("the other configuration"));
        assert_eq!(said(None), "");
    }
}
