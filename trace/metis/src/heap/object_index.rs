//! From a trace's object numbers, which only ever grow, to the slots of the objects alive.
//!
//! Recent numbers are dense: they are looked up in pages of 4096. A page whose objects have nearly all died moves
//! its few survivors to a hash map, so memory follows the objects alive and not the trace's length.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use trace_format::ObjectId;

use super::slot::Slot;

const PAGE: u64 = 4096;
/// Below this many survivors a page costs more than hash map entries.
const SPARSE: u32 = 256;
/// A number further ahead than this does not open pages for all those between (hostile traces).
const FURTHEST_AHEAD: u64 = 1024;
const NONE: Slot = Slot::MAX;

#[derive(Default)]
struct Page {
    slots: Option<Box<[Slot]>>,
    alive: u32,
}

#[derive(Default)]
pub struct ObjectIndex {
    /// Number of the first page in `pages`.
    first: u64,
    pages: VecDeque<Page>,
    scattered: FxHashMap<ObjectId, Slot>,
}

impl ObjectIndex {
    #[inline]
    pub fn get(&self, object: ObjectId) -> Option<Slot> {
        let page = self.page_of(object);
        if let Some(slots) = page.and_then(|page| page.slots.as_ref()) {
            let slot = slots[(object % PAGE) as usize];
            if slot != NONE {
                return Some(slot);
            }
        }
        if self.scattered.is_empty() {
            None
        } else {
            self.scattered.get(&object).copied()
        }
    }

    pub fn insert(&mut self, object: ObjectId, slot: Slot) {
        let number = object / PAGE;
        if self.pages.is_empty() {
            self.first = number;
        }
        let next = self.first + self.pages.len() as u64;
        if number < self.first || number >= next + FURTHEST_AHEAD {
            self.scattered.insert(object, slot);
            return;
        }
        while self.first + (self.pages.len() as u64) <= number {
            self.retire_pages_before_the_newest();
            self.pages.push_back(Page::default());
        }
        let page = &mut self.pages[(number - self.first) as usize];
        if page.slots.is_none() && number + 1 < self.first + self.pages.len() as u64 {
            // The page has been given up as sparse.
            self.scattered.insert(object, slot);
            return;
        }
        let page = &mut self.pages[(number - self.first) as usize];
        let slots = page
            .slots
            .get_or_insert_with(|| vec![NONE; PAGE as usize].into_boxed_slice());
        slots[(object % PAGE) as usize] = slot;
        page.alive += 1;
    }

    pub fn remove(&mut self, object: ObjectId) {
        let newest = self.first + (self.pages.len() as u64).saturating_sub(1);
        if let Some(page) = self.page_of_mut(object)
            && let Some(slots) = &mut page.slots
            && slots[(object % PAGE) as usize] != NONE
        {
            slots[(object % PAGE) as usize] = NONE;
            page.alive -= 1;
            if page.alive < SPARSE && object / PAGE != newest {
                self.scatter(object / PAGE);
            }
            return;
        }
        self.scattered.remove(&object);
    }

    /// Bytes this index occupies, roughly.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let dense = self
            .pages
            .iter()
            .filter(|page| page.slots.is_some())
            .count();
        dense * PAGE as usize * size_of::<Slot>()
            + self.pages.len() * size_of::<Page>()
            + self.scattered.capacity() * (size_of::<(ObjectId, Slot)>() + 1)
    }

    #[inline]
    fn page_of(&self, object: ObjectId) -> Option<&Page> {
        self.pages
            .get(usize::try_from((object / PAGE).checked_sub(self.first)?).ok()?)
    }

    fn page_of_mut(&mut self, object: ObjectId) -> Option<&mut Page> {
        self.pages
            .get_mut(usize::try_from((object / PAGE).checked_sub(self.first)?).ok()?)
    }

    fn retire_pages_before_the_newest(&mut self) {
        if let Some(last) = self.pages.back()
            && last.alive < SPARSE
        {
            self.scatter(self.first + self.pages.len() as u64 - 1);
        }
        while self.pages.front().is_some_and(|page| page.slots.is_none()) {
            self.pages.pop_front();
            self.first += 1;
        }
    }

    fn scatter(&mut self, number: u64) {
        let page = &mut self.pages[(number - self.first) as usize];
        page.alive = 0;
        let Some(slots) = page.slots.take() else {
            return;
        };
        for (offset, slot) in slots.iter().enumerate() {
            if *slot != NONE {
                self.scattered.insert(number * PAGE + offset as u64, *slot);
            }
        }
        if self.scattered.capacity() > 4 * self.scattered.len() + 1024 {
            self.scattered.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_alive_and_nothing_else() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut index = ObjectIndex::default();
            let mut expected: FxHashMap<ObjectId, Slot> = FxHashMap::default();
            let mut ids: Vec<ObjectId> = Vec::new();
            let mut next = random.u64(0..10_000);
            let survival = random.f64() * 0.3;
            for step in 0..60_000u32 {
                next += if random.u32(0..2000) == 0 {
                    random.u64(1..50_000_000)
                } else {
                    1
                };
                index.insert(next, step);
                expected.insert(next, step);
                if random.f64() > survival {
                    ids.push(next);
                }
                while ids.len() > 3000 {
                    let object = ids.swap_remove(random.usize(0..ids.len()));
                    index.remove(object);
                    expected.remove(&object);
                    assert_eq!(index.get(object), None, "seed {seed}, object {object}");
                }
            }
            for (object, slot) in &expected {
                assert_eq!(
                    index.get(*object),
                    Some(*slot),
                    "seed {seed}, object {object}"
                );
            }
            assert_eq!(index.get(next + 1), None);
        }
    }

    #[test]
    fn memory_follows_the_living_and_not_the_length() {
        let mut index = ObjectIndex::default();
        for object in 1..=4_000_000 {
            index.insert(object, 7);
            if object > 1000 && (object - 1000) % 5000 != 0 {
                index.remove(object - 1000);
            }
        }
        // 1800 survivors of four million.
        assert!(index.bytes() < 400_000, "{} bytes", index.bytes());
    }

    #[test]
    fn hostile_numbers_do_not_open_pages() {
        let mut index = ObjectIndex::default();
        for object in [1, u64::MAX, u64::MAX / 2, 5, 1 << 40] {
            index.insert(object, object as u32);
        }
        assert!(index.bytes() < 100_000);
        assert_eq!(index.get(u64::MAX), Some(u32::MAX));
        assert_eq!(index.get(1 << 40), Some(0));
        assert_eq!(index.get(0), None);
    }
}
