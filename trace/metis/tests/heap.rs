//! What a simulated heap does with events, well-formed and not.

use metis::heap::{Collector, Growth, HeapOptions, NoGroups, Simulator, Stopped};
use trace_format::Event;

fn allocate(object: u64, size: u64) -> Event {
    Event::Allocate {
        object,
        site: 1,
        size,
        thread: 0,
    }
}

fn add_root(object: u64) -> Event {
    Event::AddRoot { object, thread: 0 }
}

fn remove_root(object: u64) -> Event {
    Event::RemoveRoot { object, thread: 0 }
}

fn heap(options: HeapOptions) -> Simulator<NoGroups> {
    Simulator::new(options, NoGroups).expect("options")
}

fn start_of(heap: &Simulator<NoGroups>, object: u64) -> Option<u32> {
    let objects = heap.objects();
    objects.find(object).map(|slot| objects[slot].place.start)
}

#[test]
fn defaults_are_table_1() {
    let options = HeapOptions::default();
    assert_eq!(options.heap_bytes, 100_000);
    assert_eq!(options.growth, Growth::FreeBelow(0.8));
    assert_eq!(options.increment, 0.2);
    assert_eq!(options.collector, Collector::MarkSweep);
}

#[test]
fn a_collection_happens_when_nothing_fits_and_the_heap_grows_while_too_little_is_free() {
    let mut heap = heap(HeapOptions {
        heap_bytes: 1000,
        ..HeapOptions::default()
    });
    heap.run(&[allocate(1, 400), add_root(1), allocate(2, 400)])
        .expect("replays");
    assert_eq!((heap.series().count, heap.heap_bytes()), (0, 1000));
    heap.run(&[allocate(3, 400)]).expect("replays");
    // Object 2 was the thread's newest and is kept; 200 of 1000 bytes are free: less than .8.
    let record = heap.series().collections[0];
    assert_eq!(
        (record.global_free, record.heap_bytes, record.reclaimed),
        (200, 1000, 0)
    );
    assert_eq!(record.allocations, 2);
    assert_eq!(heap.heap_bytes(), 1200);
    heap.run(&[allocate(4, 80)]).expect("replays");
    assert_eq!(
        heap.series().collections[1].reclaimed,
        400,
        "object 2 is dead, 3 is the newest"
    );
    assert_eq!(
        start_of(&heap, 4),
        Some(50),
        "first fit: where object 2 was"
    );
}

#[test]
fn the_heap_grows_as_far_as_a_request_needs() {
    let mut heap = heap(HeapOptions {
        heap_bytes: 1000,
        ..HeapOptions::default()
    });
    heap.run(&[allocate(1, 50_000)]).expect("replays");
    assert!(heap.heap_bytes() >= 50_000);
    assert_eq!(heap.malformed().total(), 0);
}

#[test]
fn out_of_memory_says_where_and_stays() {
    let options = HeapOptions {
        heap_bytes: 1000,
        max_heap_bytes: 2000,
        ..HeapOptions::default()
    };
    let mut heap = heap(options);
    let events: Vec<Event> = (1..10)
        .flat_map(|object| [allocate(object, 400), add_root(object)])
        .collect();
    let stopped = heap
        .run(&events)
        .expect_err("ten times 400 bytes do not fit in 2000");
    let expected = Stopped::OutOfMemory {
        index: 10,
        bytes: 400,
        heap_bytes: 2000,
        max_heap_bytes: 2000,
    };
    assert_eq!(stopped, expected);
    assert_eq!(heap.run(&[]), Err(expected));
    assert!(
        stopped
            .to_string()
            .contains("event 10: no room for 400 bytes")
    );
}

