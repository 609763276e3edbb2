//! Section 5: region groups, contiguous pieces of the heap that serve one group's sites each, and stealing.

use rustc_hash::FxHashMap;

use crate::heap::free_space::{Direction, FreeSpace};
use crate::heap::place::{GLOBAL, Place};
use crate::heap::placement::{Census, Request};
use trace_format::ThreadId;

use super::options::{MetisOptions, Stealing};
use super::plan::{Plan, PlannedGroup};

struct Region {
    /// Granules from the start of the address space.
    start: u32,
    space: FreeSpace,
    /// Where the buffer begins, from the region's start; its end where there is none.
    buffer: u32,
    key: Key,
}

impl Region {
    fn granules(&self) -> u32 {
        self.space.granules()
    }

    fn has_buffer(&self) -> bool {
        self.buffer < self.granules()
    }
}

/// A group, and where threads are kept apart the thread.
type Key = (u32, ThreadId);

pub struct RegionGroups {
    options: MetisOptions,
    granule_bytes: u64,
    plan: Plan,
    /// Region r is `regions[r - 1]`; region 0 is the global heap.
    regions: Vec<Option<Region>>,
    /// Granules that no hole of the region exceeds, apart from the regions so that a search reads little.
    room: Vec<u32>,
    vacant: Vec<u32>,
    by_key: FxHashMap<Key, Vec<u32>>,
    created: u64,
}

impl RegionGroups {
    pub fn new(plan: Plan, options: MetisOptions, granule_bytes: u32) -> Self {
        Self {
            options,
            granule_bytes: u64::from(granule_bytes),
            plan,
            regions: Vec::new(),
            room: Vec::new(),
            vacant: Vec::new(),
            by_key: FxHashMap::default(),
            created: 0,
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn created(&self) -> u64 {
        self.created
    }

    /// Algorithm 2.
    pub fn allocate(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        let Some(group) = self.plan.group_of.get(&request.site).copied() else {
            return self.default_allocation(global, request.size);
        };
        self.allocate_in_group(global, group, request)
            .or_else(|| self.default_allocation(global, request.size))
    }

    /// Algorithm 1, up to the collection, which is the heap's business.
    fn default_allocation(&mut self, global: &mut FreeSpace, size: u32) -> Option<Place> {
        match global.allocate(size, Direction::Forward) {
            Some(start) => Some(Place {
                region: GLOBAL,
                start,
            }),
            None => self.steal(size),
        }
    }

    fn allocate_in_group(
        &mut self,
        global: &mut FreeSpace,
        group: u32,
        request: &Request,
    ) -> Option<Place> {
        let planned = *self.plan.groups.get(group as usize)?;
        let apart = self.options.thread_aware && !planned.escaped;
        let key = (group, if apart { request.thread } else { 0 });
        let mut next = 0;
        while let Some(region) = self.next_with_room(key, &mut next, request.size) {
            if let Some(place) = self.allocate_in(region, request.size, self.options.direction) {
                return Some(place);
            }
        }
        if next >= self.options.regions_per_group {
            return None;
        }
        let region = self.create(global, key, planned, request.size)?;
        self.allocate_in(region, request.size, self.options.direction)
    }

    /// The next of the key's regions, from `next` on, in which so much may fit; `next` ends as their number.
    fn next_with_room(&self, key: Key, next: &mut usize, size: u32) -> Option<u32> {
        let regions = self.by_key.get(&key).map_or(&[][..], Vec::as_slice);
        while let Some(region) = regions.get(*next) {
            *next += 1;
            if self.room[*region as usize - 1] >= size {
                return Some(*region);
            }
        }
        None
    }

    fn allocate_in(&mut self, region: u32, size: u32, direction: Direction) -> Option<Place> {
        let one = self.regions[region as usize - 1].as_mut()?;
        let Some(start) = one.space.allocate(size, direction) else {
            self.room[region as usize - 1] = size - 1;
            return None;
        };
        Some(Place {
            region,
            start: one.start + start,
        })
    }

    /// Section 5.2; None where the global heap has no hole of that size.
    fn create(
        &mut self,
        global: &mut FreeSpace,
        key: Key,
        planned: PlannedGroup,
        at_least: u32,
    ) -> Option<u32> {
        let granules = |bytes: u64| bytes.div_ceil(self.granule_bytes).min(1 << 30) as u32;
        let body = granules(planned.bytes).max(1);
        let buffered = self.created < self.options.buffered_regions;
        let buffer_bytes = self.options.buffer_objects.max(0.0) * planned.average_object as f64;
        let buffer = if buffered {
            granules(buffer_bytes as u64)
        } else {
            0
        };
        if body + buffer < at_least {
            return None;
        }
        let start = global.allocate(body + buffer, Direction::Forward)?;
        let space = FreeSpace::new(body + buffer);
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.regions.push(None);
            self.room.push(0);
            self.regions.len() as u32
        });
        self.regions[number as usize - 1] = Some(Region {
            start,
            space,
            buffer: body,
            key,
        });
        self.room[number as usize - 1] = body + buffer;
        self.by_key.entry(key).or_default().push(number);
        self.created += 1;
        Some(number)
    }

