//! Replays a trace on a simulated heap.

use std::ops::AddAssign;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::metrics::{Collection, Series};
use trace_format::{Event, ObjectId, SiteId, ThreadId};

use super::free_space::FreeSpace;
use super::mark_sweep;
use super::objects::Objects;
use super::options::{Collector, Growth, HeapOptions};
use super::place::{GLOBAL, Place};
use super::placement::{Placement, Request};
use super::reference_counting::ReferenceCounts;
use super::slot::Slot;

/// Events that cannot have happened to a program, by what is wrong with them. They are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Malformed {
    /// Allocated, but alive already.
    pub duplicates: u64,
    /// Object 0 allocated, freed, assigned to or rooted.
    pub nothing: u64,
    /// Never allocated.
    pub unknown: u64,
    /// Freed by the program, or found dead: then the trace lacks roots or references.
    pub after_death: u64,
    /// A root removed that its thread did not hold.
    pub roots_not_held: u64,
    /// Larger than the largest heap allowed.
    pub too_large: u64,
    /// Index of the first of them.
    pub first: Option<u64>,
}

impl Malformed {
    pub fn total(&self) -> u64 {
        let objects = self.duplicates + self.nothing + self.unknown + self.after_death;
        objects + self.roots_not_held + self.too_large
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Stopped {
    #[error(
        "event {index}: no room for {bytes} bytes in a heap of {heap_bytes} that may not exceed \
         {max_heap_bytes}; raise the limit or replay less"
    )]
    OutOfMemory {
        index: u64,
        bytes: u64,
        heap_bytes: u64,
        max_heap_bytes: u64,
    },
    #[error("event {index} cannot have happened: {event:?}; without `strict` it would be skipped")]
    Malformed { index: u64, event: Event },
    #[error("the heap's options: {0}")]
    Options(String),
}

/// A heap that events happen to.
pub struct Simulator<P> {
    options: HeapOptions,
    objects: Objects,
    global: FreeSpace,
    placement: P,
    counts: ReferenceCounts,
    newest: Newest,
    /// Without references, until the next allocation.
    unreferenced: Vec<(Slot, ObjectId)>,
    highest_object: ObjectId,
    events: u64,
    allocations: u64,
    occupied: u64,
    peak_occupied: u64,
    malformed: Malformed,
    series: Series,
    stopped: Option<Stopped>,
}

/// The newest object of each thread, which may be in a register and nowhere else.
#[derive(Default)]
struct Newest {
    /// Of the thread that allocated last; 0 at the start.
    last: (ThreadId, ObjectId),
    others: FxHashMap<ThreadId, ObjectId>,
}

impl Newest {
    /// Says which object the thread held before.
    #[inline]
    fn replace(&mut self, thread: ThreadId, object: ObjectId) -> Option<ObjectId> {
        let (last_thread, last) = std::mem::replace(&mut self.last, (thread, object));
        if last_thread == thread {
            return Some(last);
        }
        self.others.insert(last_thread, last);
        self.others.remove(&thread)
    }

    fn is(&self, thread: ThreadId, object: ObjectId) -> bool {
        self.last == (thread, object) || self.others.get(&thread) == Some(&object)
    }

    fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.others.values().copied().chain([self.last.1])
    }
}

/// Wrong with an event; the count that it belongs to is found by the caller.
#[derive(Clone, Copy)]
enum Fault {
    Duplicate,
    Nothing,
    Unknown,
    AfterDeath,
    RootNotHeld,
    TooLarge,
}

