//! One arm on one trace, with one seed.

use serde::{Deserialize, Serialize};

use super::arm::Arm;
use super::options::{ExperimentOptions, TraceInput};
use crate::algorithm::{Control, Metis, Plan};
use crate::grouping::Grouping;
use crate::grouping::chunks::Chunks;
use crate::grouping::ends::Ends;
use crate::grouping::fates::{Fate, Fates, Known, Use};
use crate::heap::free_space::Direction;
use crate::heap::simulator::Malformed;
use crate::heap::{NoGroups, Placement, Simulator, Stopped};
use crate::metrics::{Averages, Series};
use crate::workload::repeat::repeat;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub seed: u64,
    pub events: u64,
    pub allocations: u64,
    /// Groups and sites of the plan in use at the end.
    pub groups: usize,
    pub sites: usize,
    pub overall: Averages,
    /// From the learning arm's activation on; the whole run if it never activated.
    pub activation: Averages,
    pub heap_bytes: u64,
    pub peak_occupied_bytes: u64,
    pub malformed: Malformed,
    /// Out of memory, as the paper's runs end.
    pub stopped: Option<String>,
}

/// What becomes of every object of a seed's events in a heap without groups.
pub fn fates(
    options: &ExperimentOptions,
    trace: &TraceInput<'_>,
    seed: u64,
) -> Result<Vec<Fate>, Stopped> {
    let watch = Fates::new(options.heap.granule_bytes);
    let mut heap = Simulator::new(options.heap, watch)?;
    // One that runs out of memory has fates until then.
    repeat(trace.testing, &options.repeat, seed, |events| {
        heap.run(events).is_ok()
    });
    Ok(std::mem::take(&mut heap.placement_mut().fates))
}

pub fn run_arm(
    arm: Arm,
    plan: Option<&Plan>,
    options: &ExperimentOptions,
    trace: &TraceInput<'_>,
    seed: u64,
) -> Result<(Run, Series), Stopped> {
    let granule = options.heap.granule_bytes;
    let plan = plan.cloned().unwrap_or_default();
    let plan = match arm {
        Arm::ElsewhereRandom(_) | Arm::ChunksRandom(_) | Arm::EndsRandom | Arm::StartsRandom => {
            plan.randomized(seed)
        }
        _ => plan,
    };
    match arm {
        // A selection has become another arm by now.
        Arm::NoGroups | Arm::Selected | Arm::SelectedRandom => {
            replay(NoGroups, options, trace, seed, |_| (0, 0))
        }
        Arm::Metis => {
            let metis = Metis::new(options.metis, Control::Learned, granule);
            replay(metis, options, trace, seed, size_of_plan)
        }
        Arm::MetisRandom => {
            let metis = Metis::new(options.metis, Control::Random { seed }, granule);
            replay(metis, options, trace, seed, size_of_plan)
        }
        Arm::Elsewhere(_) | Arm::ElsewhereRandom(_) => {
            let paper = arm.grouping() == Some(Grouping::Metis);
            let region_groups = if paper {
                options.metis
            } else {
                options.region_groups
            };
            let metis = Metis::with_plan(region_groups, plan, granule);
            replay(metis, options, trace, seed, size_of_plan)
        }
        Arm::Ends | Arm::EndsRandom | Arm::Starts | Arm::StartsRandom => {
            let size = (plan.groups.len(), plan.group_of.len());
            let survivors = match arm {
                Arm::Ends | Arm::EndsRandom => Direction::Backward,
                _ => Direction::Forward,
            };
            replay(Ends::new(plan, survivors), options, trace, seed, |_| size)
        }
        Arm::KnownSurvivors | Arm::KnownDeaths => {
            let to = if arm == Arm::KnownDeaths {
                Use::Deaths
            } else {
                Use::Survivors
            };
            let fates = fates(options, trace, seed)?;
            let known = Known::new(fates, to, options.chunks, granule);
            replay(known, options, trace, seed, |_| (0, 0))
        }
        Arm::Chunks(_) | Arm::ChunksRandom(_) => {
            let size = (plan.groups.len(), plan.group_of.len());
            replay(
                Chunks::new(plan, options.chunks, granule),
                options,
                trace,
                seed,
                |_| size,
            )
        }
    }
}

fn size_of_plan(metis: &Metis) -> (usize, usize) {
    metis
        .plan()
        .map_or((0, 0), |plan| (plan.groups.len(), plan.group_of.len()))
}

fn replay<P: Placement>(
    placement: P,
    options: &ExperimentOptions,
    trace: &TraceInput<'_>,
    seed: u64,
    size_of_plan: impl Fn(&P) -> (usize, usize),
) -> Result<(Run, Series), Stopped> {
    let mut heap = Simulator::new(options.heap, placement)?;
    let mut stopped = None;
    repeat(trace.testing, &options.repeat, seed, |events| {
        stopped = heap.run(events).err();
        stopped.is_none()
    });
    let (groups, sites) = size_of_plan(heap.placement());
    let run = Run {
        seed,
        events: heap.events(),
        allocations: heap.allocations(),
        groups,
        sites,
        overall: heap.series().averages(0),
        activation: Averages::default(),
        heap_bytes: heap.heap_bytes(),
        peak_occupied_bytes: heap.peak_occupied_bytes(),
        malformed: *heap.malformed(),
        stopped: stopped.map(|stopped| stopped.to_string()),
    };
    Ok((run, heap.into_series()))
}