    /// Section 5.3: the first region group with room, in the order of their numbers, serves a request of others.
    fn steal(&mut self, size: u32) -> Option<Place> {
        let against = self.options.direction.reversed();
        let stealing = self.options.stealing;
        self.regions
            .iter_mut()
            .zip(&mut self.room)
            .enumerate()
            .find_map(|(at, (region, room))| {
                if *room < size {
                    return None;
                }
                let region = region.as_mut()?;
                let start = match stealing {
                    Stealing::None => None,
                    Stealing::FirstFit => region
                        .space
                        .allocate(size, against)
                        .or_else(|| lower(room, size - 1)),
                    Stealing::Buffer if !region.has_buffer() => None,
                    Stealing::Buffer => region.space.allocate_from(region.buffer, size),
                }?;
                Some(Place {
                    region: at as u32 + 1,
                    start: region.start + start,
                })
            })
    }

    pub fn release(&mut self, global: &mut FreeSpace, place: Place, size: u32, at_once: bool) {
        let Some(region) = &mut self.regions[place.region as usize - 1] else {
            return;
        };
        region.space.release(place.start - region.start, size);
        self.room[place.region as usize - 1] = region.granules();
        if at_once && region.space.is_empty() {
            self.reclaim(global, place.region);
        }
    }

    /// Section 5.4: region groups without a live object go back to the global heap.
    pub fn reclaim_empty(&mut self, global: &mut FreeSpace) {
        for region in 1..=self.regions.len() as u32 {
            let one = self.regions[region as usize - 1].as_ref();
            if one.is_some_and(|region| region.space.is_empty()) {
                self.reclaim(global, region);
            }
        }
    }

    fn reclaim(&mut self, global: &mut FreeSpace, number: u32) {
        let Some(region) = self.regions[number as usize - 1].take() else {
            return;
        };
        global.release(region.start, region.granules());
        if let Some(regions) = self.by_key.get_mut(&region.key) {
            regions.retain(|one| *one != number);
        }
        self.vacant.push(number);
    }

    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for region in self.regions.iter().flatten() {
            census.regions += 1;
            census.reserved += region.granules();
            census.free += region.space.free();
            census.holes += region.space.holes();
        }
        census
    }
}