enum Refused {
    Fault(Fault),
    OutOfMemory { bytes: u64 },
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl<P: Placement> Simulator<P> {
    pub fn new(options: HeapOptions, placement: P) -> Result<Self, Stopped> {
        options.check().map_err(Stopped::Options)?;
        Ok(Self {
            global: FreeSpace::new(options.granules(options.heap_bytes)),
            options,
            objects: Objects::default(),
            placement,
            counts: ReferenceCounts::default(),
            newest: Newest::default(),
            unreferenced: Vec::new(),
            highest_object: 0,
            events: 0,
            allocations: 0,
            occupied: 0,
            peak_occupied: 0,
            malformed: Malformed::default(),
            series: Series::default(),
            stopped: None,
        })
    }

    /// Replays the next events. After an error the heap stays as it was, and every further call returns it.
    pub fn run(&mut self, events: &[Event]) -> Result<(), Stopped> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone());
        }
        for event in events {
            if let Err(refused) = self.apply(event) {
                self.refuse(event, refused)?;
            }
            self.events += 1;
        }
        Ok(())
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn allocations(&self) -> u64 {
        self.allocations
    }

    pub fn malformed(&self) -> &Malformed {
        &self.malformed
    }

    pub fn series(&self) -> &Series {
        &self.series
    }

    pub fn heap_bytes(&self) -> u64 {
        self.bytes(self.global.granules())
    }

    pub fn peak_occupied_bytes(&self) -> u64 {
        self.peak_occupied * u64::from(self.options.granule_bytes)
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    pub fn placement(&self) -> &P {
        &self.placement
    }

    pub fn placement_mut(&mut self) -> &mut P {
        &mut self.placement
    }

    pub fn into_series(self) -> Series {
        self.series
    }

    #[inline]
    fn apply(&mut self, event: &Event) -> Result<(), Refused> {
        match *event {
            Event::Allocate {
                object,
                site,
                size,
                thread,
            } => self.allocate(object, site, size, thread),
            Event::Assign {
                object,
                field,
                target,
            } => self.assign(object, field, target),
            Event::AddRoot { object, thread } => self.add_root(object, thread),
            Event::RemoveRoot { object, thread } => self.remove_root(object, thread),
            Event::Free { object } => self.free(object),
            Event::Jump { .. } => Ok(()),
        }
    }

    #[cold]
    fn refuse(&mut self, event: &Event, refused: Refused) -> Result<(), Stopped> {
        let index = self.events;
        let stopped = match refused {
            Refused::OutOfMemory { bytes } => Stopped::OutOfMemory {
                index,
                bytes,
                heap_bytes: self.heap_bytes(),
                max_heap_bytes: self.options.max_heap_bytes,
            },
            Refused::Fault(_) if self.options.strict => Stopped::Malformed {
                index,
                event: *event,
            },
            Refused::Fault(fault) => {
                let malformed = &mut self.malformed;
                malformed.first.get_or_insert(index);
                match fault {
                    Fault::Duplicate => &mut malformed.duplicates,
                    Fault::Nothing => &mut malformed.nothing,
                    Fault::Unknown => &mut malformed.unknown,
                    Fault::AfterDeath => &mut malformed.after_death,
                    Fault::RootNotHeld => &mut malformed.roots_not_held,
                    Fault::TooLarge => &mut malformed.too_large,
                }
                .add_assign(1);
                return Ok(());
            }
        };
        self.stopped = Some(stopped.clone());
        Err(stopped)
    }

    #[inline]
    fn find(&self, object: ObjectId) -> Result<Slot, Fault> {
        self.objects
            .find(object)
            .ok_or_else(|| self.why_missing(object))
    }

    #[cold]
    fn why_missing(&self, object: ObjectId) -> Fault {
        match object {
            0 => Fault::Nothing,
            _ if object <= self.highest_object => Fault::AfterDeath,
            _ => Fault::Unknown,
        }
    }

    fn allocate(
        &mut self,
        object: ObjectId,
        site: SiteId,
        size: u64,
        thread: ThreadId,
    ) -> Result<(), Refused> {
        if object == 0 {
            return Err(Fault::Nothing.into());
        }
        if object <= self.highest_object && self.objects.find(object).is_some() {
            return Err(Fault::Duplicate.into());
        }
        if size > self.options.max_heap_bytes {
            return Err(Fault::TooLarge.into());
        }
        self.drop_unreferenced();
        let request = Request {
            size: self.options.granules(size.max(1)),
            site,
            thread,
        };
        let place = match self.placement.place(&mut self.global, &request) {
            Some(place) => place,
            None => {
                self.collect();
                self.place_growing(&request)
                    .ok_or(Refused::OutOfMemory { bytes: size })?
            }
        };
        let slot = self
            .objects
            .insert(object, place, request.size, site, thread);
        self.highest_object = self.highest_object.max(object);
        self.allocations += 1;
        self.occupied += u64::from(request.size);
        self.peak_occupied = self.peak_occupied.max(self.occupied);
        self.hold(object, thread);
        self.placement.allocated(&self.objects, slot);
        Ok(())
    }

    /// The thread holds its newest object, and lets go of the one before.
    fn hold(&mut self, object: ObjectId, thread: ThreadId) {
        match self.options.collector {
            Collector::Explicit => {}
            Collector::MarkSweep => {
                self.newest.replace(thread, object);
            }
            Collector::ReferenceCounting => {
                let before = self.newest.replace(thread, object);
                if let Some(slot) = before.and_then(|before| self.objects.find(before)) {
                    self.counts.let_go(&mut self.objects, slot);
                }
            }
        }
    }

    /// Section 5.1: once after a collection if the growth rule says so, then as often as the request needs.
    fn place_growing(&mut self, request: &Request) -> Option<Place> {
        let census = self.placement.census();
        let free = u64::from(self.global.free()) + u64::from(census.free);
        if self
            .options
            .growth
            .asks_for_more(free, u64::from(self.global.granules()))
        {
            self.grow(self.options.increment(self.global.granules()));
        }
        loop {
            if let Some(place) = self.placement.place(&mut self.global, request) {
                return Some(place);
            }
            let increment = self
                .options
                .increment(self.global.granules())
                .max(request.size);
            if !self.grow(increment) {
                return None;
            }
        }
    }

    /// False where the heap is as large as it may be.
    fn grow(&mut self, granules: u32) -> bool {
        let limit = self.options.granules(self.options.max_heap_bytes);
        let granules = granules.min(limit.saturating_sub(self.global.granules()));
        self.global.grow(granules);
        granules > 0
    }

    fn assign(&mut self, object: ObjectId, field: u32, target: ObjectId) -> Result<(), Refused> {
        let source = self.find(object)?;
        let target = if target == 0 {
            None
        } else {
            Some(self.find(target)?)
        };
        if let Some(target) = target {
            self.objects[target].referred_to = true;
        }
        let before = self.objects.set_field(source, field, target);
        if let Some(target) = target {
            self.placement.assigned(&self.objects, source, target);
        }
        if self.options.collector == Collector::ReferenceCounting {
            if let Some(target) = target {
                self.counts.increment(&mut self.objects, target);
            }
            if let Some(before) = before {
                self.drop_reference(before);
            }
        }
        Ok(())
    }

    fn add_root(&mut self, object: ObjectId, thread: ThreadId) -> Result<(), Refused> {
        let slot = self.find(object)?;
        self.objects.add_root(slot, thread);
        self.placement.rooted(&self.objects, slot, thread);
        if self.options.collector == Collector::ReferenceCounting {
            self.counts.increment(&mut self.objects, slot);
        }
        Ok(())
    }

    fn remove_root(&mut self, object: ObjectId, thread: ThreadId) -> Result<(), Refused> {
        let slot = self.find(object)?;
        if !self.objects.remove_root(slot, thread) {
            return Err(Fault::RootNotHeld.into());
        }
        if self.options.collector == Collector::ReferenceCounting {
            self.drop_reference(slot);
        }
        Ok(())
    }

    fn drop_reference(&mut self, slot: Slot) {
        let object = &self.objects[slot];
        let held = self.options.protect_newest && self.newest.is(object.thread, object.id);
        if !self.counts.decrement(&mut self.objects, slot, held) {
            return;
        }
        if self.options.deferred {
            self.unreferenced.push((slot, self.objects[slot].id));
        } else {
            self.bury(slot);
        }
    }

    fn drop_unreferenced(&mut self) {
        for (slot, id) in std::mem::take(&mut self.unreferenced) {
            let object = &self.objects[slot];
            if object.id != id || !object.is_alive() || object.references > 0 {
                continue;
            }
            if self.options.protect_newest && self.newest.is(object.thread, id) {
                self.counts.let_go(&mut self.objects, slot);
            } else {
                self.bury(slot);
            }
        }
    }

    /// The object, to which nothing refers, and all that dies with it.
    fn bury(&mut self, slot: Slot) {
        let (newest, protect) = (&self.newest, self.options.protect_newest);
        let is_held = |objects: &Objects, slot: Slot| {
            let object = &objects[slot];
            protect && newest.is(object.thread, object.id)
        };
        let mut dead = vec![slot];
        self.counts.cascade(&mut self.objects, &mut dead, is_held);
        self.placement.dying(&self.objects, &dead);
        for slot in dead {
            self.give_back_now(slot);
            self.objects.remove(slot);
        }
    }

    fn free(&mut self, object: ObjectId) -> Result<(), Refused> {
        let slot = self.find(object)?;
        if self.options.collector == Collector::ReferenceCounting {
            // Its references end here too.
            let mut targets = Vec::new();
            self.objects
                .each_target(slot, |target| targets.push(target));
            self.remove_freed(slot);
            for target in targets {
                if self.objects[target].is_alive() && self.objects[target].references > 0 {
                    self.drop_reference(target);
                }
            }
        } else {
            self.remove_freed(slot);
        }
        Ok(())
    }

    fn remove_freed(&mut self, slot: Slot) {
        self.placement.dying(&self.objects, &[slot]);
        self.give_back_now(slot);
        self.objects.remove_freed(slot);
    }

    fn give_back_now(&mut self, slot: Slot) {
        let (place, size) = (self.objects[slot].place, self.objects[slot].size);
        self.occupied -= u64::from(size);
        if place.region == GLOBAL {
            self.global.release(place.start, size);
        } else {
            self.placement.release(&mut self.global, place, size, true);
        }
    }

    #[cold]
    fn collect(&mut self) {
        let mut record = self.census();
        let dead = self.find_dead();
        self.placement.dying(&self.objects, &dead);
        let mut reclaimed = 0;
        for slot in dead {
            let (place, size) = (self.objects[slot].place, self.objects[slot].size);
            reclaimed += u64::from(size);
            if place.region == GLOBAL {
                self.global.sweep(place.start, size);
            } else {
                self.placement.release(&mut self.global, place, size, false);
            }
            self.objects.remove(slot);
        }
        self.global.rebuild();
        self.placement.collected(&mut self.global);
        self.occupied -= reclaimed;
        record.reclaimed = reclaimed * u64::from(self.options.granule_bytes);
        let left = self.placement.census();
        record.regions_after = u64::from(left.regions);
        record.holes_after = u64::from(left.holes) + u64::from(self.global.holes());
        self.series.push(record);
    }

    fn find_dead(&mut self) -> Vec<Slot> {
        self.objects.drop_dangling_references();
        let held = self.held();
        match self.options.collector {
            Collector::MarkSweep => {
                mark_sweep::mark(&mut self.objects, &held);
                mark_sweep::take_unmarked(&mut self.objects)
            }
            Collector::ReferenceCounting => self.counts.collect(&mut self.objects, &held),
            Collector::Explicit => Vec::new(),
        }
    }

    fn held(&self) -> Vec<Slot> {
        if !self.options.protect_newest {
            return Vec::new();
        }
        let mut held: Vec<Slot> = self
            .newest
            .objects()
            .filter_map(|object| self.objects.find(object))
            .collect();
        held.sort_unstable();
        held
    }

    fn census(&self) -> Collection {
        let regions = self.placement.census();
        Collection {
            allocations: self.allocations,
            phase: self.placement.phase(),
            heap_bytes: self.heap_bytes(),
            global_bytes: self.bytes(self.global.granules() - regions.reserved),
            global_free: self.bytes(self.global.free()),
            global_holes: u64::from(self.global.holes()),
            regions: u64::from(regions.regions),
            region_free: self.bytes(regions.free),
            region_holes: u64::from(regions.holes),
            reclaimed: 0,
            regions_after: 0,
            holes_after: 0,
        }
    }

    fn bytes(&self, granules: u32) -> u64 {
        u64::from(granules) * u64::from(self.options.granule_bytes)
    }
}

impl Growth {
    fn asks_for_more(self, free: u64, total: u64) -> bool {
        let free = free as f64 / total.max(1) as f64;
        match self {
            Self::FreeBelow(threshold) => free < threshold,
            Self::OccupiedAbove(threshold) => 1.0 - free > threshold,
            Self::WhenNothingFits => false,
        }
    }
}