#[test]
fn what_cannot_have_happened_is_counted_and_skipped() {
    for collector in [
        Collector::MarkSweep,
        Collector::ReferenceCounting,
        Collector::Explicit,
    ] {
        let mut heap = heap(HeapOptions {
            collector,
            ..HeapOptions::default()
        });
        let events = [
            allocate(1, 16),
            add_root(1),
            allocate(1, 16),
            allocate(0, 16),
            Event::Assign {
                object: 9,
                field: 0,
                target: 1,
            },
            Event::Assign {
                object: 1,
                field: u32::MAX,
                target: 9,
            },
            Event::Assign {
                object: 1,
                field: u32::MAX,
                target: 1,
            },
            Event::Free { object: 0 },
            Event::Free { object: u64::MAX },
            Event::RemoveRoot {
                object: 1,
                thread: 7,
            },
            remove_root(77),
            allocate(2, u64::MAX),
            allocate(u64::MAX, 8),
            Event::Free { object: 1 },
            Event::Free { object: 1 },
            remove_root(1),
            Event::Jump {
                site: u32::MAX,
                thread: u32::MAX,
            },
        ];
        heap.run(&events).expect("skips");
        let malformed = *heap.malformed();
        assert_eq!(malformed.duplicates, 1, "{collector:?}");
        assert_eq!(malformed.nothing, 2, "{collector:?}");
        assert_eq!(malformed.unknown, 4, "{collector:?}");
        assert_eq!(malformed.roots_not_held, 1, "{collector:?}");
        assert_eq!(malformed.too_large, 1, "{collector:?}");
        assert_eq!(malformed.after_death, 2, "{collector:?}");
        assert_eq!(malformed.first, Some(2), "{collector:?}");
        assert_eq!(
            heap.objects().alive(),
            1,
            "{collector:?}: the one numbered u64::MAX"
        );
    }
}

#[test]
fn strict_stops_at_the_first_with_its_index() {
    let mut heap = heap(HeapOptions {
        strict: true,
        ..HeapOptions::default()
    });
    let bad = Event::Free { object: 5 };
    let stopped = heap
        .run(&[allocate(1, 8), bad, allocate(2, 8)])
        .expect_err("unknown object");
    assert_eq!(
        stopped,
        Stopped::Malformed {
            index: 1,
            event: bad
        }
    );
}

#[test]
fn random_garbage_never_panics() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let collector = [
            Collector::MarkSweep,
            Collector::ReferenceCounting,
            Collector::Explicit,
        ][seed as usize % 3];
        let options = HeapOptions {
            heap_bytes: 2000,
            max_heap_bytes: 1 << 20,
            collector,
            ..HeapOptions::default()
        };
        let mut heap = heap(options);
        for _ in 0..3000 {
            let object = if random.u32(0..50) == 0 {
                random.u64(..)
            } else {
                random.u64(0..40)
            };
            let target = random.u64(0..40);
            let thread = if random.u32(0..50) == 0 {
                random.u32(..)
            } else {
                random.u32(0..3)
            };
            let event = match random.u32(0..6) {
                0 | 1 => {
                    let size = if random.u32(0..50) == 0 {
                        random.u64(..)
                    } else {
                        random.u64(0..99)
                    };
                    Event::Allocate {
                        object,
                        site: random.u32(..),
                        size,
                        thread,
                    }
                }
                2 => Event::Free { object },
                3 => Event::Assign {
                    object,
                    field: random.u32(0..30),
                    target,
                },
                4 => Event::AddRoot { object, thread },
                _ => Event::RemoveRoot { object, thread },
            };
            heap.run(&[event])
                .unwrap_or_else(|stopped| panic!("seed {seed}: {stopped}"));
        }
    }
}

#[test]
fn a_freed_block_is_used_again_at_once() {
    let mut heap = heap(HeapOptions::native());
    heap.run(&[
        allocate(1, 64),
        allocate(2, 64),
        Event::Free { object: 1 },
        allocate(3, 32),
    ])
    .expect("replays");
    assert_eq!(start_of(&heap, 3), Some(0));
    assert_eq!(start_of(&heap, 1), None);
}

#[test]
fn references_to_freed_objects_do_not_reach_their_successors() {
    // Object 2 is freed while object 1 refers to it; whatever gets its slot must not be kept alive by that.
    for collector in [Collector::MarkSweep, Collector::ReferenceCounting] {
        let options = HeapOptions {
            heap_bytes: 1000,
            collector,
            ..HeapOptions::default()
        };
        let mut heap = heap(options);
        heap.run(&[
            allocate(1, 100),
            add_root(1),
            allocate(2, 100),
            Event::Assign {
                object: 1,
                field: 0,
                target: 2,
            },
            Event::Free { object: 2 },
            allocate(3, 100),
            allocate(4, 700),
            allocate(5, 400),
            allocate(6, 900),
        ])
        .expect("replays");
        assert_eq!(start_of(&heap, 3), None, "{collector:?}");
    }
}