/// Notes that nothing of more than `most` fits.
fn lower(room: &mut u32, most: u32) -> Option<u32> {
    *room = most;
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sites 1 and 2 are groups 0 and 1; site 9 is in none. Granules of one byte.
    fn groups(options: MetisOptions) -> (RegionGroups, FreeSpace) {
        let planned = PlannedGroup {
            bytes: 40,
            average_object: 10,
            ..PlannedGroup::default()
        };
        let plan = Plan {
            groups: vec![planned; 2],
            group_of: [(1, 0), (2, 1)].into_iter().collect(),
        };
        (RegionGroups::new(plan, options, 1), FreeSpace::new(200))
    }

    fn request(site: u32, size: u32) -> Request {
        Request {
            size,
            site,
            thread: 0,
        }
    }

    fn at(region: u32, start: u32) -> Option<Place> {
        Some(Place { region, start })
    }

    /// Figure 4: region groups lie in the heap among global blocks, and each serves its own sites.
    #[test]
    fn figure_4_groups_get_contiguous_regions_with_a_buffer_of_three_objects() {
        let (mut groups, mut global) = groups(MetisOptions::default());
        assert_eq!(groups.allocate(&mut global, &request(1, 10)), at(1, 0));
        assert_eq!(
            groups.allocate(&mut global, &request(9, 10)),
            at(GLOBAL, 70)
        );
        assert_eq!(groups.allocate(&mut global, &request(2, 10)), at(2, 80));
        assert_eq!(groups.allocate(&mut global, &request(1, 10)), at(1, 10));
        let census = groups.census();
        assert_eq!(
            (census.regions, census.reserved, census.free),
            (2, 140, 110)
        );
    }

    #[test]
    fn figure_4_a_group_may_fill_its_region_backwards() {
        let backwards = MetisOptions {
            direction: Direction::Backward,
            ..MetisOptions::default()
        };
        let (mut groups, mut global) = groups(backwards);
        assert_eq!(groups.allocate(&mut global, &request(1, 10)), at(1, 60));
    }

    #[test]
    fn algorithm_2_falls_back_to_the_global_heap_when_the_region_is_full() {
        let (mut groups, mut global) = groups(MetisOptions::default());
        assert_eq!(groups.allocate(&mut global, &request(1, 70)), at(1, 0));
        assert_eq!(
            groups.allocate(&mut global, &request(1, 10)),
            at(GLOBAL, 70)
        );
    }

    #[test]
    fn algorithm_1_steals_against_the_direction_before_it_collects() {
        let (mut groups, mut global) = groups(MetisOptions::default());
        groups.allocate(&mut global, &request(1, 10));
        assert_eq!(
            groups.allocate(&mut global, &request(9, 130)),
            at(GLOBAL, 70)
        );
        assert_eq!(
            groups.allocate(&mut global, &request(9, 20)),
            at(1, 50),
            "from the far end"
        );
        assert_eq!(
            groups.allocate(&mut global, &request(9, 50)),
            None,
            "then a collection"
        );
    }

    #[test]
    fn buffer_stealing_stays_in_the_buffer() {
        let buffer = MetisOptions {
            stealing: Stealing::Buffer,
            ..MetisOptions::default()
        };
        let (mut groups, mut global) = groups(buffer);
        groups.allocate(&mut global, &request(1, 10));
        groups.allocate(&mut global, &request(9, 130));
        assert_eq!(groups.allocate(&mut global, &request(9, 20)), at(1, 40));
        assert_eq!(
            groups.allocate(&mut global, &request(9, 20)),
            None,
            "10 are left there"
        );
        assert_eq!(groups.allocate(&mut global, &request(9, 10)), at(1, 60));
    }

    #[test]
    fn only_the_first_region_groups_have_a_buffer() {
        let one = MetisOptions {
            buffered_regions: 1,
            ..MetisOptions::default()
        };
        let (mut groups, mut global) = groups(one);
        groups.allocate(&mut global, &request(1, 10));
        groups.allocate(&mut global, &request(2, 10));
        assert_eq!(groups.census().reserved, 70 + 40);
    }

    #[test]
    fn an_empty_region_goes_back_whole_and_is_made_again_when_needed() {
        let (mut groups, mut global) = groups(MetisOptions::default());
        let Some(place) = groups.allocate(&mut global, &request(1, 10)) else {
            panic!("fits")
        };
        groups.reclaim_empty(&mut global);
        assert_eq!(
            groups.census().regions,
            1,
            "not while something lives there"
        );
        groups.release(&mut global, place, 10, false);
        assert_eq!(
            groups.census().regions,
            1,
            "not before the collection is over"
        );
        groups.reclaim_empty(&mut global);
        assert_eq!((groups.census(), global.free()), (Census::default(), 200));
        assert_eq!(groups.allocate(&mut global, &request(1, 10)), at(1, 0));
    }

    #[test]
    fn without_room_for_a_region_the_group_uses_the_global_heap() {
        let (mut groups, _) = groups(MetisOptions::default());
        let mut small = FreeSpace::new(50);
        assert_eq!(groups.allocate(&mut small, &request(1, 10)), at(GLOBAL, 0));
    }

    #[test]
    fn section_7_threads_have_regions_of_their_own_except_for_what_escapes() {
        let aware = MetisOptions {
            thread_aware: true,
            ..MetisOptions::default()
        };
        let (mut groups, mut global) = groups(aware);
        groups.plan.groups[1].escaped = true;
        let from = |thread, site| Request {
            size: 1,
            site,
            thread,
        };
        let mut region = |thread, site| {
            groups
                .allocate(&mut global, &from(thread, site))
                .map(|place| place.region)
        };
        assert_ne!(region(1, 1), region(2, 1));
        assert_eq!(region(1, 1), Some(1));
        assert_eq!(
            region(1, 2),
            Some(GLOBAL),
            "200 granules hold two region groups"
        );
        let mut large = FreeSpace::new(2000);
        let mut region = |thread, site| {
            groups
                .allocate(&mut large, &from(thread, site))
                .map(|place| place.region)
        };
        assert_eq!(region(1, 2), region(2, 2));
    }
}
