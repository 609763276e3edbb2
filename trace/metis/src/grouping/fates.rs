//! What became of each object of a run, which no allocator can know: to see what knowing it would be worth, and how
//! much of it an object's site tells.
//!
//! `Fates` watches a heap without groups. `Known` places the same objects again with that knowledge. `Foresight` says
//! in bits how much of an object's death its site foretells, beside sites dealt out at random.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::algorithm::Plan;
use crate::heap::free_space::{Direction, FreeSpace};
use crate::heap::objects::Objects;
use crate::heap::place::{GLOBAL, Place};
use crate::heap::placement::{NoGroups, Phase, Placement, Request};
use crate::heap::slot::Slot;
use intervals::{Interval, of_mean};
use trace_format::SiteId;

use super::chunks::{ChunkOptions, Chunks};

/// Never found dead.
pub const NEVER: u32 = u32::MAX;
const SHUFFLES: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    pub site: SiteId,
    pub bytes: u64,
    /// Collections before it was allocated, and before the one that found it dead.
    pub born: u32,
    pub died: u32,
}

impl Fate {
    pub fn survives(&self) -> bool {
        self.died > self.born
    }
}

/// Watches a heap without groups; `fates` are in the order of allocation.
pub struct Fates {
    pub fates: Vec<Fate>,
    newest: Vec<usize>,
    collections: u32,
    granule_bytes: u64,
}

impl Fates {
    pub fn new(granule_bytes: u32) -> Self {
        Self {
            fates: Vec::new(),
            newest: Vec::new(),
            collections: 0,
            granule_bytes: u64::from(granule_bytes),
        }
    }
}

impl Placement for Fates {
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        NoGroups.place(global, request)
    }

    fn collected(&mut self, _global: &mut FreeSpace) {
        self.collections += 1;
    }

    fn allocated(&mut self, objects: &Objects, slot: Slot) {
        if slot as usize >= self.newest.len() {
            self.newest.resize(slot as usize + 1, 0);
        }
        self.newest[slot as usize] = self.fates.len();
        self.fates.push(Fate {
            site: objects[slot].site,
            bytes: u64::from(objects[slot].size) * self.granule_bytes,
            born: self.collections,
            died: NEVER,
        });
    }

    fn dying(&mut self, _objects: &Objects, dead: &[Slot]) {
        for slot in dead {
            self.fates[self.newest[*slot as usize]].died = self.collections;
        }
    }
}

/// What is made of the knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Objects that outlive a collection fill the heap from its start, all others from its end.
    Survivors,
    /// Objects that the same collection finds dead share chunks.
    Deaths,
}

/// Places objects by what became of them when they were allocated in the same order before. The collections come
/// at other moments now, so this is a good guess at what knowledge is worth, no bound.
pub struct Known {
    fates: Vec<Fate>,
    chunks: Chunks,
    to: Use,
    next: usize,
}

impl Known {
    pub fn new(fates: Vec<Fate>, to: Use, options: ChunkOptions, granule_bytes: u32) -> Self {
        Self {
            fates,
            chunks: Chunks::new(Plan::default(), options, granule_bytes),
            to,
            next: 0,
        }
    }
}

impl Placement for Known {
    fn place(&mut self, global: &mut FreeSpace, request: &Request) -> Option<Place> {
        let fate = self.fates.get(self.next);
        let start = match self.to {
            Use::Survivors => {
                let direction = match fate {
                    Some(fate) if fate.survives() => Direction::Forward,
                    _ => Direction::Backward,
                };
                global.allocate(request.size, direction)?
            }
            Use::Deaths => {
                let group = fate.map(|fate| fate.died);
                self.chunks.place_in(global, group, request)?
            }
        };
        Some(Place {
            region: GLOBAL,
            start,
        })
    }

    fn allocated(&mut self, _objects: &Objects, _slot: Slot) {
        self.next += 1;
    }

    fn phase(&self) -> Phase {
        Phase::Activation
    }
}

