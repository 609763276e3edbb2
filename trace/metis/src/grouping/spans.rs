//! The heap of a native program as size-class allocators lay it out, groups of sites apart from each other. Counted in
//! resident pages, which is what a server pays.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use trace_format::{Event, ObjectId, SiteId};

use crate::algorithm::Plan;
use crate::heap::{Location, SizeClassHeap, SpanOptions};

/// More alive than any address space holds.
const LARGEST_TOTAL: u64 = 1 << 56;
/// Group of the sites that the plan does not name.
const UNGROUPED: u32 = u32::MAX;
/// A page with less than this share of its bytes alive is pinned.
const PINNED_BELOW: f64 = 0.25;

#[derive(Clone, Copy)]
struct Block {
    location: Location,
    bytes: u64,
    site: SiteId,
}

/// What a replay came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Residence {
    /// Means over allocations and frees.
    pub average_pages: f64,
    pub average_live_bytes: f64,
    pub peak_pages: u64,
    pub events: u64,
    /// Frees and allocations that cannot have happened, skipped.
    pub malformed: u64,
}

/// Pages that few survivors of a site keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pin {
    pub site: SiteId,
    /// A page pinned by several sites is shared among them by their bytes in it.
    pub pages: f64,
    pub live_bytes: u64,
}

pub struct SpanHeap {
    heap: SizeClassHeap,
    group_of: FxHashMap<SiteId, u32>,
    blocks: FxHashMap<ObjectId, Block>,
    live_bytes: u64,
    page_sum: f64,
    live_sum: f64,
    residence: Residence,
}

impl SpanHeap {
    /// An empty plan gives the ungrouped heap.
    pub fn new(plan: &Plan, options: SpanOptions) -> Self {
        Self {
            heap: SizeClassHeap::new(options),
            group_of: plan.group_of.clone(),
            blocks: FxHashMap::default(),
            live_bytes: 0,
            page_sum: 0.0,
            live_sum: 0.0,
            residence: Residence::default(),
        }
    }

    /// Replays allocations and frees; other events are not a native program's.
    pub fn run(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Allocate {
                    object, site, size, ..
                } => self.allocate(object, site, size),
                Event::Free { object } => self.free(object),
                _ => continue,
            }
            self.residence.events += 1;
            self.page_sum += self.resident_pages() as f64;
            self.live_sum += self.live_bytes as f64;
        }
    }

    /// Averages and the peak begin here; the heap stays as it is.
    pub fn begin_averages(&mut self) {
        self.page_sum = 0.0;
        self.live_sum = 0.0;
        self.residence = Residence {
            peak_pages: self.resident_pages(),
            ..Residence::default()
        };
    }

    pub fn resident_pages(&self) -> u64 {
        self.heap.resident_pages()
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn residence(&self) -> Residence {
        let events = self.residence.events.max(1) as f64;
        Residence {
            average_pages: self.page_sum / events,
            average_live_bytes: self.live_sum / events,
            ..self.residence
        }
    }

    /// Which sites' survivors keep nearly empty pages now; the worst first.
    pub fn pins(&self) -> Vec<Pin> {
        let mut pages: FxHashMap<(u32, u64), FxHashMap<SiteId, u64>> = FxHashMap::default();
        for block in self.blocks.values() {
            if let Location::Slot { span, slot } = block.location {
                *pages
                    .entry((span, self.heap.page_of(span, slot)))
                    .or_default()
                    .entry(block.site)
                    .or_default() += block.bytes;
            }
        }
        let mut pins: FxHashMap<SiteId, Pin> = FxHashMap::default();
        for sites in pages.values() {
            let live: u64 = sites.values().sum();
            if (live as f64) < PINNED_BELOW * self.heap.page_bytes() as f64 {
                for (site, bytes) in sites {
                    let pin = pins.entry(*site).or_insert(Pin {
                        site: *site,
                        pages: 0.0,
                        live_bytes: 0,
                    });
                    pin.pages += *bytes as f64 / live.max(1) as f64;
                    pin.live_bytes += bytes;
                }
            }
        }
        let mut pins: Vec<Pin> = pins.into_values().collect();
        pins.sort_by(|a, b| b.pages.total_cmp(&a.pages).then(a.site.cmp(&b.site)));
        pins
    }

    fn allocate(&mut self, object: ObjectId, site: SiteId, size: u64) {
        let absurd = size > LARGEST_TOTAL - self.live_bytes;
        if self.blocks.contains_key(&object) || object == 0 || absurd {
            self.residence.malformed += 1;
            return;
        }
        let bytes = size.max(1);
        let group = self.group_of.get(&site).copied().unwrap_or(UNGROUPED);
        let location = self.heap.allocate(group, bytes);
        self.live_bytes += bytes;
        self.residence.peak_pages = self.residence.peak_pages.max(self.resident_pages());
        self.blocks.insert(
            object,
            Block {
                location,
                bytes,
                site,
            },
        );
    }

    fn free(&mut self, object: ObjectId) {
        let Some(block) = self.blocks.remove(&object) else {
            self.residence.malformed += 1;
            return;
        };
        self.live_bytes -= block.bytes;
        self.heap.free(block.location, block.bytes);
    }
}

