//! What would a layout do in which the blocks of one place were kept on pages of their own?
//!
//! Compared are two runs of the same model over the same trace, without and with the group: what a better allocator alone
//! would bring is not counted as the group's.

use std::io::{Read, Seek};

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_format::{Event, ObjectId, SiteId, TraceReader};

use super::analysis::{Progress, each_event};
use super::model::Layout;

/// Bytes of held pages in the model, at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub ungrouped_bytes: u64,
    /// With each group alone: all pages, the group's and the others'.
    pub grouped_bytes: Vec<u64>,
    /// With random groups as large as each: every allocation joins with the group's share of all allocations.
    pub random_bytes: Vec<u64>,
}

/// The whole heap in two parts.
#[derive(Default)]
struct Split {
    inside: Layout,
    outside: Layout,
}

impl Split {
    fn part(&mut self, is_inside: bool) -> &mut Layout {
        if is_inside {
            &mut self.inside
        } else {
            &mut self.outside
        }
    }

    fn held_bytes(&self) -> u64 {
        let inside = self.inside.held_bytes();
        inside.saturating_add(self.outside.held_bytes())
    }
}

/// Where a block lies in each layout; whether inside by chance is decided by its number.
struct Placed {
    site: SiteId,
    size: u64,
    base: u64,
    grouped: Vec<u64>,
    random: Vec<u64>,
}

/// A number that looks random, the same in every run.
fn scatter(object: ObjectId, group: usize) -> f64 {
    let mut x = object.wrapping_add((group as u64 + 1) << 48);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) as f64 / u64::MAX as f64
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
    let mut base = Layout::default();
    let mut grouped: Vec<Split> = groups.iter().map(|_| Split::default()).collect();
    let mut random: Vec<Split> = groups.iter().map(|_| Split::default()).collect();
    let mut live: FxHashMap<ObjectId, Placed> = FxHashMap::default();
    each_event(trace, limit, progress, |_, event, _, _| match *event {
        Event::Allocate {
            object, site, size, ..
        } => {
            let own = member.get(&site).copied();
            let place = |splits: &mut [Split], is_inside: &dyn Fn(usize) -> bool| {
                let places = splits.iter_mut().enumerate();
                places
                    .map(|(group, split)| split.part(is_inside(group)).allocate(size))
                    .collect()
            };
            let placed = Placed {
                site,
                size,
                base: base.allocate(size),
                grouped: place(&mut grouped, &|group| own == Some(group)),
                random: place(&mut random, &|group| {
                    scatter(object, group) < groups[group].1
                }),
            };
            live.insert(object, placed);
        }
        Event::Free { object } => {
            let Some(placed) = live.remove(&object) else {
                return;
            };
            let own = member.get(&placed.site).copied();
            let size = placed.size;
            base.free(placed.base, size);
            for (group, (split, place)) in grouped.iter_mut().zip(&placed.grouped).enumerate() {
                split.part(own == Some(group)).free(*place, size);
            }
            for (group, (split, place)) in random.iter_mut().zip(&placed.random).enumerate() {
                let is_inside = scatter(object, group) < groups[group].1;
                split.part(is_inside).free(*place, size);
            }
        }
        _ => {}
    })?;
    Ok(Outcome {
        ungrouped_bytes: base.held_bytes(),
        grouped_bytes: grouped.iter().map(Split::held_bytes).collect(),
        random_bytes: random.iter().map(Split::held_bytes).collect(),
    })
}
