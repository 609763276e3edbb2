//! What may be claimed from the runs, in words.

use super::configuration::Series;
use crate::launch::signals;
use crate::policy::Policy;
use crate::report::json::{Configuration, Measured, Ratio};
use crate::report::{savings, units};
use crate::tell::tell;
use crate::trial::Trial;
use intervals::Interval;

type Figure = fn(&Ratio) -> Option<Interval>;
const FIGURES: &[(&str, Figure)] = &[
    ("peak", |ratio| ratio.peak),
    ("average", |ratio| ratio.average),
    ("cpu", |ratio| ratio.cpu),
    ("wall", |ratio| ratio.wall),
];

/// Every configuration's ratios to the first one.
pub fn ratios(configurations: &[Configuration], control: Option<(usize, usize)>) -> Vec<Ratio> {
    let Some(base) = configurations.first() else {
        return Vec::new();
    };
    let noise = control.map(|(one, other)| Ratio {
        is_control: true,
        ..ratio(&configurations[other], &configurations[one])
    });
    let is_control = |index: usize| control.is_some_and(|(one, other)| one == 0 && index == other);
    let mut ratios: Vec<Ratio> = configurations
        .iter()
        .enumerate()
        .skip(1)
        .map(|(index, configuration)| {
            let mut ratio = ratio(configuration, base);
            ratio.is_control = is_control(index);
            if let Some(noise) = noise.as_ref().filter(|_| !is_control(index)) {
                ratio.undecided = undecided(&ratio, noise);
            }
            ratio
        })
        .collect();
    // A control that does not involve the first configuration is shown as well.
    ratios.extend(noise.filter(|noise| noise.to != base.name));
    ratios
}

fn ratio(of: &Configuration, to: &Configuration) -> Ratio {
    let interval = |figure: fn(&Measured) -> f64| {
        let values = |of: &Configuration| of.measurements.iter().map(figure).collect::<Vec<_>>();
        intervals::of_ratio(&values(of), &values(to))
    };
    // Rounds in which one of the two was not measured cannot be paired.
    let is_measured = [of, to]
        .iter()
        .all(|c| c.measurements.iter().all(|one| one.has_memory));
    Ratio {
        name: of.name.clone(),
        to: to.name.clone(),
        peak: interval(|m| m.peak_bytes).filter(|_| is_measured),
        average: interval(|m| m.average_bytes).filter(|_| is_measured),
        cpu: interval(|m| m.cpu_seconds),
        wall: interval(|m| m.wall_seconds),
        undecided: Vec::new(),
        is_control: false,
    }
}

/// Figures that differ no more than two runs of the same configuration do.
fn undecided(ratio: &Ratio, noise: &Ratio) -> Vec<&'static str> {
    FIGURES
        .iter()
        .filter(|(_, figure)| match (figure(ratio), figure(noise)) {
            (Some(ratio), Some(noise)) => ratio.overlaps(&noise.noise_band()),
            _ => false,
        })
        .map(|(name, _)| *name)
        .collect()
}

/// What stands below the table.
pub fn notes(series: &[Series], configurations: &[Configuration], ratios: &[Ratio]) -> String {
    let mut lines = vec![String::new(), method(series, configurations)];
    lines.extend(ratios.iter().filter_map(|ratio| {
        let index = configurations.iter().position(|c| c.name == ratio.name)?;
        (series[index].policy != series[0].policy && ratio.to == series[0].name)
            .then(|| sentence(ratio, &series[index], &configurations[index]))
    }));
    lines.join("\n")
}

fn method(series: &[Series], configurations: &[Configuration]) -> String {
    let runs = series.first().map_or(0, |series| series.trials.len());
    let samples: u64 = configurations.iter().map(|c| c.samples).sum();
    let missed: u64 = configurations.iter().map(|c| c.missed_samples).sum();
    let periods: Vec<f64> = configurations
        .iter()
        .map(|c| c.sample_period_seconds)
        .collect();
    let sampler = configurations.first().map_or("", |c| c.sampler);
    let mut text = format!(
        "{runs} {} each; physical memory by {sampler}, {samples} samples, one every {:.0} ms, {missed} missed.",
        if runs == 1 { "run" } else { "runs" },
        intervals::mean(&periods) * 1000.0
    );
    if runs == 1 {
        text.push_str(" One run has no interval: --runs 10.");
    }
    let measurements = configurations.iter().flat_map(|c| &c.measurements);
    match measurements.filter(|one| !one.has_memory).count() {
        0 => {}
        1 => text.push_str(" 1 run was over before its memory could be measured: peak and average are without it."),
        unmeasured => text.push_str(&format!(
            " {unmeasured} runs were over before their memory could be measured: peaks and averages are without them."
        )),
    }
    let fewest = series
        .iter()
        .flat_map(|s| &s.trials)
        .map(|t| t.memory.samples)
        .min();
    if fewest.unwrap_or(0) < 5 {
        text.push_str(" Some runs were too short for more than a few samples.");
    }
    text
}

