//! A model of an allocator that keeps blocks of a size class together and fills the lowest free place first, as most do:
//! to compare layouts with each other, not to foretell any one allocator's figures.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::pages::{PAGE, PageTable};
use super::size_class::size_class;

/// Places for blocks of a class are made four pages at a time.
const SPAN: u64 = 4 * PAGE;
/// Larger blocks have pages of their own, which go when they go.
const LARGEST_CLASS: u64 = 8192;

#[derive(Default)]
pub struct Layout {
    /// Free places of each class, by address.
    free: FxHashMap<u64, BTreeSet<u64>>,
    pages: PageTable,
    next: u64,
}

impl Layout {
    /// Returns where the block lies.
    pub fn allocate(&mut self, size: u64) -> u64 {
        let class = size_class(size);
        let address = if class > LARGEST_CLASS {
            self.take(size.min(1 << 40))
        } else {
            self.place(class)
        };
        self.pages.add(address, size);
        address
    }

    pub fn free(&mut self, address: u64, size: u64) {
        self.pages.remove(address, size);
        let class = size_class(size);
        if class <= LARGEST_CLASS {
            self.free.entry(class).or_default().insert(address);
        }
    }

    pub fn held_bytes(&self) -> u64 {
        self.pages.held_bytes()
    }

    fn take(&mut self, size: u64) -> u64 {
        let start = self.next;
        self.next = self.next.saturating_add(size.next_multiple_of(PAGE));
        start
    }

    fn place(&mut self, class: u64) -> u64 {
        if let Some(place) = self.free.get_mut(&class).and_then(BTreeSet::pop_first) {
            return place;
        }
        let start = self.take(SPAN);
        let others = (1..SPAN / class).map(|index| start.saturating_add(index * class));
        self.free.entry(class).or_default().extend(others);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_place_is_taken_first() {
        let mut layout = Layout::default();
        let places: Vec<u64> = (0..10).map(|_| layout.allocate(100)).collect();
        assert!(places.windows(2).all(|two| two[0] < two[1]));
        layout.free(places[7], 100);
        layout.free(places[3], 100);
        assert_eq!(layout.allocate(97), places[3]);
        assert_eq!(layout.held_bytes(), PAGE);
        // Another class has pages of its own.
        layout.allocate(16);
        assert_eq!(layout.held_bytes(), 2 * PAGE);
    }

    #[test]
    fn survivors_hold_their_pages_and_large_blocks_none() {
        let mut layout = Layout::default();
        let places: Vec<u64> = (0..320).map(|_| layout.allocate(128)).collect();
        assert_eq!(layout.held_bytes(), 10 * PAGE);
        for (index, place) in places
            .iter()
            .enumerate()
            .filter(|(index, _)| index % 32 != 0)
        {
            assert_eq!(*place % PAGE / 128, index as u64 % 32);
            layout.free(*place, 128);
        }
        assert_eq!(layout.held_bytes(), 10 * PAGE);
        let large = layout.allocate(100_000);
        layout.free(large, 100_000);
        assert_eq!(layout.held_bytes(), 10 * PAGE);
    }
}
