//! The simulated heaps against a naive one: random programs, every object looked at after every step.

use std::collections::{BTreeMap, BTreeSet};

use metis::algorithm::{Activation, Control, Metis, MetisOptions, Stealing};
use metis::heap::{Collector, Growth, HeapOptions, NoGroups, Placement, Simulator};
use trace_format::Event;

/// A program that knows its own object graph, and only touches what it can reach.
struct Program {
    random: fastrand::Rng,
    next: u64,
    fields: BTreeMap<u64, BTreeMap<u32, u64>>,
    roots: BTreeMap<(u64, u32), u32>,
    newest: BTreeMap<u32, u64>,
}

impl Program {
    fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            next: 1,
            fields: BTreeMap::new(),
            roots: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    fn reachable(&self) -> BTreeSet<u64> {
        let held = self.newest.values().copied();
        let mut pending: Vec<u64> = self
            .roots
            .keys()
            .map(|(object, _)| *object)
            .chain(held)
            .collect();
        let mut seen = BTreeSet::new();
        while let Some(object) = pending.pop() {
            if seen.insert(object) {
                pending.extend(
                    self.fields
                        .get(&object)
                        .into_iter()
                        .flat_map(|all| all.values()),
                );
            }
        }
        seen
    }

    fn any(&mut self, of: &BTreeSet<u64>) -> u64 {
        *of.iter()
            .nth(self.random.usize(0..of.len()))
            .expect("not empty")
    }

    fn step(&mut self) -> Event {
        let reachable = self.reachable();
        let thread = self.random.u32(0..3);
        let choice = if reachable.is_empty() {
            0
        } else {
            self.random.u32(0..100)
        };
        match choice {
            0..35 => {
                let object = self.next;
                self.next += 1;
                self.fields.insert(object, BTreeMap::new());
                self.newest.insert(thread, object);
                let size = if self.random.u32(0..30) == 0 {
                    3000
                } else {
                    self.random.u64(0..200)
                };
                Event::Allocate {
                    object,
                    site: self.random.u32(0..12),
                    size,
                    thread,
                }
            }
            35..60 => {
                let (object, target) = (self.any(&reachable), self.any(&reachable));
                let target = if self.random.u32(0..4) == 0 {
                    0
                } else {
                    target
                };
                let many = self.random.u32(0..10) == 0;
                let field = self.random.u32(0..if many { 40 } else { 3 });
                let fields = self.fields.entry(object).or_default();
                if target == 0 {
                    fields.remove(&field)
                } else {
                    fields.insert(field, target)
                };
                Event::Assign {
                    object,
                    field,
                    target,
                }
            }
            60..78 => {
                let object = self.any(&reachable);
                *self.roots.entry((object, thread)).or_default() += 1;
                Event::AddRoot { object, thread }
            }
            _ if self.roots.is_empty() => Event::Jump { site: 1, thread },
            _ => {
                let at = self.random.usize(0..self.roots.len());
                let (object, thread) = *self.roots.keys().nth(at).expect("not empty");
                let count = self.roots.get_mut(&(object, thread)).expect("present");
                *count -= 1;
                if *count == 0 {
                    self.roots.remove(&(object, thread));
                }
                Event::RemoveRoot { object, thread }
            }
        }
    }
}

/// No two objects overlap, and none lies outside the heap.
fn assert_layout<P: Placement>(heap: &Simulator<P>, context: &str) {
    let objects = heap.objects();
    let mut extents: Vec<(u32, u32)> = objects
        .living()
        .map(|slot| {
            (
                objects[slot].place.start,
                objects[slot].place.start + objects[slot].size,
            )
        })
        .collect();
    extents.sort_unstable();
    for pair in extents.windows(2) {
        assert!(
            pair[0].1 <= pair[1].0,
            "{context}: {:?} overlaps {:?}",
            pair[0],
            pair[1]
        );
    }
    if let Some((_, end)) = extents.last() {
        assert!(
            u64::from(*end) * 8 <= heap.heap_bytes(),
            "{context}: outside the heap"
        );
    }
}

