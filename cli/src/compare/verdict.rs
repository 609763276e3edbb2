//! What may be claimed from the runs, in words.

use super::configuration::Series;
use crate::policy::Policy;
use crate::report::json::{Configuration, Measured, Pair, Ratio};
use crate::report::table::ENOUGH_PAIRS;
use crate::report::{savings, units};
use crate::words::quoted;
use intervals::Interval;

/// One missed sample in so many is worth a word.
const SOME_MISSED: u64 = 10;

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
    let pairs = of.measurements.iter().zip(&to.measurements);
    Ratio {
        name: of.name.clone(),
        to: to.name.clone(),
        peak: interval(|m| m.peak_bytes).filter(|_| is_measured),
        average: interval(|m| m.average_bytes).filter(|_| is_measured),
        cpu: interval(|m| m.cpu_seconds),
        wall: interval(|m| m.wall_seconds),
        pairs: pairs.map(|(one, other)| pair(one, other)).collect(),
        undecided: Vec::new(),
        is_control: false,
    }
}

fn pair(of: &Measured, to: &Measured) -> Pair {
    let ratio = |figure: fn(&Measured) -> f64| {
        let ratio = figure(of) / figure(to);
        ratio.is_finite().then_some(ratio)
    };
    let is_measured = of.has_memory && to.has_memory;
    Pair {
        peak: ratio(|m| m.peak_bytes).filter(|_| is_measured),
        average: ratio(|m| m.average_bytes).filter(|_| is_measured),
        cpu: ratio(|m| m.cpu_seconds),
        wall: ratio(|m| m.wall_seconds),
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
pub fn notes(series: &[Series], configurations: &[Configuration], ratios: &[Ratio]) -> Vec<String> {
    let mut lines = vec![method(series, configurations)];
    lines.extend(ratios.iter().filter_map(|ratio| {
        let index = configurations.iter().position(|c| c.name == ratio.name)?;
        (series[index].policy != series[0].policy && ratio.to == series[0].name)
            .then(|| sentence(ratio, &series[index], &configurations[index]))
    }));
    lines
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
        "{} each; physical memory by {sampler}, {samples} samples, one every {:.0} ms.",
        units::counted(runs as u64, "run"),
        intervals::mean(&periods) * 1000.0
    );
    if missed > samples / SOME_MISSED {
        text.push_str(&format!(
            " {missed} more could not be taken in time: a peak shorter than that may be missing."
        ));
    }
    if runs < ENOUGH_PAIRS {
        let is_shown = match runs {
            1 => "one says nothing of chance",
            _ => "each is shown",
        };
        text.push_str(&format!(
            " Too few for an interval: {is_shown}; --runs {ENOUGH_PAIRS} or more gives one."
        ));
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
            format!(
                "{}{name} used {} of {base}'s peak",
                of_few(ratio.pairs.len()),
                units::ratio(peak.mean)
            ),
            if peak.mean < 1.0 { ":" } else { ";" },
        ),
    }
}

/// How much stands behind a claim that no interval backs.
fn of_few(pairs: usize) -> String {
    match pairs {
        1 => "In the only pair ".into(),
        pairs if pairs < ENOUGH_PAIRS => format!("In {pairs} pairs "),
        _ => String::new(),
    }
}

/// What to type now. None: there was nothing to compare.
pub fn next(series: &[Series], ratios: &[Ratio], command: &[String]) -> Option<String> {
    let first = series.first()?;
    let others = || series.iter().filter(|one| one.policy != first.policy);
    others().next()?;
    let command = quoted(command);
    if first.trials.len() < ENOUGH_PAIRS {
        return Some(format!(
            "Next: pagewise compare --runs {ENOUGH_PAIRS} -- {command}"
        ));
    }
    let helps = |one: &&Series| {
        let mine = ratios
            .iter()
            .find(|r| r.name == one.name && r.to == first.name);
        mine.is_some_and(saves_memory)
    };
    Some(match others().find(helps) {
        Some(one) if one.policy == Policy::Auto => format!("Next: pagewise run -- {command}"),
        Some(one) => format!("Next: pagewise run --policy {} -- {command}", one.policy),
        None => format!(
            "Next: nothing; nothing tried here was shown to take less memory than {}.",
            first.name
        ),
    })
}

fn saves_memory(ratio: &Ratio) -> bool {
    let is_less = |name, figure: Option<Interval>| {
        figure.is_some_and(|figure| figure.high < 1.0) && !ratio.undecided.contains(&name)
    };
    is_less("peak", ratio.peak) || is_less("average", ratio.average)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::configuration;
    use crate::report::json::tests::{configuration as figures_of, trial};
    use crate::trial::Trial;

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
            pairs: Vec::new(),
            undecided: Vec::new(),
            is_control: false,
        }
    }

    #[test]
    fn what_to_type_next_follows_from_what_was_shown() {
        let mut series = configuration::name(&[Policy::Plain, Policy::Auto]);
        let command = ["Rscript".to_owned(), "my script.R".to_owned()];
        let said = |series: &[Series], ratio| next(series, &[ratio], &command).unwrap_or_default();
        let few = said(&series, with_peak(0.5, 0.6));
        assert_eq!(
            few,
            "Next: pagewise compare --runs 5 -- Rscript 'my script.R'"
        );
        for one in &mut series {
            one.trials = (0..5).map(|_| trial(5, 100, None)).collect();
        }
        let helped = said(&series, with_peak(0.5, 0.6));
        assert_eq!(helped, "Next: pagewise run -- Rscript 'my script.R'");
        assert!(said(&series, with_peak(0.9, 1.1)).starts_with("Next: nothing;"));
        assert_eq!(next(&series[..1], &[], &command), None);
    }

    #[test]
    fn a_run_without_a_sample_makes_no_ratio() {
        let of = |name, trials: &[Trial]| figures_of(name, trials);
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
