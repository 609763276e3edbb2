//! What a training run shows of each site: how much it allocates, how long its objects live, and which sites'
//! objects are found dead together.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::heap::free_space::FreeSpace;
use crate::heap::objects::Objects;
use crate::heap::place::Place;
use crate::heap::placement::{NoGroups, Phase, Placement, Request};
use crate::heap::slot::Slot;
use trace_format::SiteId;

/// Of a component's sites no more than this are paired: the pairs grow with the square.
const SITES_PAIRED: usize = 64;
/// Deaths are told apart by time in at least half as many bins as this, once there was so much time.
const BINS: u64 = 512;

#[derive(Clone, Debug)]
pub struct SiteProfile {
    pub objects: u64,
    pub bytes: u64,
    /// By the logarithm to base 2 of the bytes allocated during an object's life.
    pub lifetimes: [u64; 64],
    pub died: u64,
    /// Of these, how many outlived a collection.
    pub survived: u64,
    /// Bytes that died, by time: `Profiler::bin_bytes` of allocation a bin.
    pub deaths: Vec<u64>,
    /// Dead components that held an object of this site.
    pub components: u64,
}

impl Default for SiteProfile {
    fn default() -> Self {
        Self {
            objects: 0,
            bytes: 0,
            lifetimes: [0; 64],
            died: 0,
            survived: 0,
            deaths: Vec::new(),
            components: 0,
        }
    }
}

impl SiteProfile {
    /// Whether most objects outlive a collection; those that have not died yet do.
    pub fn survives(&self) -> bool {
        2 * (self.survived + self.objects - self.died) >= self.objects
    }

    /// The logarithm of the median lifetime; objects that never died live longest.
    pub fn median_lifetime(&self) -> u32 {
        let mut seen = 0;
        for (logarithm, count) in self.lifetimes.iter().enumerate() {
            seen += count;
            if 2 * seen >= self.objects.max(1) {
                return logarithm as u32;
            }
        }
        63
    }
}

/// Watches a heap without groups.
pub struct Profiler {
    pub sites: FxHashMap<SiteId, SiteProfile>,
    /// How many dead components held both sites, the smaller first.
    pub together: FxHashMap<(SiteId, SiteId), u64>,
    pub component_bytes: u64,
    pub components: u64,
    bin_bytes: u64,
    born: Vec<u64>,
    born_collection: Vec<u64>,
    collections: u64,
    clock: u64,
    granule_bytes: u64,
}

impl Profiler {
    pub fn new(granule_bytes: u32) -> Self {
        Self {
            sites: FxHashMap::default(),
            together: FxHashMap::default(),
            component_bytes: 0,
            components: 0,
            bin_bytes: 4096,
            born: Vec::new(),
            born_collection: Vec::new(),
            collections: 0,
            clock: 0,
            granule_bytes: u64::from(granule_bytes),
        }
    }

    /// Joins bins in pairs when the time has become too long for them.
    fn widen_bins(&mut self) {
        self.bin_bytes *= 2;
        for site in self.sites.values_mut() {
            site.deaths = site
                .deaths
                .chunks(2)
                .map(|pair| pair.iter().sum())
                .collect();
        }
    }

    fn learn_component(&mut self, objects: &Objects, component: &[Slot]) {
        let mut sites: Vec<SiteId> = component.iter().map(|slot| objects[*slot].site).collect();
        sites.sort_unstable();
        sites.dedup();
        for site in &sites {
            self.sites.entry(*site).or_default().components += 1;
        }
        sites.truncate(SITES_PAIRED);
        for (at, one) in sites.iter().enumerate() {
            for other in &sites[at + 1..] {
                *self.together.entry((*one, *other)).or_default() += 1;
            }
        }
        let size: u64 = component
            .iter()
            .map(|slot| u64::from(objects[*slot].size))
            .sum();
        self.component_bytes += size * self.granule_bytes;
        self.components += 1;
    }
}

impl Placement for Profiler {
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        NoGroups.place(global, request)
    }

    fn phase(&self) -> Phase {
        Phase::Profiling
    }

    fn collected(&mut self, _global: &mut FreeSpace) {
        self.collections += 1;
    }

    fn allocated(&mut self, objects: &Objects, slot: Slot) {
        let bytes = u64::from(objects[slot].size) * self.granule_bytes;
        self.clock += bytes;
        if slot as usize >= self.born.len() {
            self.born.resize(slot as usize + 1, 0);
            self.born_collection.resize(slot as usize + 1, 0);
        }
        self.born[slot as usize] = self.clock;
        self.born_collection[slot as usize] = self.collections;
        let site = self.sites.entry(objects[slot].site).or_default();
        site.objects += 1;
        site.bytes += bytes;
    }

    fn dying(&mut self, objects: &Objects, dead: &[Slot]) {
        while self.clock / self.bin_bytes >= BINS {
            self.widen_bins();
        }
        let bin = (self.clock / self.bin_bytes) as usize;
        for slot in dead {
            let lived = self.clock - self.born[*slot as usize];
            let site = self.sites.entry(objects[*slot].site).or_default();
            site.died += 1;
            site.survived += u64::from(self.born_collection[*slot as usize] < self.collections);
            if bin >= site.deaths.len() {
                site.deaths.resize(bin + 1, 0);
            }
            site.deaths[bin] += u64::from(objects[*slot].size) * self.granule_bytes;
            site.lifetimes[lived.checked_ilog2().unwrap_or(0) as usize] += 1;
        }
        for component in components(objects, dead) {
            self.learn_component(objects, &component);
        }
    }
}

/// The dead, by what refers to what, whichever way.
fn components(objects: &Objects, dead: &[Slot]) -> Vec<Vec<Slot>> {
    let members: FxHashSet<Slot> = dead.iter().copied().collect();
    let mut neighbours: FxHashMap<Slot, Vec<Slot>> = FxHashMap::default();
    for slot in dead {
        objects.each_target(*slot, |target| {
            if members.contains(&target) {
                neighbours.entry(*slot).or_default().push(target);
                neighbours.entry(target).or_default().push(*slot);
            }
        });
    }
    let mut seen: FxHashSet<Slot> = FxHashSet::default();
    let mut found = Vec::new();
    for start in dead {
        if !seen.insert(*start) {
            continue;
        }
        let mut component = vec![*start];
        let mut next = 0;
        while let Some(slot) = component.get(next).copied() {
            next += 1;
            for neighbour in neighbours.get(&slot).into_iter().flatten() {
                if seen.insert(*neighbour) {
                    component.push(*neighbour);
                }
            }
        }
        found.push(component);
    }
    found
}
