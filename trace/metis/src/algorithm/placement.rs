//! Metis as a placement: profiling, then activation.

use serde::{Deserialize, Serialize};

use crate::heap::free_space::FreeSpace;
use crate::heap::objects::Objects;
use crate::heap::place::Place;
use crate::heap::placement::{Census, NoGroups, Phase, Placement, Request};
use crate::heap::slot::Slot;
use trace_format::ThreadId;

use super::options::MetisOptions;
use super::plan::Plan;
use super::region_groups::RegionGroups;
use super::trainer::Trainer;

/// What becomes of the learned plan when the activation phase begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    #[default]
    Learned,
    /// Random groups of the same sizes.
    Random { seed: u64 },
}

pub struct Metis {
    options: MetisOptions,
    control: Control,
    granule_bytes: u32,
    state: State,
}

enum State {
    Profiling(Box<Trainer>),
    Active(Box<RegionGroups>),
}

impl Metis {
    /// Profiles the program it serves, then serves it with what it learned.
    pub fn new(options: MetisOptions, control: Control, granule_bytes: u32) -> Self {
        let state = State::Profiling(Box::new(Trainer::new(granule_bytes)));
        Self {
            options,
            control,
            granule_bytes,
            state,
        }
    }

    /// Starts in the activation phase, with a plan learned elsewhere.
    pub fn with_plan(options: MetisOptions, plan: Plan, granule_bytes: u32) -> Self {
        let state = State::Active(Box::new(RegionGroups::new(plan, options, granule_bytes)));
        Self {
            options,
            control: Control::Learned,
            granule_bytes,
            state,
        }
    }

    /// Ends profiling now, whatever the criterion says.
    pub fn activate(&mut self) {
        let State::Profiling(trainer) = &mut self.state else {
            return;
        };
        let learned = trainer.finish(&self.options);
        let plan = match self.control {
            Control::Learned => learned,
            Control::Random { seed } => learned.randomized(seed),
        };
        self.state = State::Active(Box::new(RegionGroups::new(
            plan,
            self.options,
            self.granule_bytes,
        )));
    }

    /// The plan in use; None while profiling.
    pub fn plan(&self) -> Option<&Plan> {
        match &self.state {
            State::Profiling(_) => None,
            State::Active(groups) => Some(groups.plan()),
        }
    }

    pub fn regions_created(&self) -> u64 {
        match &self.state {
            State::Profiling(_) => 0,
            State::Active(groups) => groups.created(),
        }
    }
}

impl Placement for Metis {
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        match &mut self.state {
            State::Profiling(_) => NoGroups.place(global, request),
            State::Active(groups) => groups.allocate(global, request),
        }
    }

    fn release(&mut self, global: &mut FreeSpace, place: Place, size: u32, at_once: bool) {
        if let State::Active(groups) = &mut self.state {
            groups.release(global, place, size, at_once);
        }
    }

    fn collected(&mut self, global: &mut FreeSpace) {
        match &mut self.state {
            State::Active(groups) => groups.reclaim_empty(global),
            State::Profiling(trainer) => {
                if trainer.collected(&self.options) {
                    self.activate();
                }
            }
        }
    }

    fn census(&self) -> Census {
        match &self.state {
            State::Profiling(_) => Census::default(),
            State::Active(groups) => groups.census(),
        }
    }

    fn phase(&self) -> Phase {
        match &self.state {
            State::Profiling(_) => Phase::Profiling,
            State::Active(_) => Phase::Activation,
        }
    }

    fn allocated(&mut self, objects: &Objects, slot: Slot) {
        if let State::Profiling(trainer) = &mut self.state {
            trainer.allocated(objects, slot);
        }
    }

    fn assigned(&mut self, objects: &Objects, source: Slot, target: Slot) {
        if let State::Profiling(trainer) = &mut self.state {
            trainer.assigned(objects, source, target, self.options.thread_aware);
        }
    }

    fn rooted(&mut self, objects: &Objects, slot: Slot, thread: ThreadId) {
        if self.options.thread_aware
            && let State::Profiling(trainer) = &mut self.state
        {
            trainer.rooted(objects, slot, thread);
        }
    }

    fn dying(&mut self, objects: &Objects, dead: &[Slot]) {
        if let State::Profiling(trainer) = &mut self.state {
            trainer.dying(objects, dead, &self.options);
        }
    }
}
