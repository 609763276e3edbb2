//! The heap of a native program as size-class allocators lay it out: spans of equal slots, one size class and one
//! group of sites to a span, lowest free slot first. Counted in resident pages, which is what a server pays.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::algorithm::Plan;
use trace_format::{Event, ObjectId, SiteId};

/// When memory goes back to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purge {
    /// A touched page stays until its whole span is empty, as in common allocators.
    EmptySpans,
    /// A page goes as soon as nothing lives in it.
    EmptyPages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpanOptions {
    pub span_bytes: u64,
    pub page_bytes: u64,
    pub purge: Purge,
}

impl Default for SpanOptions {
    fn default() -> Self {
        Self {
            span_bytes: 65_536,
            page_bytes: 4096,
            purge: Purge::EmptySpans,
        }
    }
}

/// Objects above an eighth of a span have pages of their own.
const LARGE_SHARE: u64 = 8;
/// More alive than any address space holds.
const LARGEST_TOTAL: u64 = 1 << 56;
/// Group of the sites that the plan does not name.
const UNGROUPED: u32 = u32::MAX;
/// A page with less than this share of its bytes alive is pinned.
const PINNED_BELOW: f64 = 0.25;

type Key = (u32, u64);

struct Span {
    key: Key,
    used: Vec<u64>,
    slots: u32,
    live: u32,
    /// Objects alive in each page, partly or whole.
    page_live: Vec<u32>,
    page_touched: Vec<bool>,
}

#[derive(Clone, Copy)]
enum Location {
    Slot { span: u32, slot: u32 },
    Pages(u64),
}

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
    options: SpanOptions,
    group_of: FxHashMap<SiteId, u32>,
    spans: Vec<Span>,
    vacant: BTreeSet<u32>,
    /// Spans with a free slot, lowest first.
    open: FxHashMap<Key, BTreeSet<u32>>,
    blocks: FxHashMap<ObjectId, Block>,
    resident: u64,
    live_bytes: u64,
    page_sum: f64,
    live_sum: f64,
    residence: Residence,
}

impl SpanHeap {
    /// An empty plan gives the ungrouped heap.
    pub fn new(plan: &Plan, options: SpanOptions) -> Self {
        Self {
            options: SpanOptions {
                span_bytes: options.span_bytes.clamp(4096, 1 << 30),
                page_bytes: options.page_bytes.clamp(64, options.span_bytes.max(4096)),
                ..options
            },
            group_of: plan.group_of.clone(),
            spans: Vec::new(),
            vacant: BTreeSet::new(),
            open: FxHashMap::default(),
            blocks: FxHashMap::default(),
            resident: 0,
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
            self.page_sum += self.resident as f64;
            self.live_sum += self.live_bytes as f64;
        }
    }

    /// Averages and the peak begin here; the heap stays as it is.
    pub fn begin_averages(&mut self) {
        self.page_sum = 0.0;
        self.live_sum = 0.0;
        self.residence = Residence {
            peak_pages: self.resident,
            ..Residence::default()
        };
    }

