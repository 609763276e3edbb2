//! A placement without any reservation: sites whose objects survive collections fill the heap from one end, all others
//! from the other. Holes that survivors leave between them stay at one end.

use crate::algorithm::Plan;
use crate::heap::free_space::{Direction, FreeSpace};
use crate::heap::place::{GLOBAL, Place};
use crate::heap::placement::{Phase, Placement, Request};

pub struct Ends {
    plan: Plan,
    survivors: Direction,
}

impl Ends {
    /// `survivors` fill the heap from its start (forward) or from its end (backward).
    pub fn new(plan: Plan, survivors: Direction) -> Self {
        Self { plan, survivors }
    }
}

impl Placement for Ends {
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        let direction = if self.plan.says_survives(request.site) {
            self.survivors
        } else {
            self.survivors.reversed()
        };
        let start = global.allocate(request.size, direction)?;
        Some(Place {
            region: GLOBAL,
            start,
        })
    }

    fn phase(&self) -> Phase {
        Phase::Activation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::plan::PlannedGroup;

    #[test]
    fn survivors_fill_the_heap_from_its_end_and_everyone_uses_everything() {
        let group = |survives| PlannedGroup {
            survives,
            ..PlannedGroup::default()
        };
        let group_of = [(1, 0), (2, 1)].into_iter().collect();
        let plan = Plan {
            groups: vec![group(false), group(true)],
            group_of,
        };
        let mut ends = Ends::new(plan, Direction::Backward);
        let mut global = FreeSpace::new(100);
        let mut start = |site, size| {
            ends.place(
                &mut global,
                &Request {
                    size,
                    site,
                    thread: 0,
                },
            )
            .map(|place| place.start)
        };
        assert_eq!(
            [start(1, 10), start(2, 10), start(9, 10)],
            [Some(0), Some(90), Some(10)]
        );
        assert_eq!(
            [start(2, 60), start(1, 10), start(1, 1)],
            [Some(30), Some(20), None]
        );
    }
}