/// How much sites foretell. All shares and entropies are weighted by bytes, and all are given the time of birth
/// (the collections so far), which every allocator knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foresight {
    pub objects: u64,
    pub sites: u64,
    /// Share that outlives a collection.
    pub surviving: f64,
    /// Of which collection finds an object dead, in bits: not knowing, knowing its site, and knowing a site that was
    /// dealt out at random among the objects born between the same two collections.
    pub entropy: f64,
    pub entropy_by_site: f64,
    pub entropy_by_shuffled_site: Interval,
    /// Share that dies at the collection at which most of its class does; the classes are the same three.
    pub together: f64,
    pub together_by_site: f64,
    pub together_by_shuffled_site: Interval,
    /// What the training trace foretells, if there was one: of the bytes that survive the share at sites whose
    /// objects mostly survived there, and of the bytes at those sites the share that survives.
    pub foretold: Option<f64>,
    pub foretold_rightly: Option<f64>,
}

impl Foresight {
    /// `trained`: groups by survival, learned elsewhere.
    pub fn of(fates: &[Fate], trained: Option<&Plan>) -> Self {
        let sites: Vec<SiteId> = fates.iter().map(|fate| fate.site).collect();
        let mut distinct = sites.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let (entropy, together) = uncertainty(fates, &vec![0; fates.len()]);
        let (entropy_by_site, together_by_site) = uncertainty(fates, &sites);
        let (entropies, togethers): (Vec<f64>, Vec<f64>) = (1..=SHUFFLES)
            .map(|seed| uncertainty(fates, &shuffled(fates, seed)))
            .unzip();
        let all = sum(fates, |_| true);
        let surviving = sum(fates, Fate::survives);
        let said = |fate: &Fate| trained.is_some_and(|plan| plan.says_survives(fate.site));
        let right = sum(fates, |fate| said(fate) && fate.survives());
        let foretold = sum(fates, said);
        let trained_share = |whole: u64| trained.and_then(|_| share(right, whole));
        Self {
            objects: fates.len() as u64,
            sites: distinct.len() as u64,
            surviving: share(surviving, all).unwrap_or(0.0),
            entropy,
            entropy_by_site,
            entropy_by_shuffled_site: of_mean(&entropies),
            together,
            together_by_site,
            together_by_shuffled_site: of_mean(&togethers),
            foretold: trained_share(surviving),
            foretold_rightly: trained_share(foretold),
        }
    }
}

fn sum(fates: &[Fate], which: impl Fn(&Fate) -> bool) -> u64 {
    let chosen = fates.iter().filter(|fate| which(fate));
    chosen.map(|fate| fate.bytes).sum()
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The objects' sites, dealt out anew among those born between the same two collections.
fn shuffled(fates: &[Fate], seed: u64) -> Vec<SiteId> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sites: Vec<SiteId> = fates.iter().map(|fate| fate.site).collect();
    let mut from = 0;
    for born_together in fates.chunk_by(|one, next| one.born == next.born) {
        let to = from + born_together.len();
        random.shuffle(&mut sites[from..to]);
        from = to;
    }
    sites
}

