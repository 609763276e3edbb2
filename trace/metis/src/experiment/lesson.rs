//! What a layout learns from the blocks of a training trace.

use super::arm::Arm;
use super::options::ExperimentOptions;
use crate::algorithm::Plan;
use crate::grouping::learn;
use crate::heap::Stopped;
use crate::workload::blocks::{EARLIER, joined};
use crate::workload::repeat::{RepeatOptions, repeat};
use trace_format::Event;

/// None: the layout has no plan.
pub fn learn_layout<'a>(
    layout: Arm,
    options: &ExperimentOptions,
    blocks: impl Iterator<Item = &'a Vec<Event>>,
) -> Result<Option<Plan>, Stopped> {
    let Some(grouping) = layout.grouping() else {
        return Ok(None);
    };
    let mut events = joined(blocks);
    if repeats(layout) {
        let once = std::mem::take(&mut events);
        let whole = RepeatOptions {
            block: once.len(),
            ..options.repeat
        };
        repeat(&once, &whole, TRAINING_SEED, |more| {
            events.extend_from_slice(more);
            events.len() < LONGEST_TRAINING
        });
    }
    let mut plan = learn::learn(grouping, &events, &options.heap, &options.metis)?;
    // Their fate is the cutting's, and no site's: a plan that knows it would promise what no allocator can keep.
    plan.group_of.remove(&EARLIER);
    Ok(Some(plan))
}

/// Of the training block's repetitions; the experiment's seeds are of the testing block's.
const TRAINING_SEED: u64 = 0;
/// Repeated until there are so many events: they are kept in memory.
const LONGEST_TRAINING: usize = 10_000_000;

pub fn repeats(arm: Arm) -> bool {
    matches!(arm, Arm::Starts | Arm::StartsRandom)
}
