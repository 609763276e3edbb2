//! What would a layout do in which the blocks of one place were kept on pages of their own?
//!
//! Compared are two runs of the same model over the same trace, without and with the group: what a better allocator alone
//! would bring is not counted as the group's.

use std::io::{Read, Seek};

use metis::heap::{Location, Purge, SizeClassHeap, SpanOptions};
use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_format::{Event, ObjectId, SiteId, TraceReader};

use super::analysis::{Progress, each_event};

/// Bytes of held pages in the model, at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub ungrouped_bytes: u64,
    /// With each group alone: all pages, the group's and the others'.
    pub grouped_bytes: Vec<u64>,
    /// The pages of each group alone. What is large has pages of its own everywhere, and is left out.
    pub own_bytes: Vec<u64>,
    pub random_own_bytes: Vec<u64>,
    /// With random groups as large as each: every allocation joins with the group's share of all allocations.
    pub random_bytes: Vec<u64>,
}

/// The two groups of a heap: the sites that are asked about, and all others.
const INSIDE: u32 = 1;
const OUTSIDE: u32 = 0;

fn part(is_inside: bool) -> u32 {
    if is_inside { INSIDE } else { OUTSIDE }
}

/// Pages count while anything lives on them: what an allocator keeps in reserve is no layout's fault.
fn heap() -> SizeClassHeap {
    SizeClassHeap::new(SpanOptions {
        purge: Purge::EmptyPages,
        ..SpanOptions::default()
    })
}

/// Where a block lies in each heap. Whether it is inside is decided by its site, and by chance by its number.
struct Placed {
    size: u64,
    base: Location,
    /// In the heaps of its group and of random groups alone.
    own: Vec<(usize, Location)>,
    grouped: Vec<Location>,
    random: Vec<Location>,
}

/// A number that looks random, the same in every run.
fn scatter(object: ObjectId, group: usize) -> f64 {
    let mut x = object.wrapping_add((group as u64 + 1) << 48);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) as f64 / u64::MAX as f64
}

/// Is the object in the random group that is as large as a group with this share of all allocations?
pub fn is_drawn(object: ObjectId, group: usize, share: f64) -> bool {
    scatter(object, group) < share
}

/// Replays the trace up to event number `limit`. A group is a set of sites and its share of all allocations.
pub fn what_if<R: Read + Seek>(
    trace: &mut TraceReader<R>,
    limit: u64,
    groups: &[(Vec<SiteId>, f64)],
    progress: Progress,
) -> trace_format::Result<Outcome> {
    let mut member: FxHashMap<SiteId, usize> = FxHashMap::default();
    for (group, (sites, _)) in groups.iter().enumerate() {
        member.extend(sites.iter().map(|site| (*site, group)));
    }
    let mut base = heap();
    let mut grouped: Vec<SizeClassHeap> = groups.iter().map(|_| heap()).collect();
    // The groups alone, and the random ones after them.
    let mut alone: Vec<SizeClassHeap> = (0..2 * groups.len()).map(|_| heap()).collect();
    let mut random: Vec<SizeClassHeap> = groups.iter().map(|_| heap()).collect();
    let spans = SpanOptions::default();
    let mut live: FxHashMap<ObjectId, Placed> = FxHashMap::default();
    each_event(trace, limit, progress, |_, occurrence| {
        match *occurrence.event {
            Event::Allocate {
                object, site, size, ..
            } => {
                let own = member.get(&site).copied();
                let is_random = |group: usize| is_drawn(object, group, groups[group].1);
                let place = |heaps: &mut [SizeClassHeap], is_inside: &dyn Fn(usize) -> bool| {
                    let heaps = heaps.iter_mut().enumerate();
                    heaps
                        .map(|(group, heap)| heap.allocate(part(is_inside(group)), size))
                        .collect()
                };
                let drawn = (0..groups.len()).filter(|&group| is_random(group));
                let all = own.into_iter().chain(drawn.map(|one| groups.len() + one));
                let placed = Placed {
                    size,
                    base: base.allocate(OUTSIDE, size),
                    own: all
                        .filter(|_| !spans.is_large(size))
                        .map(|one| (one, alone[one].allocate(INSIDE, size)))
                        .collect(),
                    grouped: place(&mut grouped, &|group| own == Some(group)),
                    random: place(&mut random, &is_random),
                };
                live.insert(object, placed);
            }
            Event::Free { object } => {
                let Some(placed) = live.remove(&object) else {
                    return;
                };
                let size = placed.size;
                base.free(placed.base, size);
                for (one, place) in &placed.own {
                    alone[*one].free(*place, size);
                }
                for (heap, place) in grouped.iter_mut().zip(&placed.grouped) {
                    heap.free(*place, size);
                }
                for (heap, place) in random.iter_mut().zip(&placed.random) {
                    heap.free(*place, size);
                }
            }
            _ => {}
        }
    })?;
    let (own, random_own) = alone.split_at(groups.len());
    let resident = |heaps: &[SizeClassHeap]| {
        let bytes = heaps.iter().map(SizeClassHeap::resident_bytes);
        bytes.collect::<Vec<u64>>()
    };
    Ok(Outcome {
        ungrouped_bytes: base.resident_bytes(),
        own_bytes: resident(own),
        random_own_bytes: resident(random_own),
        grouped_bytes: resident(&grouped),
        random_bytes: resident(&random),
    })
}
