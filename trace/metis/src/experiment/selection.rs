//! Whether to group at all: layouts are tried within the training trace, on blocks that they have not learned from, and a profile
//! that predicts no gain switches itself off.

use super::arm::Arm;
use super::lesson::learn_layout;
use super::options::{ExperimentOptions, TraceInput};
use super::runs::run_arm;
use crate::algorithm::Plan;
use crate::grouping::Grouping;
use crate::heap::Stopped;
use trace_format::Event;

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
const SEEDS: std::ops::RangeInclusive<u64> = 1..=2;
/// Predicted measure over that of either control from which grouping is not worth it.
const WORTH_IT: f64 = 0.95;

/// Sums over seeds; smaller is better.
#[derive(Clone, Copy)]
struct Score {
    free: f64,
    holes: f64,
}

impl Score {
    /// There is more of neither measure. False where the heap was never collected: then nothing is known.
    fn does_no_harm(&self, control: &Self) -> bool {
        self.free <= control.free && self.holes <= control.holes
    }

    /// Logarithms of what is left of the control's.
    fn gain(&self, control: &Self) -> (f64, f64) {
        let left = |one: f64, other: f64| (one / other).ln();
        (
            left(self.free, control.free),
            left(self.holes, control.holes),
        )
    }
}

/// In the mean, and on both measures: what one gains by the other's loss does not carry over to other inputs.
struct Promise {
    free: f64,
    holes: f64,
}

impl Promise {
    fn of(layout: &[Score], control: &[Score]) -> Self {
        let gains = layout.iter().zip(control);
        let count = layout.len().max(1) as f64;
        let (free, holes) = gains
            .map(|(one, other)| one.gain(other))
            .fold((0.0, 0.0), |sum, gain| (sum.0 + gain.0, sum.1 + gain.1));
        Self {
            free: free / count,
            holes: holes / count,
        }
    }

    fn is_worth_it(&self) -> bool {
        self.free < WORTH_IT.ln() && self.holes < WORTH_IT.ln()
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
    let plain: Vec<Score> = blocks
        .iter()
        .map(|block| score(Arm::NoGroups, None, options, block))
        .collect::<Result<_, _>>()?;
    let mut best = (0.0, Choice::default());
    for (learned, random) in CANDIDATES {
        let Some(tried) = harmless(learned, options, blocks, &plain)? else {
            continue;
        };
        let (plans, grouped): (Vec<Plan>, Vec<Score>) = tried.into_iter().unzip();
        let promise = Promise::of(&grouped, &plain);
        let sum = promise.free + promise.holes;
        if !promise.is_worth_it() || sum >= best.0 {
            continue;
        }
        // A gain that random groups have too is not the profile's.
        let folds = plans.iter().zip(blocks);
        let control: Vec<Score> = folds
            .map(|(plan, block)| score(random, Some(plan), options, block))
            .collect::<Result<_, _>>()?;
        if Promise::of(&grouped, &control).is_worth_it() {
            best = (sum, Choice { learned, random });
        }
    }
    Ok(best.1)
}

/// Each block tested with what all others teach; None as soon as one has more of either measure than without groups.
fn harmless(
    learned: Arm,
    options: &ExperimentOptions,
    blocks: &[Vec<Event>],
    plain: &[Score],
) -> Result<Option<Vec<(Plan, Score)>>, Stopped> {
    let mut tried = Vec::new();
    for (tested, (block, without)) in blocks.iter().zip(plain).enumerate() {
        let others = blocks.iter().enumerate().filter(|(at, _)| *at != tested);
        let plan = learn_layout(learned, options, others.map(|(_, block)| block))?;
        let found = score(learned, plan.as_ref(), options, block)?;
        if !found.does_no_harm(without) {
            return Ok(None);
        }
        tried.push((plan.unwrap_or_default(), found));
    }
    Ok(Some(tried))
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