#[test]
fn reference_counting_frees_at_once_and_collects_cycles_when_nothing_fits() {
    let collector = Collector::ReferenceCounting;
    let mut heap = heap(HeapOptions {
        heap_bytes: 1000,
        collector,
        ..HeapOptions::default()
    });
    let assign = |object, target| Event::Assign {
        object,
        field: 0,
        target,
    };
    heap.run(&[
        allocate(1, 100),
        add_root(1),
        allocate(2, 100),
        assign(1, 2),
        allocate(3, 100),
        add_root(3),
        allocate(4, 100),
        assign(3, 4),
        assign(4, 3),
        allocate(5, 100),
        remove_root(1),
        remove_root(3),
    ])
    .expect("replays");
    let alive = |heap: &Simulator<NoGroups>, object| heap.objects().find(object).is_some();
    assert!(
        !alive(&heap, 1) && !alive(&heap, 2),
        "a chain dies with its only root"
    );
    assert!(alive(&heap, 3) && alive(&heap, 4), "a cycle does not");
    assert_eq!(heap.series().count, 0);
    heap.run(&[allocate(6, 900)]).expect("replays");
    assert!(!alive(&heap, 3) && !alive(&heap, 4), "until nothing fits");
}

/// A recorder that tells roots at allocations only: the object is rooted again by then, or it is not.
#[test]
fn deferred_reference_counting_asks_at_the_next_allocation() {
    let mut heap = heap(HeapOptions {
        heap_bytes: 1000,
        collector: Collector::ReferenceCounting,
        deferred: true,
        strict: true,
        ..HeapOptions::default()
    });
    let alive = |heap: &Simulator<NoGroups>, object| heap.objects().find(object).is_some();
    heap.run(&[
        allocate(1, 100),
        add_root(1),
        allocate(2, 100),
        add_root(2),
        allocate(3, 100),
        remove_root(1),
        remove_root(2),
    ])
    .expect("replays");
    assert!(alive(&heap, 1) && alive(&heap, 2), "nothing dies yet");
    heap.run(&[add_root(1), allocate(4, 100)]).expect("replays");
    assert!(alive(&heap, 1), "rooted again in time");
    assert!(!alive(&heap, 2));
    assert_eq!(heap.series().count, 0, "without a collection");
}

#[test]
fn impossible_options_are_refused_with_what_to_do() {
    let refused = |options: HeapOptions| {
        Simulator::new(options, NoGroups)
            .err()
            .expect("refused")
            .to_string()
    };
    let default = HeapOptions::default();
    assert!(
        refused(HeapOptions {
            granule_bytes: 0,
            ..default
        })
        .contains("try 8")
    );
    assert!(
        refused(HeapOptions {
            heap_bytes: 0,
            ..default
        })
        .contains("heap_bytes")
    );
    assert!(
        refused(HeapOptions {
            increment: f64::NAN,
            ..default
        })
        .contains("increment")
    );
    let huge = HeapOptions {
        max_heap_bytes: u64::MAX,
        ..default
    };
    assert!(refused(huge).contains("raise granule_bytes"));
}

#[test]
fn heaps_larger_than_addresses_reach_are_refused() {
    let granules = u64::from(u32::MAX) - 64;
    let options = HeapOptions {
        max_heap_bytes: granules * 4096,
        granule_bytes: 4096,
        ..HeapOptions::default()
    };
    let mut heap = heap(options);
    heap.run(&[allocate(1, 1 << 20), add_root(1)])
        .expect("fits");
    assert_eq!(heap.objects().alive(), 1);
    let larger = HeapOptions {
        max_heap_bytes: (granules + 1) * 4096,
        ..options
    };
    assert!(Simulator::new(larger, NoGroups).is_err());
}
