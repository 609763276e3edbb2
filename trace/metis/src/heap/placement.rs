//! Where objects are put. The heap asks; a placement answers and is told what becomes of the objects.

use serde::{Deserialize, Serialize};

use trace_format::{SiteId, ThreadId};

use super::free_space::{Direction, FreeSpace};
use super::objects::Objects;
use super::place::{GLOBAL, Place};
use super::slot::Slot;

#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Granules.
    pub size: u32,
    pub site: SiteId,
    pub thread: ThreadId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// There will never be groups.
    #[default]
    Ungrouped,
    Profiling,
    Activation,
}

/// What lies in region groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub regions: u32,
    /// Granules reserved, occupied ones included.
    pub reserved: u32,
    pub free: u32,
    pub holes: u32,
}

pub trait Placement {
    /// A place for the request, or None: then the heap is collected and the question is asked again.
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place>;

    /// An object that lay in a region is gone. `at_once`: outside a collection, so that a region left
    /// empty must go back now.
    fn release(&mut self, _global: &mut FreeSpace, _place: Place, _size: u32, _at_once: bool) {}

    /// A collection has released the dead.
    fn collected(&mut self, _global: &mut FreeSpace) {}

    fn census(&self) -> Census {
        Census::default()
    }

    fn phase(&self) -> Phase {
        Phase::Ungrouped
    }

    fn allocated(&mut self, _objects: &Objects, _slot: Slot) {}

    /// A field of `source` now refers to `target`.
    fn assigned(&mut self, _objects: &Objects, _source: Slot, _target: Slot) {}

    fn rooted(&mut self, _objects: &Objects, _slot: Slot, _thread: ThreadId) {}

    /// These objects are dead and about to be released together; their fields are still there.
    fn dying(&mut self, _objects: &Objects, _dead: &[Slot]) {}
}

/// The control, and the paper's DEFAULT: everything goes to the global heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGroups;

impl Placement for NoGroups {
    #[inline]
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        let start = global.allocate(request.size, Direction::Forward)?;
        Some(Place {
            region: GLOBAL,
            start,
        })
    }
}
