//! What could go back to the system if some places' blocks lay elsewhere? By the addresses at which everything lay, so
//! for the allocator that the program ran on, whichever that is.
//!
//! A page that only these blocks hold would be empty without them. Against it stands what they would hold elsewhere,
//! among their own dead: that is replayed in a model (`what_if`). All other blocks are taken to lie where they did. That
//! flatters large places, whose room others would have used: what a random group as large would free tells by how much.

use metis::heap::SpanOptions;
use rustc_hash::FxHashMap;
use trace_format::{ObjectId, SiteId};

use super::analysis::Heap;
use super::pages::{PAGE, pages_of};

/// Pages that the same places hold.
#[derive(Debug, Default)]
struct Held {
    pages: u64,
    /// Of each of the places, in their order.
    bytes: Vec<u64>,
}

/// Which places hold which pages at a moment.
#[derive(Debug, Default)]
pub struct Holders {
    sets: FxHashMap<Vec<usize>, Held>,
    /// Of each place.
    live_bytes: Vec<u64>,
}

impl Holders {
    /// A place is a list of sites. None where the heap has no pages.
    pub fn of(heap: &Heap, places: &[&[SiteId]]) -> Option<Self> {
        let mut place_of: FxHashMap<SiteId, usize> = FxHashMap::default();
        for (place, sites) in places.iter().enumerate() {
            place_of.extend(sites.iter().map(|site| (*site, place)));
        }
        Self::by(heap, places.len(), |_, site| place_of.get(&site).copied())
    }

    /// A place is any blocks, as `place_of` says.
    pub fn by(
        heap: &Heap,
        count: usize,
        place_of: impl Fn(ObjectId, SiteId) -> Option<usize>,
    ) -> Option<Self> {
        heap.pages.as_ref()?;
        let spans = SpanOptions::default();
        // Of no place, or on pages of its own wherever it is: it stays where it is.
        let fixed = count;
        let mut found = Self {
            live_bytes: vec![0; count],
            ..Self::default()
        };
        let mut pages: FxHashMap<u64, Vec<(usize, u64)>> = FxHashMap::default();
        for (&object, block) in &heap.blocks {
            let place = match place_of(object, block.site) {
                Some(place) if !spans.is_large(block.size) => place,
                _ => fixed,
            };
            for (page, bytes) in pages_of(block.address, block.size).0 {
                let bytes = u64::from(bytes);
                let holders = pages.entry(page).or_default();
                match holders.iter_mut().find(|(holder, _)| *holder == place) {
                    Some((_, sum)) => *sum += bytes,
                    None => holders.push((place, bytes)),
                }
                if let Some(live) = found.live_bytes.get_mut(place) {
                    *live += bytes;
                }
            }
        }
        for mut holders in pages.into_values() {
            holders.sort_unstable();
            if holders.last().is_none_or(|(place, _)| *place == fixed) {
                continue;
            }
            let (set, bytes): (Vec<usize>, Vec<u64>) = holders.into_iter().unzip();
            let held = found.sets.entry(set).or_default();
            held.pages += 1;
            held.bytes.resize(bytes.len(), 0);
            held.bytes
                .iter_mut()
                .zip(bytes)
                .for_each(|(sum, one)| *sum += one);
        }
        Some(found)
    }

    /// Free bytes of the pages that this place alone holds: no more could go.
    pub fn free_bytes(&self, place: usize) -> u64 {
        self.sets
            .get(&[place][..])
            .map_or(0, |held| (held.pages * PAGE).saturating_sub(held.bytes[0]))
    }

    /// Bytes that could go if the blocks of these places lay elsewhere, where they would hold `own_bytes` of each place.
    pub fn gain(&self, places: &[usize], own_bytes: &[u64]) -> u64 {
        let (mut freed, mut needed) = (0, 0.0);
        let all_go = |set: &[usize]| set.iter().all(|place| places.contains(place));
        for (set, held) in self.sets.iter().filter(|(set, _)| all_go(set)) {
            freed += held.pages * PAGE;
            for (&place, &bytes) in set.iter().zip(&held.bytes) {
                let own = own_bytes.get(place).copied().unwrap_or(0);
                needed += own as f64 * bytes as f64 / self.live_bytes[place].max(1) as f64;
            }
        }
        freed.saturating_sub(needed as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PageTable;

    /// Blocks of (site, page, size), each at an address of its own on its page.
    fn found(blocks: &[(SiteId, u64, u64)], places: &[&[SiteId]]) -> Holders {
        let mut heap = Heap::default();
        heap.pages = Some(PageTable::default());
        for (number, &(site, page, size)) in (0..).zip(blocks) {
            heap.allocate(number, site, size, page * PAGE + 16 + number * 128);
        }
        Holders::of(&heap, places).expect("pages")
    }

    const BLOCKS: [(SiteId, u64, u64); 4] = [(1, 1, 100), (1, 1, 100), (1, 2, 100), (2, 2, 100)];

    #[test]
    fn a_page_of_one_place_goes_and_a_shared_one_when_all_go() {
        let all = found(&BLOCKS, &[&[1], &[2]]);
        assert_eq!((all.free_bytes(0), all.free_bytes(1)), (PAGE - 200, 0));
        let gain = |places: &[usize]| all.gain(places, &[0, 0]);
        assert_eq!((gain(&[0]), gain(&[1])), (PAGE, 0));
        assert_eq!((gain(&[0, 1]), gain(&[])), (2 * PAGE, 0));
        // What is no place's stays, and so do sites that are one place together.
        assert_eq!(found(&BLOCKS, &[&[2]]).gain(&[0], &[0]), 0);
        assert_eq!(found(&BLOCKS, &[&[2, 1]]).gain(&[0], &[0]), 2 * PAGE);
    }

    /// Of 300 bytes two thirds leave the page that goes; what they hold elsewhere may be more than that.
    #[test]
    fn what_they_hold_elsewhere_is_taken_off() {
        let all = found(&BLOCKS, &[&[1], &[2]]);
        assert_eq!(all.gain(&[0], &[300, 0]), PAGE - 200);
        assert_eq!(all.gain(&[0, 1], &[300, 1000]), 2 * PAGE - 1300);
        assert_eq!(all.gain(&[0], &[3 * PAGE, 0]), 0);
    }

    #[test]
    fn a_large_block_is_nobodys() {
        assert_eq!(found(&[(1, 1, 10 * PAGE)], &[&[1]]).free_bytes(0), 0);
        assert_eq!(found(&[(1, 1, u64::MAX)], &[&[1]]).gain(&[0], &[0]), 0);
        let beside = [(1, 1, 10), (1, 1, 5 * PAGE)];
        assert_eq!(found(&beside, &[&[1]]).gain(&[0], &[0]), 0);
    }

    #[test]
    fn without_pages_nothing_is_said() {
        assert!(Holders::of(&Heap::default(), &[]).is_none());
    }
}
