//! Whether to group at all: layouts are tried within the training trace, on blocks that they have not learned from, and a profile
//! that predicts no gain switches itself off.

use super::{Arm, ExperimentOptions, TraceInput, learn_layout, run_arm};
use crate::event::Event;
use crate::grouping::Grouping;
use crate::heap::Stopped;
use crate::metis::Plan;

/// Layouts to choose among, with their controls.
const CANDIDATES: [(Arm, Arm); 3] = [
    (Arm::Ends, Arm::EndsRandom),
    (
        Arm::Elsewhere(Grouping::Components),
        Arm::ElsewhereRandom(Grouping::Components),
    ),
    (
        Arm::Elsewhere(Grouping::Deaths),
        Arm::ElsewhereRandom(Grouping::Deaths),
    ),
];
/// Of the training trace's blocks so many are tested on, each with what all others teach.
const FOLDS: usize = 4;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=2;
/// Predicted measure over that of either control from which grouping is not worth it.
const WORTH_IT: f64 = 0.95;

/// Sums over seeds; smaller is better.
#[derive(Clone, Copy)]
struct Score {
    free: f64,
    holes: f64,
}

/// Of a layout over a control, in logarithms: 0 is no difference.
struct Gains(Vec<(f64, f64)>);

impl Gains {
    /// In the mean over folds, and on both measures: what one gains by the other's loss does not carry over to other inputs.
    fn is_worth_it(&self) -> bool {
        let (free, holes) = self.mean();
        free < WORTH_IT.ln() && holes < WORTH_IT.ln()
    }

    /// In no fold is there more of either measure.
    fn does_no_harm(&self) -> bool {
        self.0
            .iter()
            .all(|(free, holes)| *free <= 0.0 && *holes <= 0.0)
    }

    fn mean(&self) -> (f64, f64) {
        let count = self.0.len().max(1) as f64;
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| self.0.iter().map(of).sum::<f64>() / count;
        (sum(&|gain| gain.0), sum(&|gain| gain.1))
    }

    fn of(layout: &[Score], control: &[Score]) -> Self {
        let ratio = |one: f64, other: f64| (one / other).ln();
        let pairs = layout.iter().zip(control);
        Self(
            pairs
                .map(|(one, other)| (ratio(one.free, other.free), ratio(one.holes, other.holes)))
                .collect(),
        )
    }
}

/// A layout, and its control.
#[derive(Clone, Copy)]
pub struct Choice {
    pub learned: Arm,
    pub random: Arm,
}

/// No groups.
impl Default for Choice {
    fn default() -> Self {
        Self {
            learned: Arm::NoGroups,
            random: Arm::NoGroups,
        }
    }
}

/// The candidate that promises most on both measures and harms nowhere; or no groups.
pub fn select(options: &ExperimentOptions, blocks: &[Vec<Event>]) -> Result<Choice, Stopped> {
    if blocks.len() < 2 {
        // Nothing is left to test on.
        return Ok(Choice::default());
    }
    let plain = scores(Arm::NoGroups, Arm::NoGroups, options, blocks)?;
    let mut best = (0.0, Choice::default());
    for (learned, random) in CANDIDATES {
        let grouped = scores(learned, learned, options, blocks)?;
        let gains = Gains::of(&grouped, &plain);
        let (free, holes) = gains.mean();
        // Also false where a heap was never collected: then nothing can be predicted.
        if !(gains.is_worth_it() && gains.does_no_harm() && free + holes < best.0) {
            continue;
        }
        // A gain that random groups have too is not the profile's.
        let control = scores(learned, random, options, blocks)?;
        if Gains::of(&grouped, &control).is_worth_it() {
            best = (free + holes, Choice { learned, random });
        }
    }
    Ok(best.1)
}

/// Of `run` with the plan of `learned`, fold by fold.
fn scores(
    learned: Arm,
    run: Arm,
    options: &ExperimentOptions,
    blocks: &[Vec<Event>],
) -> Result<Vec<Score>, Stopped> {
    let step = blocks.len().div_ceil(FOLDS).max(1);
    let folds = (0..blocks.len()).step_by(step);
    folds
        .map(|tested| {
            let others = blocks.iter().enumerate().filter(|(at, _)| *at != tested);
            let plan = learn_layout(learned, options, others.map(|(_, block)| block))?;
            score(run, plan.as_ref(), options, &blocks[tested])
        })
        .collect()
}

fn score(
    arm: Arm,
    plan: Option<&Plan>,
    options: &ExperimentOptions,
    block: &[Event],
) -> Result<Score, Stopped> {
    let trace = TraceInput {
        name: "",
        testing: block,
        training: None,
    };
    let mut score = Score {
        free: 0.0,
        holes: 0.0,
    };
    for seed in SEEDS {
        let (run, series) = run_arm(arm, plan, options, &trace, seed)?;
        let averages = series.averages(run.allocations / 2);
        score.free += averages.total_free_ratio.unwrap_or(f64::NAN);
        score.holes += averages.all_holes.unwrap_or(f64::NAN);
    }
    Ok(score)
}