    pub fn resident_pages(&self) -> u64 {
        self.resident
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
                let page =
                    u64::from(slot) * self.spans[span as usize].key.1 / self.options.page_bytes;
                *pages
                    .entry((span, page))
                    .or_default()
                    .entry(block.site)
                    .or_default() += block.bytes;
            }
        }
        let mut pins: FxHashMap<SiteId, Pin> = FxHashMap::default();
        for sites in pages.values() {
            let live: u64 = sites.values().sum();
            if (live as f64) < PINNED_BELOW * self.options.page_bytes as f64 {
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
        let location = if bytes > self.options.span_bytes / LARGE_SHARE {
            let pages = bytes.div_ceil(self.options.page_bytes);
            self.resident += pages;
            Location::Pages(pages)
        } else {
            let group = self.group_of.get(&site).copied().unwrap_or(UNGROUPED);
            self.allocate_slot((group, size_class(bytes)))
        };
        self.live_bytes += bytes;
        self.residence.peak_pages = self.residence.peak_pages.max(self.resident);
        self.blocks.insert(
            object,
            Block {
                location,
                bytes,
                site,
            },
        );
    }

    fn allocate_slot(&mut self, key: Key) -> Location {
        let number = match self.open.get(&key).and_then(BTreeSet::first) {
            Some(number) => *number,
            None => self.new_span(key),
        };
        let span = &mut self.spans[number as usize];
        let word = span
            .used
            .iter()
            .position(|word| *word != u64::MAX)
            .unwrap_or(0);
        let bit = span.used[word].trailing_ones();
        span.used[word] |= 1 << bit;
        span.live += 1;
        if span.live == span.slots
            && let Some(open) = self.open.get_mut(&key)
        {
            open.remove(&number);
        }
        let slot = word as u32 * 64 + bit;
        for page in self.pages_of(key.1, slot) {
            self.enter_page(number, page);
        }
        Location::Slot { span: number, slot }
    }

    fn new_span(&mut self, key: Key) -> u32 {
        let slots = (self.options.span_bytes / key.1) as u32;
        let pages = self.options.span_bytes.div_ceil(self.options.page_bytes) as usize;
        let mut used = vec![0u64; slots.div_ceil(64) as usize];
        if !slots.is_multiple_of(64)
            && let Some(last) = used.last_mut()
        {
            *last = u64::MAX << (slots % 64);
        }
        let span = Span {
            key,
            used,
            slots,
            live: 0,
            page_live: vec![0; pages],
            page_touched: vec![false; pages],
        };
        let number = match self.vacant.pop_first() {
            Some(number) => {
                self.spans[number as usize] = span;
                number
            }
            None => {
                self.spans.push(span);
                self.spans.len() as u32 - 1
            }
        };
        self.open.entry(key).or_default().insert(number);
        number
    }

    fn free(&mut self, object: ObjectId) {
        let Some(block) = self.blocks.remove(&object) else {
            self.residence.malformed += 1;
            return;
        };
        self.live_bytes -= block.bytes;
        match block.location {
            Location::Pages(pages) => self.resident -= pages,
            Location::Slot { span, slot } => self.free_slot(span, slot),
        }
    }

    fn free_slot(&mut self, number: u32, slot: u32) {
        let key = self.spans[number as usize].key;
        for page in self.pages_of(key.1, slot) {
            self.leave_page(number, page);
        }
        let span = &mut self.spans[number as usize];
        span.used[slot as usize / 64] &= !(1 << (slot % 64));
        span.live -= 1;
        let open = self.open.entry(key).or_default();
        if span.live > 0 {
            open.insert(number);
            return;
        }
        open.remove(&number);
        if open.is_empty() {
            self.open.remove(&key);
        }
        let touched = span.page_touched.iter().filter(|touched| **touched).count();
        span.page_touched.fill(false);
        self.resident -= touched as u64;
        self.vacant.insert(number);
    }

    fn pages_of(&self, class: u64, slot: u32) -> std::ops::RangeInclusive<usize> {
        let start = u64::from(slot) * class;
        let page = self.options.page_bytes;
        (start / page) as usize..=((start + class - 1) / page) as usize
    }

    fn enter_page(&mut self, span: u32, page: usize) {
        let span = &mut self.spans[span as usize];
        span.page_live[page] += 1;
        if !span.page_touched[page] {
            span.page_touched[page] = true;
            self.resident += 1;
        }
    }

    fn leave_page(&mut self, span: u32, page: usize) {
        let span = &mut self.spans[span as usize];
        span.page_live[page] -= 1;
        if span.page_live[page] == 0 && self.options.purge == Purge::EmptyPages {
            span.page_touched[page] = false;
            self.resident -= 1;
        }
    }
}

/// Multiples of 16 up to 128, then four classes a doubling.
fn size_class(bytes: u64) -> u64 {
    if bytes <= 128 {
        return bytes.next_multiple_of(16);
    }
    let step = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(step)
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
    fn classes_waste_at_most_a_quarter() {
        for bytes in 1..20_000 {
            let class = size_class(bytes);
            assert!(
                class >= bytes && (class - bytes < 16 || 4 * (class - bytes) <= bytes),
                "{bytes}"
            );
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
