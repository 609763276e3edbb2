//! `pagewise trace group`: would groups of call sites on pages of their own need fewer pages? Learned from one part of
//! a trace, or from another trace, and printed beside random groups.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use anyhow::Result;
use metis::grouping::Grouping;
use metis::grouping::trial::{Arm, Outcome, Trial};
use metis::heap::{Purge, SpanOptions};
use serde_json::json;
use trace_format::{Event, SiteId, TraceReader};

use super::{input, kinship, progress, report, stat};
use crate::commandline::{GroupArguments, PurgeRule};
use crate::ending::Ending;
use crate::failure::Failure;
use crate::report::json::{Destination, publish};
use crate::report::units;
use crate::tell::tell;

/// Events to learn from are held in memory, at 24 bytes each.
const MOST_TRAINING: u64 = 100_000_000;
const PAGE: f64 = 4096.0;
/// Above this part of what random groups need, a difference to them is not worth a change.
const BETTER_THAN_RANDOM: f64 = 0.95;
const COLUMNS: [&str; 6] = [
    "grouping",
    "groups",
    "average",
    "of none",
    "random groups",
    "",
];

pub fn group(arguments: &GroupArguments) -> Result<Ending> {
    let json = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let mut trace = input::open(&arguments.file)?;
    input::refuse_sample(
        &trace,
        &arguments.file,
        "pages cannot be computed",
        "nothing was changed",
    )?;
    let half = trace.event_count() / 2;
    let (training, numbers) = match &arguments.train {
        None => (load(&mut trace, &arguments.file, half)?, None),
        Some(path) => {
            let mut other = input::open(path)?;
            input::refuse_sample(
                &other,
                path,
                "pages cannot be computed",
                "nothing was changed",
            )?;
            kinship::check(
                (path, other.properties()),
                (&arguments.file, trace.properties()),
            )?;
            let count = other.event_count();
            let numbers = other.sites().numbers_in(trace.sites());
            check_known(&numbers, path, &arguments.file)?;
            (load(&mut other, path, count)?, Some(numbers))
        }
    };
    if !training
        .iter()
        .any(|event| matches!(event, Event::Free { .. }))
    {
        return Err(without_frees(arguments).into());
    }
    let spans = SpanOptions {
        purge: match arguments.purge {
            PurgeRule::Spans => Purge::EmptySpans,
            PurgeRule::Pages => Purge::EmptyPages,
        },
        ..SpanOptions::default()
    };
    let translate = |site: SiteId| match &numbers {
        None => Some(site),
        Some(numbers) => numbers.get(site as usize).copied().flatten(),
    };
    let mut trial = Trial::new(&training, spans, arguments.seeds, translate)?;
    drop(training);
    let begin = if numbers.is_some() { 0 } else { half };
    test(&mut trial, &mut trace, &arguments.file, begin)?;
    let outcome = trial.outcome();
    let figures = json!({
        "schema": 1,
        "trace": arguments.file.display().to_string(),
        "training": arguments.train.as_ref().map(|path| path.display().to_string()),
        "seeds": arguments.seeds,
        "purge": spans.purge,
        "outcome": outcome,
    });
    publish(&text(&outcome, arguments), json, &figures)?;
    Ok(Ending::Exit(0))
}

fn without_frees(arguments: &GroupArguments) -> Failure {
    let (what, next) = match &arguments.train {
        Some(path) => (
            path.display().to_string(),
            format!(
                "a recording over a longer time; of a program with a collector: pagewise trace simulate {}",
                path.display()
            ),
        ),
        None => (
            format!(
                "the first half of {}, which would be learned from,",
                arguments.file.display()
            ),
            format!(
                "--train with another recording of the program; of one with a collector: pagewise trace simulate {}",
                arguments.file.display()
            ),
        ),
    };
    Failure::new(
        format!("{what} has no frees: there is nothing to learn from"),
        next,
    )
    .kept("nothing was changed")
}

fn check_known(numbers: &[Option<SiteId>], other: &Path, file: &Path) -> Result<(), Failure> {
    let known = numbers.iter().flatten().count();
    kinship::check_known(known, other, file)?;
    tell(&format!(
        "{} of {} of {} are known in {}",
        units::count(known as u64),
        units::counted(numbers.len() as u64, "site"),
        other.display(),
        file.display()
    ));
    Ok(())
}

fn load(trace: &mut TraceReader<File>, path: &Path, count: u64) -> Result<Vec<Event>, Failure> {
    let count = count.min(MOST_TRAINING);
    let mut events = Vec::new();
    trace.rewind();
    while (events.len() as u64) < count {
        match trace.next_batch() {
            Ok(Some(batch)) => events.extend_from_slice(&batch.events),
            Ok(None) => break,
            Err(error) => return Err(input::unreadable(path, &error)),
        }
    }
    events.truncate(count as usize);
    Ok(events)
}

