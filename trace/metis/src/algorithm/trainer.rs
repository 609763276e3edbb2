//! The profiling phase: follows references while the program runs, and trains the model with what collections
//! find dead (section 4.3).

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::heap::objects::Objects;
use crate::heap::slot::Slot;
use trace_format::{SiteId, ThreadId};

use super::model::{DeadObject, Model};
use super::options::{Activation, MetisOptions, Pruning, SweepOrder};
use super::plan::{Plan, PlannedGroup};

#[derive(Default)]
pub struct Trainer {
    model: Model,
    /// The paper's parentICs, by slot.
    parents: Vec<SmallVec<[SiteId; 4]>>,
    escapes: Escapes,
    collections: u64,
    granule_bytes: u64,
}

impl Trainer {
    pub fn new(granule_bytes: u32) -> Self {
        Self {
            granule_bytes: u64::from(granule_bytes),
            ..Self::default()
        }
    }

    pub fn allocated(&mut self, objects: &Objects, slot: Slot) {
        self.model.executed(objects[slot].site);
        if slot as usize >= self.parents.len() {
            self.parents.resize_with(slot as usize + 1, SmallVec::new);
        }
    }

    pub fn assigned(&mut self, objects: &Objects, source: Slot, target: Slot, track_threads: bool) {
        let site = objects[source].site;
        let parents = &mut self.parents[target as usize];
        if !parents.contains(&site) {
            parents.push(site);
        }
        let crosses = objects[source].thread != objects[target].thread;
        if track_threads && (crosses || self.escapes.contains(source)) {
            self.escapes.add(objects, target);
        }
    }

    pub fn rooted(&mut self, objects: &Objects, slot: Slot, thread: ThreadId) {
        if objects[slot].thread != thread {
            self.escapes.add(objects, slot);
        }
    }

    /// Sweeps the dead: each that no earlier one led to begins a reclaimable graph.
    pub fn dying(&mut self, objects: &Objects, dead: &[Slot], options: &MetisOptions) {
        let mut order = dead.to_vec();
        if options.sweep_order == SweepOrder::Address {
            order.sort_unstable_by_key(|slot| objects[*slot].place.start);
        }
        let mut unvisited: FxHashSet<Slot> = dead.iter().copied().collect();
        for start in order {
            if unvisited.contains(&start) {
                let graph = graph_from(objects, start, &mut unvisited);
                self.learn(objects, &graph);
                if options.pruning == Pruning::EachGraph {
                    self.model.prune(options);
                }
            }
        }
        for slot in dead {
            self.parents[*slot as usize].clear();
            self.escapes.died(objects, *slot, self.granule_bytes);
        }
    }

    fn learn(&mut self, objects: &Objects, graph: &[Slot]) {
        let dead: Vec<DeadObject<'_>> = graph
            .iter()
            .map(|slot| DeadObject {
                site: objects[*slot].site,
                bytes: u64::from(objects[*slot].size) * self.granule_bytes,
                parents: &self.parents[*slot as usize],
            })
            .collect();
        self.model.add_graph(&dead);
    }

    /// True when the criterion for activation is met.
    pub fn collected(&mut self, options: &MetisOptions) -> bool {
        self.collections += 1;
        if options.pruning == Pruning::EachCollection {
            self.model.prune(options);
        }
        match options.activation {
            Activation::Collections(number) => self.collections >= number,
            Activation::Coverage(share) => self.model.coverage() >= share,
        }
    }

    pub fn finish(&mut self, options: &MetisOptions) -> Plan {
        self.model.finish(options);
        let mut plan = Plan {
            groups: self
                .model
                .groups()
                .iter()
                .map(|group| PlannedGroup {
                    bytes: group.region_bytes(options.region_size),
                    average_object: group.average_object(),
                    escaped: false,
                    survives: false,
                })
                .collect(),
            group_of: self
                .model
                .sites()
                .filter_map(|site| Some((site, self.model.tuples(site).first()?.group)))
                .collect(),
        };
        if options.thread_aware {
            self.escapes.set_apart(&mut plan, self.collections);
        }
        plan
    }
}

fn graph_from(objects: &Objects, start: Slot, unvisited: &mut FxHashSet<Slot>) -> Vec<Slot> {
    unvisited.remove(&start);
    let mut graph = vec![start];
    let mut next = 0;
    while let Some(slot) = graph.get(next).copied() {
        next += 1;
        objects.each_target(slot, |target| {
            if unvisited.remove(&target) {
                graph.push(target);
            }
        });
    }
    graph
}

/// Section 7: objects that a thread other than their own can reach.
#[derive(Default)]
struct Escapes {
    escaped: FxHashSet<Slot>,
    by_site: rustc_hash::FxHashMap<SiteId, (u64, u64)>,
    bytes: u64,
    objects: u64,
}

impl Escapes {
    fn contains(&self, slot: Slot) -> bool {
        self.escaped.contains(&slot)
    }

    /// With all that it refers to.
    fn add(&mut self, objects: &Objects, slot: Slot) {
        let mut pending = vec![slot];
        while let Some(slot) = pending.pop() {
            if self.escaped.insert(slot) {
                objects.each_target(slot, |target| pending.push(target));
            }
        }
    }

    fn died(&mut self, objects: &Objects, slot: Slot, granule_bytes: u64) {
        let (escaped, all) = self.by_site.entry(objects[slot].site).or_default();
        *all += 1;
        if self.escaped.remove(&slot) {
            *escaped += 1;
            self.objects += 1;
            self.bytes += u64::from(objects[slot].size) * granule_bytes;
        }
    }

    /// Moves the sites most of whose objects escape to a group of their own, as large as what of it dies between
    /// two collections.
    fn set_apart(&self, plan: &mut Plan, collections: u64) {
        let escaping = self
            .by_site
            .iter()
            .filter(|(_, (escaped, all))| 2 * escaped > *all);
        let group = plan.groups.len() as u32;
        for (site, _) in escaping {
            plan.group_of.insert(*site, group);
        }
        plan.groups.push(PlannedGroup {
            bytes: self.bytes.div_ceil(collections.max(1)),
            average_object: self.bytes.div_ceil(self.objects.max(1)),
            escaped: true,
            survives: false,
        });
    }
}
