//! The model of an allocator with size classes: spans of equal slots, one size class and one group of blocks to a span,
//! the lowest free slot first, as most allocators do. It counts resident pages, to compare layouts with each other, not
//! to foretell any one allocator's figures.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::size_class::size_class;

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

/// Blocks above an eighth of a span have pages of their own, which go when they go.
const LARGE_SHARE: u64 = 8;

impl SpanOptions {
    pub fn is_large(&self, bytes: u64) -> bool {
        bytes > self.span_bytes / LARGE_SHARE
    }
}

/// Group and size class.
type Key = (u32, u64);

struct Span {
    key: Key,
    used: Vec<u64>,
    slots: u32,
    live: u32,
    /// Blocks alive in each page, partly or whole.
    page_live: Vec<u32>,
    page_touched: Vec<bool>,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    Slot {
        span: u32,
        slot: u32,
    },
    /// On pages of its own.
    Pages,
}

pub struct SizeClassHeap {
    options: SpanOptions,
    spans: Vec<Span>,
    vacant: BTreeSet<u32>,
    /// Spans with a free slot, lowest first.
    open: FxHashMap<Key, BTreeSet<u32>>,
    resident: u64,
}

impl SizeClassHeap {
    pub fn new(options: SpanOptions) -> Self {
        Self {
            options: SpanOptions {
                span_bytes: options.span_bytes.clamp(4096, 1 << 30),
                page_bytes: options.page_bytes.clamp(64, options.span_bytes.max(4096)),
                ..options
            },
            spans: Vec::new(),
            vacant: BTreeSet::new(),
            open: FxHashMap::default(),
            resident: 0,
        }
    }

    pub fn page_bytes(&self) -> u64 {
        self.options.page_bytes
    }

    pub fn resident_pages(&self) -> u64 {
        self.resident
    }

    pub fn resident_bytes(&self) -> u64 {
        self.resident.saturating_mul(self.options.page_bytes)
    }

    /// The page of its span on which a slot begins.
    pub fn page_of(&self, span: u32, slot: u32) -> u64 {
        u64::from(slot) * self.spans[span as usize].key.1 / self.options.page_bytes
    }

    /// Blocks of different groups are never in one span.
    pub fn allocate(&mut self, group: u32, bytes: u64) -> Location {
        if self.options.is_large(bytes) {
            self.resident = self.resident.saturating_add(self.own_pages(bytes));
            return Location::Pages;
        }
        let key = (group, size_class(bytes));
        let number = match self.open.get(&key).and_then(BTreeSet::first) {
            Some(number) => *number,
            None => self.new_span(key),
        };
        let span = &mut self.spans[number as usize];
        let slot = span.take_slot();
        if span.live == span.slots
            && let Some(open) = self.open.get_mut(&key)
        {
            open.remove(&number);
        }
        for page in self.pages_of(key.1, slot) {
            self.enter_page(number, page);
        }
        Location::Slot { span: number, slot }
    }

    /// What was allocated with as many bytes, and is freed once.
    pub fn free(&mut self, location: Location, bytes: u64) {
        match location {
            Location::Pages => {
                self.resident = self.resident.saturating_sub(self.own_pages(bytes));
            }
            Location::Slot { span, slot } => self.free_slot(span, slot),
        }
    }

    fn own_pages(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.options.page_bytes)
    }

    fn new_span(&mut self, key: Key) -> u32 {
        let slots = (self.options.span_bytes / key.1) as u32;
        let pages = self.options.span_bytes.div_ceil(self.options.page_bytes) as usize;
        let span = Span::new(key, slots, pages);
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
            self.resident = self.resident.saturating_add(1);
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

impl Span {
    fn new(key: Key, slots: u32, pages: usize) -> Self {
        let mut used = vec![0u64; slots.div_ceil(64) as usize];
        if !slots.is_multiple_of(64)
            && let Some(last) = used.last_mut()
        {
            *last = u64::MAX << (slots % 64);
        }
        Self {
            key,
            used,
            slots,
            live: 0,
            page_live: vec![0; pages],
            page_touched: vec![false; pages],
        }
    }

    /// The lowest one, of a span that has one.
    fn take_slot(&mut self) -> u32 {
        let word = self
            .used
            .iter()
            .position(|word| *word != u64::MAX)
            .unwrap_or(0);
        let bit = self.used[word].trailing_ones();
        self.used[word] |= 1 << bit;
        self.live += 1;
        word as u32 * 64 + bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap() -> SizeClassHeap {
        SizeClassHeap::new(SpanOptions {
            purge: Purge::EmptyPages,
            ..SpanOptions::default()
        })
    }

    #[test]
    fn the_lowest_slot_is_taken_first() {
        let mut heap = heap();
        let slots: Vec<Location> = (0..10).map(|_| heap.allocate(0, 100)).collect();
        for (slot, found) in (0..).zip(&slots) {
            assert_eq!(*found, Location::Slot { span: 0, slot });
        }
        heap.free(slots[7], 100);
        heap.free(slots[3], 100);
        assert_eq!(heap.allocate(0, 97), slots[3]);
        assert_eq!(heap.resident_pages(), 1);
        // Another class has pages of its own, and so has another group.
        heap.allocate(0, 16);
        assert_eq!(heap.resident_pages(), 2);
        heap.allocate(1, 16);
        assert_eq!(heap.resident_bytes(), 3 * 4096);
    }

    #[test]
    fn survivors_hold_their_pages_and_large_blocks_none() {
        let mut heap = heap();
        let slots: Vec<Location> = (0..320).map(|_| heap.allocate(0, 128)).collect();
        assert_eq!(heap.resident_pages(), 10);
        for (_, slot) in (0..).zip(&slots).filter(|(index, _)| index % 32 != 0) {
            heap.free(*slot, 128);
        }
        assert_eq!(heap.resident_pages(), 10);
        let large = heap.allocate(0, 100_000);
        assert_eq!((large, heap.resident_pages()), (Location::Pages, 10 + 25));
        heap.free(large, 100_000);
        assert_eq!(heap.resident_pages(), 10);
    }

    #[test]
    fn sizes_that_no_machine_has_do_no_harm() {
        let mut heap = heap();
        for _ in 0..10_000 {
            assert_eq!(heap.allocate(0, u64::MAX), Location::Pages);
        }
        assert_eq!(heap.resident_bytes(), u64::MAX);
        for _ in 0..10_000 {
            heap.free(Location::Pages, u64::MAX);
        }
        heap.allocate(0, 0);
        assert!(heap.resident_pages() > 0);
    }
}