/// Averages are taken from event number `begin`.
fn test(
    trial: &mut Trial,
    trace: &mut TraceReader<File>,
    path: &Path,
    begin: u64,
) -> Result<(), Failure> {
    let bar = progress::bar("trying groups", trace.event_count());
    trace.rewind();
    while let Some(batch) = trace
        .next_batch()
        .map_err(|error| input::unreadable(path, &error))?
    {
        let before = begin
            .saturating_sub(batch.first_event)
            .min(batch.events.len() as u64) as usize;
        trial.run(&batch.events[..before]);
        if batch.first_event <= begin && before < batch.events.len() {
            trial.begin_averages();
        }
        trial.run(&batch.events[before..]);
        bar.inc(batch.events.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

fn text(outcome: &Outcome, arguments: &GroupArguments) -> String {
    let pages = outcome.ungrouped.average_pages * PAGE;
    let live = outcome.ungrouped.average_live_bytes;
    let mut rows = vec![vec![
        "none".to_owned(),
        String::new(),
        units::bytes(pages),
        String::new(),
        String::new(),
        String::new(),
    ]];
    rows.extend(outcome.arms.iter().skip(1).map(|arm| {
        vec![
            arm.grouping.map_or("chosen", Grouping::name).to_owned(),
            units::count(arm.groups as u64),
            units::bytes(arm.ratio * pages),
            units::ratio(arm.ratio),
            random(arm),
            Verdict::of(arm).words().to_owned(),
        ]
    }));
    let learned_from = match &arguments.train {
        Some(path) => format!(
            "{}, tested on all of {}",
            path.display(),
            arguments.file.display()
        ),
        None => format!(
            "the first half of {}, tested on its second",
            arguments.file.display()
        ),
    };
    format!(
        "learned from  {learned_from}\n\
         ungrouped     {} of pages on average, for {} live\n\n{}\n\n{}\n\n{NOTE}\n",
        units::bytes(pages),
        units::bytes(live),
        stat::table(COLUMNS.to_vec(), rows),
        report::wrapped(&conclusion(outcome), 110).join("\n")
    )
}

fn random(arm: &Arm) -> String {
    match &arm.random {
        None => "-".into(),
        Some(random) if random.low == random.high => units::ratio(random.mean),
        Some(random) => format!(
            "{} ({} to {})",
            units::ratio(random.mean),
            units::ratio(random.low),
            units::ratio(random.high)
        ),
    }
}

/// What a row of the table comes to. The last sentence says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fewer,
    HardlyBetter,
    Chance,
    Same,
    More,
}

impl Verdict {
    /// Of the ratios as they are shown: nobody sees more.
    fn of(arm: &Arm) -> Self {
        let shown = |ratio: f64| (ratio * 100.0).round();
        match arm.random {
            _ if shown(arm.ratio) > 100.0 => Self::More,
            _ if shown(arm.ratio) == 100.0 => Self::Same,
            Some(random) if shown(arm.ratio) >= shown(random.low) => Self::Chance,
            Some(random) if arm.ratio > BETTER_THAN_RANDOM * random.low => Self::HardlyBetter,
            _ => Self::Fewer,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Fewer => "fewer pages",
            Self::HardlyBetter => "hardly better than chance",
            Self::Chance => "no better than chance",
            Self::Same => "as many pages as without",
            Self::More => "more pages than without",
        }
    }
}

fn conclusion(outcome: &Outcome) -> String {
    let rows = outcome.arms.get(1..).unwrap_or_default();
    let best = rows
        .iter()
        .filter(|arm| Verdict::of(arm) == Verdict::Fewer)
        .min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let name = |arm: &Arm| arm.grouping.map_or("chosen", Grouping::name);
    let Some((grouping, predicted)) = outcome.chosen else {
        return match best {
            None => "The profile predicts no gain, and there is none in the model: an allocator with size classes should \
                     leave these blocks where they are. What could be gained in the one that was recorded, pagewise trace \
                     report tells."
                .into(),
            Some(best) => format!(
                "The profile predicts no gain; tested, groups by {} need {} of the model's pages all the same. What one part of a \
                 run taught did not hold for the other: a longer recording, or --train with another one, would tell.",
                name(best),
                units::ratio(best.ratio)
            ),
        };
    };
    // It is in the table under its own name.
    let tested = rows.iter().find(|arm| arm.grouping == Some(grouping));
    let Some(arm) = tested.or(outcome.arms.first()) else {
        return String::new();
    };
    let control = match &arm.random {
        Some(random) => format!("and random groups {}", units::ratio(random.mean)),
        None => "and there is nothing to shuffle: every site is a group of its own".into(),
    };
    let mut said = format!(
        "The profile predicts that groups by {} need {} of the model's pages; tested, they need {}, {control}: {}.",
        grouping.name(),
        units::ratio(predicted),
        units::ratio(arm.ratio),
        Verdict::of(arm).words()
    );
    if let Some(best) = best.filter(|best| best.grouping != arm.grouping && best.ratio < arm.ratio)
    {
        let _ = write!(
            said,
            " Groups by {} need {}, which the profile did not foresee.",
            name(best),
            units::ratio(best.ratio)
        );
    }
    said
}

const NOTE: &str = "\
A model: spans of 64 KB with blocks of one size class and one group, lowest free place first. Averages are over
allocations and frees. sites: every call site for itself. lifetimes: sites whose blocks live about as long.
deaths: sites whose blocks are freed at the same times. Random groups have as many sites each;\n-: every site is a group of its own, and shuffling changes nothing. Averages: `pagewise trace report` looks at one moment
instead, the worst, and at one place at a time; what helps there need not help over the run, nor the reverse.";

#[cfg(test)]
mod tests {
    use super::*;
    use intervals::Interval;

    fn arm(grouping: Option<Grouping>, ratio: f64, random: Option<f64>) -> Arm {
        let interval = |mean| Interval {
            mean,
            low: mean - 0.01,
            high: mean + 0.01,
        };
        Arm {
            grouping,
            groups: 3,
            ratio,
            random: random.map(interval),
        }
    }

    fn outcome(rows: &[Arm], chosen: Option<Grouping>) -> Outcome {
        let own = rows.iter().find(|row| row.grouping == chosen);
        let own = own.map_or(arm(None, 1.0, None), |row| Arm {
            grouping: None,
            ..row.clone()
        });
        Outcome {
            ungrouped: Default::default(),
            arms: std::iter::once(own).chain(rows.iter().cloned()).collect(),
            chosen: chosen.map(|grouping| (grouping, 0.8)),
        }
    }

    /// All kinds of tables: what is said of a row is what its figures show, and what is said at the end is what rows say.
    #[test]
    fn the_conclusion_says_what_the_table_says() {
        let ratios = [0.5, 0.9, 0.975, 0.994, 0.996, 1.0, 1.004, 1.006, 1.3];
        let randoms = [None, Some(0.52), Some(0.95), Some(1.0), Some(1.2)];
        let groupings = [Grouping::Lifetimes, Grouping::Deaths, Grouping::Sites];
        for (one, &first) in ratios.iter().enumerate() {
            for (&second, &random) in ratios.iter().zip(randoms.iter().cycle().skip(one)) {
                let rows = [
                    arm(Some(groupings[0]), first, random),
                    arm(Some(groupings[1]), second, randoms[one % randoms.len()]),
                    arm(Some(groupings[2]), 1.0, None),
                ];
                let chosen = [None].into_iter().chain(groupings.map(Some));
                for chosen in chosen {
                    check(&rows, &outcome(&rows, chosen), chosen);
                }
            }
        }
    }

    fn check(rows: &[Arm], outcome: &Outcome, chosen: Option<Grouping>) {
        let said = conclusion(outcome);
        let number = |text: String| -> f64 { text.parse().expect("a number") };
        for row in rows {
            let (ratio, verdict) = (number(units::ratio(row.ratio)), Verdict::of(row));
            let control = row.random.map(|random| number(units::ratio(random.low)));
            match verdict {
                Verdict::More => assert!(ratio > 1.0, "{row:?}"),
                Verdict::Same => assert!(ratio == 1.0, "{row:?}"),
                Verdict::Chance => assert!(ratio < 1.0 && control.is_some_and(|low| ratio >= low)),
                _ => assert!(
                    ratio < 1.0 && control.is_none_or(|low| ratio < low),
                    "{row:?}"
                ),
            }
            if verdict == Verdict::Fewer {
                assert!(!said.contains("leave these blocks"), "{row:?}: {said}");
            }
            if row.grouping == chosen {
                let ends = format!("{}.", verdict.words());
                assert!(said.contains(&ends), "{row:?}: {said}");
                assert!(said.contains(&format!("they need {}", units::ratio(row.ratio))));
            }
        }
        let is_none_better = rows.iter().all(|row| Verdict::of(row) != Verdict::Fewer);
        if chosen.is_none() && is_none_better {
            assert!(said.contains("leave these blocks"), "{said}");
        }
    }
}