/// "auto used .31 of plain's peak: 3.90 GB of copies shared their pages."
fn sentence(ratio: &Ratio, series: &Series, configuration: &Configuration) -> String {
    let reason = match &configuration.statistics {
        Some(statistics) => savings::clause(series.policy, statistics),
        None if series.policy == Policy::Plain => String::new(),
        None => "it ran as plain".to_owned(),
    };
    let (claim, joint) = claim(ratio);
    match reason.as_str() {
        "" => format!("{claim}."),
        reason => format!("{claim}{joint} {reason}."),
    }
}

/// What the peaks show, and what leads over to the reason: a colon only where there is something to
/// explain.
fn claim(ratio: &Ratio) -> (String, &'static str) {
    let (name, base) = (&ratio.name, &ratio.to);
    match ratio.peak {
        None => (
            format!("The memory of {name} or of {base} was not measured in every run"),
            ";",
        ),
        Some(_) if ratio.undecided.contains(&"peak") => (
            format!(
                "Whether {name}'s peak differs from {base}'s is undecided (two runs of the same configuration differ as much)"
            ),
            ";",
        ),
        Some(peak) if peak.low < peak.high && peak.contains(1.0) => (
            format!("{name} was not shown to differ from {base} in its peak"),
            ";",
        ),
        Some(peak) => (
            format!("{name} used {} of {base}'s peak", units::ratio(peak.mean)),
            if peak.mean < 1.0 { ":" } else { ";" },
        ),
    }
}

/// Which runs failed, how, and what they said.
pub fn failures(series: &[Series]) -> String {
    let mut lines = vec!["a run failed, so there is nothing to compare:".to_owned()];
    for one in series {
        let Some(trial) = one.trials.iter().find(|trial| !trial.has_succeeded()) else {
            lines.push(format!("  {}: succeeded", one.name));
            continue;
        };
        lines.push(format!("  {}: {}", one.name, how(trial)));
        let errors = one.errors.as_deref().unwrap_or_default();
        lines.extend(errors.lines().map(|line| format!("    | {line}")));
    }
    if series[0].has_failed() {
        lines.push(format!(
            "  try: the command by itself, as {} fails as well",
            series[0].name
        ));
    } else {
        lines
            .push("  try: PAGEWISE_OPTIONS=verbose=1, and report this as a bug of pagewise".into());
    }
    lines.join("\n")
}

fn how(trial: &Trial) -> String {
    match (trial.ended.timed_out, trial.ended.end.signal()) {
        (true, _) => "did not end in time (--timeout-seconds)".into(),
        (false, Some(signal)) => format!("killed by {}", signals::in_words(signal)),
        (false, None) => format!("exit status {}", trial.ended.end.status()),
    }
}

/// Says loudly which outputs are not the first run's. Returns whether there are any.
pub fn tell_differences(series: &[Series]) -> bool {
    let differing: Vec<&Series> = series.iter().filter(|s| s.difference.is_some()).collect();
    for one in &differing {
        if let Some(at) = one.difference {
            tell(&format!(
                "OUTPUT DIFFERS: {} wrote something else than the first run of {}, from line {} (byte {}) on",
                one.name, series[0].name, at.line, at.byte
            ));
        }
    }
    let base_policy = series[0].policy;
    let base_runs: usize = series
        .iter()
        .filter(|one| one.policy == base_policy)
        .map(|one| one.trials.len())
        .sum();
    if !differing.is_empty() && base_runs < 2 {
        tell(&format!(
            "{base_policy} ran once: whether its own output changes from run to run (times, random numbers?) is not known; --runs 2 shows it"
        ));
    } else if differing.iter().any(|one| one.policy == base_policy) {
        tell(&format!(
            "the output of {base_policy} itself changes from run to run (times, random numbers?): nothing follows from it for the others"
        ));
    }
    !differing.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::tests::{configuration, trial};

    fn with_peak(low: f64, high: f64) -> Ratio {
        Ratio {
            name: "auto".into(),
            to: "plain".into(),
            peak: Some(Interval {
                mean: f64::midpoint(low, high),
                low,
                high,
            }),
            average: None,
            cpu: None,
            wall: None,
            undecided: Vec::new(),
            is_control: false,
        }
    }

    #[test]
    fn a_run_without_a_sample_makes_no_ratio() {
        let of = |name, trials: &[Trial]| configuration(name, trials);
        let plain = of("plain", &[trial(5, 200, None), trial(5, 200, None)]);
        let peak = |one: &Configuration| ratio(one, &plain).peak.map(|peak| peak.mean);
        let whole = of("auto", &[trial(5, 100, None), trial(5, 100, None)]);
        assert_eq!(peak(&whole), Some(0.5));
        let short = of("auto", &[trial(5, 100, None), trial(0, 0, Some(900))]);
        assert_eq!(peak(&short), None);
        assert!(ratio(&short, &plain).wall.is_some());
    }

    #[test]
    fn a_difference_within_the_noise_is_undecided() {
        let noise = with_peak(0.98, 1.03);
        assert_eq!(undecided(&with_peak(0.95, 0.99), &noise), ["peak"]);
        // Equal configurations that seem to differ must not make others seem to differ less.
        let biased = with_peak(1.04, 1.05);
        assert_eq!(undecided(&with_peak(1.01, 1.03), &biased), ["peak"]);
        assert!(undecided(&with_peak(0.30, 0.32), &noise).is_empty());
    }
}