fn replay_checked<P: Placement>(
    options: HeapOptions,
    placement: P,
    seed: u64,
    context: &str,
) -> (u64, u64) {
    let mut program = Program::new(seed);
    let mut heap = Simulator::new(options, placement).expect("options");
    for step in 0..4000 {
        let context = format!("{context}, seed {seed}, step {step}");
        let collections = heap.series().count;
        let reachable_before = program.reachable();
        let event = program.step();
        heap.run(&[event]).expect(&context);
        assert_eq!(heap.malformed().total(), 0, "{context}: {event:?}");
        let living: BTreeSet<u64> = {
            let objects = heap.objects();
            objects.living().map(|slot| objects[slot].id).collect()
        };
        let reachable = program.reachable();
        assert!(
            reachable.is_subset(&living),
            "{context}: lost {:?}",
            &reachable - &living
        );
        if heap.series().count > collections {
            // What was collected for this allocation: all that was dead then, no more and no less.
            let expected = &reachable_before | &reachable;
            assert_eq!(living, expected, "{context}: kept garbage");
        }
        assert_layout(&heap, &context);
    }
    let regions = heap
        .series()
        .collections
        .iter()
        .map(|one| one.regions)
        .sum();
    (heap.series().count, regions)
}

#[test]
fn collectors_keep_what_is_reachable_and_nothing_else() {
    for collector in [Collector::MarkSweep, Collector::ReferenceCounting] {
        let mut collections = 0;
        for seed in 0..25 {
            let options = HeapOptions {
                heap_bytes: 6000,
                growth: Growth::FreeBelow(0.3),
                collector,
                ..HeapOptions::default()
            };
            collections += replay_checked(options, NoGroups, seed, &format!("{collector:?}")).0;
        }
        assert!(
            collections > 100,
            "{collector:?}: {collections} collections test too little"
        );
    }
}

#[test]
fn region_groups_neither_lose_nor_overlap_objects() {
    let mut created = 0;
    for seed in 0..24 {
        let metis = MetisOptions {
            activation: Activation::Collections(2),
            stealing: [Stealing::FirstFit, Stealing::Buffer, Stealing::None][seed as usize % 3],
            regions_per_group: 1 + seed as usize % 4,
            thread_aware: seed % 2 == 0,
            ..MetisOptions::default()
        };
        let collector = if seed % 5 == 0 {
            Collector::ReferenceCounting
        } else {
            Collector::MarkSweep
        };
        let options = HeapOptions {
            heap_bytes: 6000,
            growth: Growth::FreeBelow(0.3),
            collector,
            ..HeapOptions::default()
        };
        let control = if seed % 4 == 0 {
            Control::Random { seed }
        } else {
            Control::Learned
        };
        let placement = Metis::new(metis, control, options.granule_bytes);
        created += replay_checked(options, placement, seed, &format!("{metis:?}")).1;
    }
    assert!(created > 100, "{created} region groups test too little");
}

#[test]
fn both_collectors_agree_on_what_is_alive_at_the_end() {
    for seed in 100..110 {
        let mut program = Program::new(seed);
        let events: Vec<Event> = (0..3000).map(|_| program.step()).collect();
        let alive = |collector| {
            let options = HeapOptions {
                heap_bytes: 8000,
                collector,
                ..HeapOptions::default()
            };
            let mut heap = Simulator::new(options, NoGroups).expect("options");
            heap.run(&events).expect("replays");
            // An allocation that fits nowhere forces a collection; the limit then stops the run.
            let all = Event::Allocate {
                object: 1 << 40,
                site: 0,
                size: 4 << 30,
                thread: 0,
            };
            assert!(heap.run(&[all]).is_err());
            heap.objects().alive()
        };
        let marked = alive(Collector::MarkSweep);
        assert_eq!(marked, alive(Collector::ReferenceCounting), "seed {seed}");
        assert_eq!(marked, program.reachable().len(), "seed {seed}");
    }
}