/// Entropy in bits of the collection at which an object dies given its class and its birth, and the share that dies
/// with the most of its class.
fn uncertainty(fates: &[Fate], classes: &[SiteId]) -> (f64, f64) {
    let mut deaths: FxHashMap<(u32, SiteId), FxHashMap<u32, u64>> = FxHashMap::default();
    for (fate, class) in fates.iter().zip(classes) {
        let of_class = deaths.entry((fate.born, *class)).or_default();
        *of_class.entry(fate.died).or_default() += fate.bytes;
    }
    let (mut bits, mut most, mut all) = (0.0, 0u64, 0u64);
    let mut keys: Vec<&(u32, SiteId)> = deaths.keys().collect();
    keys.sort_unstable();
    for key in keys {
        let mut bytes: Vec<u64> = deaths[key].values().copied().collect();
        bytes.sort_unstable();
        let class: u64 = bytes.iter().sum();
        all += class;
        most += bytes.last().copied().unwrap_or(0);
        for one in bytes.into_iter().filter(|one| *one > 0) {
            bits += one as f64 * (class as f64 / one as f64).log2();
        }
    }
    (bits / all.max(1) as f64, most as f64 / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::plan::PlannedGroup;

    fn fate(site: SiteId, born: u32, died: u32) -> Fate {
        Fate {
            site,
            bytes: 8,
            born,
            died,
        }
    }

    /// Site 1 dies at once and site 2 never: the site says everything.
    #[test]
    fn a_site_that_decides_leaves_no_uncertainty_and_a_shuffled_one_all_of_it() {
        let fates: Vec<Fate> = (0..2000)
            .map(|at| {
                if at % 2 == 0 {
                    fate(1, 0, 0)
                } else {
                    fate(2, 0, NEVER)
                }
            })
            .collect();
        let foresight = Foresight::of(&fates, None);
        assert_eq!((foresight.entropy, foresight.entropy_by_site), (1.0, 0.0));
        assert_eq!((foresight.together, foresight.together_by_site), (0.5, 1.0));
        assert!(foresight.entropy_by_shuffled_site.mean > 0.99);
        assert!(foresight.together_by_shuffled_site.mean < 0.55);
        assert_eq!((foresight.surviving, foresight.sites), (0.5, 2));
        assert_eq!(
            (foresight.foretold, foresight.foretold_rightly),
            (None, None)
        );
    }

    /// Objects of one site each, a tenth surviving: as many classes as objects seem to foretell all; so do shuffled ones.
    #[test]
    fn what_sites_seem_to_tell_for_being_rare_shuffled_sites_tell_too() {
        let fates: Vec<Fate> = (0..500).map(|at| fate(at, 0, at % 10 / 9)).collect();
        let foresight = Foresight::of(&fates, None);
        assert_eq!(foresight.entropy_by_site, 0.0);
        assert_eq!(foresight.entropy_by_shuffled_site.mean, 0.0);
        assert!(foresight.entropy > 0.4);
    }

    #[test]
    fn shuffling_keeps_births_apart() {
        let fates = [fate(1, 0, 0), fate(2, 0, 0), fate(3, 1, 1), fate(4, 1, 1)];
        for seed in 0..20 {
            let mut sites = shuffled(&fates, seed);
            sites[..2].sort_unstable();
            sites[2..].sort_unstable();
            assert_eq!(sites, [1, 2, 3, 4]);
        }
    }

    #[test]
    fn training_is_judged_by_what_it_foretells() {
        let survives = |survives| PlannedGroup {
            survives,
            ..PlannedGroup::default()
        };
        let plan = Plan {
            groups: vec![survives(false), survives(true)],
            group_of: [(1, 0), (2, 1)].into_iter().collect(),
        };
        // Of four that survive site 2 has three, and one of site 2 does not.
        let mut fates = vec![fate(2, 0, 1); 3];
        fates.extend([fate(1, 0, 1), fate(2, 0, 0), fate(1, 0, 0)]);
        let foresight = Foresight::of(&fates, Some(&plan));
        assert_eq!(
            (foresight.foretold, foresight.foretold_rightly),
            (Some(0.75), Some(0.75))
        );
    }

    #[test]
    fn nothing_at_all_is_no_failure() {
        let foresight = Foresight::of(&[], None);
        assert_eq!((foresight.entropy, foresight.surviving), (0.0, 0.0));
    }

    #[test]
    fn known_survivors_fill_the_start_and_a_second_question_is_about_the_same_object() {
        let fates = vec![fate(1, 0, 0), fate(1, 0, 1), fate(1, 0, 0)];
        let mut known = Known::new(fates, Use::Survivors, ChunkOptions::default(), 1);
        let mut global = FreeSpace::new(30);
        let mut objects = Objects::default();
        let mut place = |size| {
            let request = Request {
                size,
                site: 1,
                thread: 0,
            };
            let place = known.place(&mut global, &request)?;
            let slot = objects.insert(u64::from(size), place, size, 1, 0);
            known.allocated(&objects, slot);
            Some(place.start)
        };
        assert_eq!(place(10), Some(20));
        assert_eq!(place(25), None, "and is asked again after the collection");
        assert_eq!(place(9), Some(0));
        assert_eq!(place(1), Some(19));
        assert_eq!(place(2), Some(17), "an object more than were known");
    }
}
