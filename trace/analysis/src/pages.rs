//! Which pages live blocks hold, by the addresses in a trace.

use rustc_hash::FxHashMap;

pub const PAGE: u64 = 4096;

/// Live bytes of every page that holds any. Pages in the middle of large blocks are only counted.
#[derive(Default)]
pub struct PageTable {
    partial: FxHashMap<u64, u32>,
    whole: u64,
}

/// The pages of a block, as (page, bytes on it): the first and the last; and how many whole ones between.
pub fn pages_of(address: u64, size: u64) -> (impl Iterator<Item = (u64, u32)>, u64) {
    // Even a block of no bytes has an address of its own.
    let size = size.max(1);
    let end = address.saturating_add(size);
    let (first, last) = (address / PAGE, (end - 1) / PAGE);
    let on_first = if first == last {
        size
    } else {
        (first + 1) * PAGE - address
    };
    let on_last = if first == last {
        None
    } else {
        Some((last, (end - last * PAGE) as u32))
    };
    let between = (last - first).saturating_sub(1);
    (
        std::iter::once((first, on_first as u32)).chain(on_last),
        between,
    )
}

impl PageTable {
    pub fn add(&mut self, address: u64, size: u64) {
        let (pages, whole) = pages_of(address, size);
        for (page, bytes) in pages {
            let live = self.partial.entry(page).or_insert(0);
            *live = live.saturating_add(bytes);
        }
        self.whole = self.whole.saturating_add(whole);
    }

    pub fn remove(&mut self, address: u64, size: u64) {
        let (pages, whole) = pages_of(address, size);
        for (page, bytes) in pages {
            if let Some(live) = self.partial.get_mut(&page) {
                *live = live.saturating_sub(bytes);
                if *live == 0 {
                    self.partial.remove(&page);
                }
            }
        }
        self.whole = self.whole.saturating_sub(whole);
    }

    /// Pages that cannot be given back.
    pub fn held(&self) -> u64 {
        self.whole.saturating_add(self.partial.len() as u64)
    }

    /// More than an address space holds, where a damaged trace says so.
    pub fn held_bytes(&self) -> u64 {
        self.held().saturating_mul(PAGE)
    }

    /// Live bytes of a page.
    pub fn live(&self, page: u64) -> u32 {
        self.partial.get(&page).copied().unwrap_or(0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.partial.iter().map(|(&page, &live)| (page, live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_the_pages_they_lie_on() {
        let mut table = PageTable::default();
        table.add(4096, 16);
        table.add(4112, 16);
        assert_eq!((table.held(), table.live(1)), (1, 32));
        table.add(8190, 4);
        assert_eq!((table.held(), table.live(1), table.live(2)), (2, 34, 2));
        table.add(40960, 3 * 4096);
        assert_eq!(table.held(), 5);
        table.add(100_000, 0);
        assert_eq!(table.held(), 6);
        for (address, size) in [
            (4096, 16),
            (4112, 16),
            (8190, 4),
            (40960, 3 * 4096),
            (100_000, 0),
        ] {
            table.remove(address, size);
        }
        assert_eq!(table.held(), 0);
    }

    #[test]
    fn nonsense_addresses_do_no_harm() {
        let mut table = PageTable::default();
        table.add(u64::MAX - 3, u64::MAX);
        table.remove(u64::MAX - 3, u64::MAX);
        assert_eq!(table.held(), 0);
        table.remove(1, 1);
        for _ in 0..5000 {
            table.add(0, u64::MAX);
        }
        assert_eq!(table.held_bytes(), u64::MAX);
    }
}
