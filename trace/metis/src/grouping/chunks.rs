//! A placement that reserves nothing for good: each group fills chunks of the global heap from their beginning, and
//! when nothing else fits all unfilled rests go back before a collection is asked for.
//!
//! Objects of a group lie together as in region groups, but no free byte is out of anyone's reach, so grouping
//! cannot make a collection come earlier. Holes left by the dead serve any group.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::algorithm::Plan;
use crate::heap::free_space::{Direction, FreeSpace};
use crate::heap::place::{GLOBAL, Place};
use crate::heap::placement::{Phase, Placement, Request};
use trace_format::ThreadId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChunkOptions {
    /// What a group takes at a time, and the smallest hole that it takes as its own.
    pub chunk_bytes: u32,
    /// Threads fill chunks of their own.
    pub by_thread: bool,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 2048,
            by_thread: false,
        }
    }
}

/// The unfilled rest of a group's chunk.
#[derive(Clone, Copy, Default)]
struct Rest {
    next: u32,
    end: u32,
}

pub struct Chunks {
    plan: Plan,
    by_thread: bool,
    /// Granules.
    chunk: u32,
    rests: FxHashMap<(u32, ThreadId), Rest>,
}

impl Chunks {
    pub fn new(plan: Plan, options: ChunkOptions, granule_bytes: u32) -> Self {
        Self {
            plan,
            by_thread: options.by_thread,
            chunk: options.chunk_bytes.div_ceil(granule_bytes).max(1),
            rests: FxHashMap::default(),
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// In a chunk of the group, or wherever there is room.
    pub(super) fn place_in(
        &mut self,
        global: &mut FreeSpace,
        group: Option<u32>,
        request: &Request,
    ) -> Option<u32> {
        group
            .and_then(|group| self.allocate_in_group(global, group, request))
            .or_else(|| global.allocate(request.size, Direction::Forward))
            .or_else(|| {
                self.rests
                    .drain()
                    .for_each(|(_, rest)| give_back(global, rest));
                global.allocate(request.size, Direction::Forward)
            })
    }

    fn allocate_in_group(
        &mut self,
        global: &mut FreeSpace,
        group: u32,
        request: &Request,
    ) -> Option<u32> {
        let thread = if self.by_thread { request.thread } else { 0 };
        let rest = self.rests.entry((group, thread)).or_default();
        if rest.end - rest.next < request.size {
            let chunk = self.chunk.max(request.size);
            let start = global.allocate(chunk, Direction::Forward)?;
            give_back(global, *rest);
            *rest = Rest {
                next: start,
                end: start + chunk,
            };
        }
        let start = rest.next;
        rest.next += request.size;
        Some(start)
    }
}

fn give_back(global: &mut FreeSpace, rest: Rest) {
    if rest.next < rest.end {
        global.release(rest.next, rest.end - rest.next);
    }
}

impl Placement for Chunks {
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        let group = self.plan.group_of.get(&request.site).copied();
        let start = self.place_in(global, group, request)?;
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

    fn chunks() -> Chunks {
        let group_of = [(1, 0), (2, 1)].into_iter().collect();
        let plan = Plan {
            groups: vec![PlannedGroup::default(); 2],
            group_of,
        };
        Chunks::new(
            plan,
            ChunkOptions {
                chunk_bytes: 40,
                by_thread: false,
            },
            1,
        )
    }

    fn start(chunks: &mut Chunks, global: &mut FreeSpace, site: u32, size: u32) -> Option<u32> {
        chunks
            .place(
                global,
                &Request {
                    size,
                    site,
                    thread: 0,
                },
            )
            .map(|place| place.start)
    }

    #[test]
    fn groups_fill_chunks_of_their_own() {
        let (mut chunks, mut global) = (chunks(), FreeSpace::new(200));
        let starts: Vec<Option<u32>> = [1, 2, 1, 9, 2]
            .iter()
            .map(|site| start(&mut chunks, &mut global, *site, 10))
            .collect();
        assert_eq!(starts, [Some(0), Some(40), Some(10), Some(80), Some(50)]);
    }

    #[test]
    fn what_groups_have_not_filled_is_used_before_a_collection() {
        let (mut chunks, mut global) = (chunks(), FreeSpace::new(100));
        start(&mut chunks, &mut global, 1, 10);
        start(&mut chunks, &mut global, 2, 10);
        assert_eq!(
            start(&mut chunks, &mut global, 9, 25),
            Some(10),
            "group 1's rest"
        );
        assert_eq!(
            start(&mut chunks, &mut global, 9, 50),
            Some(50),
            "group 2's and the end"
        );
        assert_eq!(global.free(), 5);
        assert_eq!(start(&mut chunks, &mut global, 1, 6), None);
        assert_eq!(
            start(&mut chunks, &mut global, 1, 5),
            Some(35),
            "a group takes any hole too"
        );
    }
}