/// A whole replay.
pub fn replay(plan: &Plan, options: SpanOptions, events: &[Event]) -> Residence {
    let mut heap = SpanHeap::new(plan, options);
    heap.run(events);
    heap.residence()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Purge;
    use crate::workload::{Kind, Style, generate};

    fn allocate(object: ObjectId, site: SiteId, size: u64) -> Event {
        Event::Allocate {
            object,
            site,
            size,
            thread: 0,
        }
    }

    fn by_site(sites: u32) -> Plan {
        Plan {
            groups: Vec::new(),
            group_of: (0..sites).map(|site| (site, site)).collect(),
        }
    }

    #[test]
    fn one_survivor_a_page_pins_it_and_grouping_by_site_frees_the_rest() {
        // Sites 0 and 1 alternate; then all of site 0 dies.
        let mut events: Vec<Event> = (1..=8000).map(|n| allocate(n, n as u32 % 2, 64)).collect();
        events.extend(
            (1..=8000)
                .filter(|n| n % 2 == 0)
                .map(|object| Event::Free { object }),
        );
        let plain = |purge| {
            let mut heap = SpanHeap::new(
                &Plan::default(),
                SpanOptions {
                    purge,
                    ..SpanOptions::default()
                },
            );
            heap.run(&events);
            heap.resident_pages()
        };
        assert_eq!(
            (plain(Purge::EmptySpans), plain(Purge::EmptyPages)),
            (125, 125)
        );
        let mut grouped = SpanHeap::new(&by_site(2), SpanOptions::default());
        grouped.run(&events);
        assert_eq!(grouped.resident_pages(), 63);
        assert_eq!(grouped.live_bytes(), 4000 * 64);
    }

    #[test]
    fn pins_name_the_site() {
        let mut events: Vec<Event> = (1..=6400)
            .map(|n| allocate(n, if n % 64 == 0 { 7 } else { 3 }, 64))
            .collect();
        events.extend(
            (1..=6400)
                .filter(|n| n % 64 != 0)
                .map(|object| Event::Free { object }),
        );
        let mut heap = SpanHeap::new(&Plan::default(), SpanOptions::default());
        heap.run(&events);
        let pins = heap.pins();
        assert_eq!(pins.len(), 1);
        assert_eq!(
            (pins[0].site, pins[0].pages, pins[0].live_bytes),
            (7, 100.0, 6400)
        );
    }

    #[test]
    fn everything_freed_leaves_nothing_resident() {
        for purge in [Purge::EmptySpans, Purge::EmptyPages] {
            for kind in Kind::ALL {
                let events = generate(kind, Style::Native, 9, 30_000);
                let options = SpanOptions {
                    purge,
                    ..SpanOptions::default()
                };
                let mut heap = SpanHeap::new(&by_site(40), options);
                for event in &events {
                    heap.run(std::slice::from_ref(event));
                    assert!(
                        heap.resident_pages() * 4096 >= heap.live_bytes(),
                        "{kind:?}"
                    );
                }
                let left: Vec<Event> = heap
                    .blocks
                    .keys()
                    .map(|object| Event::Free { object: *object })
                    .collect();
                heap.run(&left);
                assert_eq!(
                    (heap.resident_pages(), heap.live_bytes()),
                    (0, 0),
                    "{kind:?} {purge:?}"
                );
                assert_eq!(heap.residence().malformed, 0);
            }
        }
    }

    #[test]
    fn hostile_events_are_counted() {
        let mut heap = SpanHeap::new(&Plan::default(), SpanOptions::default());
        let free = |object| Event::Free { object };
        heap.run(&[
            free(1),
            allocate(0, 0, 8),
            allocate(1, 0, u64::MAX),
            allocate(1, 0, 8),
        ]);
        heap.run(&[allocate(2, 0, 0), free(1), free(1), free(2)]);
        assert_eq!(heap.residence().malformed, 4);
        assert_eq!((heap.resident_pages(), heap.live_bytes()), (0, 0));
    }
}
