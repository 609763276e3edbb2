//! The free granules of one address range, handed out first fit: the lowest address at which a request
//! fits, or (`Direction::Backward`) the highest.
//!
//! One bit a granule says used or free; a hole is a maximal run of free granules. Granules are grouped in
//! pages of 64, and a page keeps what its bits alone cannot tell quickly: the length of a hole that starts
//! in it and crosses its end, and the start of a hole that began earlier and ends in it. A tree over the pages
//! holds a length that no hole below a node exceeds, so a fit is found in O(log pages), and memory is three words
//! for 64 granules however the holes lie. Only growing holes are noted in the tree at once: a bound that has become
//! too high is corrected by the first search that it misleads, which keeps the common allocation, from the front
//! of a hole, out of the tree.

use serde::{Deserialize, Serialize};

const PAGE: u32 = 64;

/// Which end of the range is filled first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    #[default]
    Forward,
    Backward,
}

impl Direction {
    pub fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// A maximal run of free granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub start: u32,
    pub length: u32,
}

impl Hole {
    fn end(self) -> u32 {
        self.start + self.length
    }

    fn page(self) -> usize {
        (self.start / PAGE) as usize
    }

    fn crosses_its_page(self) -> bool {
        self.start % PAGE + self.length > PAGE
    }
}

#[derive(Clone, Debug, Default)]
pub struct FreeSpace {
    granules: u32,
    free: u32,
    holes: u32,
    /// A bit a granule; those behind the end are set.
    used: Vec<u64>,
    /// Length of the hole that starts in the page and crosses its end, or 0.
    crossing: Vec<u32>,
    /// Start of the hole that began in an earlier page and ends in this one; stale where there is none.
    began: Vec<u32>,
    /// No hole that starts in the pages below a node is longer; node 1 is the root, page p is leaf `leaves + p`.
    bound: Vec<u32>,
    leaves: usize,
}

impl FreeSpace {
    pub fn new(granules: u32) -> Self {
        let mut space = Self::default();
        space.grow(granules);
        space
    }

    pub fn granules(&self) -> u32 {
        self.granules
    }

    pub fn free(&self) -> u32 {
        self.free
    }

    pub fn holes(&self) -> u32 {
        self.holes
    }

    pub fn is_empty(&self) -> bool {
        self.free == self.granules
    }

    /// Adds free granules behind the end.
    pub fn grow(&mut self, granules: u32) {
        if granules == 0 {
            return;
        }
        let old_end = self.granules;
        self.granules += granules;
        let pages = self.granules.div_ceil(PAGE) as usize;
        self.used.resize(pages, u64::MAX);
        self.crossing.resize(pages, 0);
        self.began.resize(pages, 0);
        if pages > self.leaves {
            self.widen_tree(pages);
        }
        self.release(old_end, granules);
    }

    /// Takes `length` granules at the first fit from the given end.
    pub fn allocate(&mut self, length: u32, direction: Direction) -> Option<u32> {
        let hole = match direction {
            Direction::Forward => self.first_hole_of(length)?,
            Direction::Backward => self.last_hole_of(length)?,
        };
        let start = match direction {
            Direction::Forward => hole.start,
            Direction::Backward => hole.end() - length,
        };
        self.carve(hole, start, length);
        Some(start)
    }

    /// Takes `length` granules at the lowest fit that does not begin below `limit`.
    pub fn allocate_from(&mut self, limit: u32, length: u32) -> Option<u32> {
        let (hole, start) = self.each_hole().find_map(|hole| {
            let start = hole.start.max(limit);
            (start < hole.end() && hole.end() - start >= length).then_some((hole, start))
        })?;
        self.carve(hole, start, length);
        Some(start)
    }

    /// Gives used granules back, joining them with free neighbours.
    pub fn release(&mut self, start: u32, length: u32) {
        self.set_bits(start, length, false);
        self.free += length;
        let end = start + length;
        let mut merged = Hole { start, length };
        if start > 0 && self.is_free(start - 1) {
            let left = self.hole_ending_at(start);
            merged = Hole {
                start: left.start,
                length: left.length + merged.length,
            };
            self.holes -= 1;
        }
        if end < self.granules && self.is_free(end) {
            let right = self.hole_starting_at(end);
            if right.crosses_its_page() {
                self.crossing[right.page()] = 0;
            }
            merged.length += right.length;
            self.holes -= 1;
        }
        self.holes += 1;
        self.note(merged);
        self.raise_bound(merged);
    }

    /// Gives granules back without looking for neighbours: `rebuild` must follow before anything else.
    pub fn sweep(&mut self, start: u32, length: u32) {
        self.set_bits(start, length, false);
    }

    /// Finds all holes again after sweeping.
    pub fn rebuild(&mut self) {
        self.free = 0;
        self.holes = 0;
        self.crossing.fill(0);
        self.bound.fill(0);
        let mut open: Option<u32> = None;
        for page in 0..self.used.len() {
            let first = page as u32 * PAGE;
            let mut free = !self.used[page];
            if let Some(start) = open {
                if free == u64::MAX {
                    continue;
                }
                self.note_swept(Hole {
                    start,
                    length: first + free.trailing_ones() - start,
                });
                open = None;
                free &= free.wrapping_add(1);
            }
            while free != 0 {
                let start = free.trailing_zeros();
                let length = (free >> start).trailing_ones();
                if start + length == PAGE {
                    open = Some(first + start);
                    break;
                }
                self.note_swept(Hole {
                    start: first + start,
                    length,
                });
                free &= !(((1u64 << length) - 1) << start);
            }
        }
        if let Some(start) = open {
            self.note_swept(Hole {
                start,
                length: self.granules - start,
            });
        }
        for node in (1..self.leaves).rev() {
            self.bound[node] = self.bound[2 * node].max(self.bound[2 * node + 1]);
        }
    }

    /// The holes, lowest first.
    pub fn each_hole(&self) -> impl Iterator<Item = Hole> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = self.next_with(next, false)?;
            let hole = self.hole_starting_at(start);
            next = hole.end();
            Some(hole)
        })
    }

    fn note_swept(&mut self, hole: Hole) {
        if hole.length == 0 {
            return;
        }
        self.holes += 1;
        self.free += hole.length;
        self.note(hole);
        let leaf = &mut self.bound[self.leaves + hole.page()];
        *leaf = (*leaf).max(hole.length);
    }

    /// The first granule at or after `from` that is used, or is free.
    fn next_with(&self, from: u32, used: bool) -> Option<u32> {
        let mut page = (from / PAGE) as usize;
        let mut skip = u64::MAX << (from % PAGE);
        while page < self.used.len() {
            let bits = if used {
                self.used[page]
            } else {
                !self.used[page]
            } & skip;
            if bits != 0 {
                return Some(page as u32 * PAGE + bits.trailing_zeros());
            }
            skip = u64::MAX;
            page += 1;
        }
        None
    }

    fn is_free(&self, granule: u32) -> bool {
        self.used[(granule / PAGE) as usize] >> (granule % PAGE) & 1 == 0
    }

    fn set_bits(&mut self, start: u32, length: u32, used: bool) {
        let (mut at, end) = (start, start + length);
        while at < end {
            let offset = at % PAGE;
            let count = (PAGE - offset).min(end - at);
            let mask = (u64::MAX >> (PAGE - count)) << offset;
            let word = &mut self.used[(at / PAGE) as usize];
            debug_assert!(
                *word & mask == if used { 0 } else { mask },
                "granules taken or given twice"
            );
            *word = if used { *word | mask } else { *word & !mask };
            at += count;
        }
    }

    fn hole_starting_at(&self, start: u32) -> Hole {
        let page = (start / PAGE) as usize;
        let run = (!self.used[page] >> (start % PAGE)).trailing_ones();
        let reaches_end = start % PAGE + run == PAGE;
        let length = if reaches_end && self.crossing[page] > 0 {
            self.crossing[page]
        } else {
            run
        };
        Hole { start, length }
    }

    /// The hole whose last granule is `end - 1`.
    fn hole_ending_at(&self, end: u32) -> Hole {
        let last = end - 1;
        let page = (last / PAGE) as usize;
        let run = (!self.used[page] << (PAGE - 1 - last % PAGE)).leading_ones();
        let reaches_start = run == last % PAGE + 1;
        let continues = reaches_start && page > 0 && self.used[page - 1] >> 63 == 0;
        let start = if continues {
            self.began[page]
        } else {
            end - run
        };
        Hole {
            start,
            length: end - start,
        }
    }

    /// Takes granules out of a hole, leaving up to two.
    fn carve(&mut self, hole: Hole, start: u32, length: u32) {
        self.set_bits(start, length, true);
        self.free -= length;
        self.holes -= 1;
        if hole.crosses_its_page() {
            self.crossing[hole.page()] = 0;
        }
        let left = Hole {
            start: hole.start,
            length: start - hole.start,
        };
        let right = Hole {
            start: start + length,
            length: hole.end() - start - length,
        };
        for rest in [left, right] {
            if rest.length > 0 {
                self.holes += 1;
                self.note(rest);
            }
        }
        if right.length > 0 && right.page() != hole.page() {
            self.raise_bound(right);
        }
    }

    fn note(&mut self, hole: Hole) {
        if hole.crosses_its_page() {
            self.crossing[hole.page()] = hole.length;
            self.began[((hole.end() - 1) / PAGE) as usize] = hole.start;
        }
    }

    /// The free bits of holes that both start and end in the page.
    fn inner_holes(&self, page: usize) -> u64 {
        let mut free = !self.used[page];
        if page > 0 && self.used[page - 1] >> 63 == 0 {
            free &= free.wrapping_add(1);
        }
        if self.crossing[page] > 0 {
            free &= !(u64::MAX
                .checked_shl(PAGE - free.leading_ones())
                .unwrap_or(0));
        }
        free
    }

    fn raise_bound(&mut self, hole: Hole) {
        let mut node = self.leaves + hole.page();
        while node > 0 && self.bound[node] < hole.length {
            self.bound[node] = hole.length;
            node /= 2;
        }
    }

    /// Makes the bounds above a page exact, as far as they depend on it.
    fn correct_bound(&mut self, page: usize) {
        let mut longest = self.crossing[page];
        let mut free = self.inner_holes(page);
        while free != 0 {
            free >>= free.trailing_zeros();
            let run = free.trailing_ones();
            longest = longest.max(run);
            free = free.checked_shr(run).unwrap_or(0);
        }
        let mut node = self.leaves + page;
        self.bound[node] = longest;
        while node > 1 {
            node /= 2;
            let below = self.bound[2 * node].max(self.bound[2 * node + 1]);
            if self.bound[node] == below {
                break;
            }
            self.bound[node] = below;
        }
    }

    fn widen_tree(&mut self, pages: usize) {
        let leaves = pages.next_power_of_two();
        let mut longest = vec![0; 2 * leaves];
        let old = self.leaves.min(self.bound.len());
        longest[leaves..leaves + old].copy_from_slice(&self.bound[self.bound.len() - old..]);
        for node in (1..leaves).rev() {
            longest[node] = longest[2 * node].max(longest[2 * node + 1]);
        }
        self.bound = longest;
        self.leaves = leaves;
    }

    fn first_hole_of(&mut self, length: u32) -> Option<Hole> {
        loop {
            let page = self.descend(length, 0)?;
            let inner = self.first_inner_fit(page, length);
            if let Some(hole) = inner.or_else(|| self.crossing_fit(page, length)) {
                return Some(hole);
            }
            self.correct_bound(page);
        }
    }

    fn last_hole_of(&mut self, length: u32) -> Option<Hole> {
        loop {
            let page = self.descend(length, 1)?;
            let crossing = self.crossing_fit(page, length);
            if let Some(hole) = crossing.or_else(|| self.last_inner_fit(page, length)) {
                return Some(hole);
            }
            self.correct_bound(page);
        }
    }

    /// The first page from one side (0 left, 1 right) in which a hole of that length may start.
    fn descend(&self, length: u32, side: usize) -> Option<usize> {
        if self.bound.get(1).is_none_or(|bound| *bound < length) {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + side;
            if self.bound[node] < length {
                node ^= 1;
            }
        }
        Some(node - self.leaves)
    }

    fn first_inner_fit(&self, page: usize, length: u32) -> Option<Hole> {
        let free = self.inner_holes(page);
        let fits = starts_of_runs(free, length);
        (fits != 0).then(|| run_at(page, free, fits.trailing_zeros()))
    }

    fn last_inner_fit(&self, page: usize, length: u32) -> Option<Hole> {
        let free = self.inner_holes(page);
        let fits = starts_of_runs(free, length);
        (fits != 0).then(|| {
            let last = PAGE - 1 - fits.leading_zeros();
            let before = (free << (PAGE - 1 - last)).leading_ones() - 1;
            run_at(page, free, last - before)
        })
    }

    fn crossing_fit(&self, page: usize, length: u32) -> Option<Hole> {
        let crossing = self.crossing[page];
        let run = (!self.used[page]).leading_ones();
        let start = (page as u32 + 1) * PAGE - run;
        (crossing >= length && crossing > 0).then_some(Hole {
            start,
            length: crossing,
        })
    }
}

/// The bits at which `length` set bits begin.
fn starts_of_runs(mut bits: u64, length: u32) -> u64 {
    if length > PAGE {
        return 0;
    }
    let mut wanted = length;
    while wanted > 1 {
        let half = wanted / 2;
        bits &= bits >> half;
        wanted -= half;
    }
    bits
}

fn run_at(page: usize, free: u64, start: u32) -> Hole {
    Hole {
        start: page as u32 * PAGE + start,
        length: (free >> start).trailing_ones(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same with a flag a granule and nothing clever.
    struct Naive(Vec<bool>);

    impl Naive {
        fn holes(&self) -> Vec<Hole> {
            let mut holes: Vec<Hole> = Vec::new();
            for (at, used) in self.0.iter().enumerate() {
                let at = at as u32;
                match holes.last_mut() {
                    _ if *used => {}
                    Some(hole) if hole.end() == at => hole.length += 1,
                    _ => holes.push(Hole {
                        start: at,
                        length: 1,
                    }),
                }
            }
            holes
        }

        fn fit(&self, length: u32, direction: Direction) -> Option<u32> {
            let mut fits = self
                .holes()
                .into_iter()
                .filter(|hole| hole.length >= length);
            match direction {
                Direction::Forward => fits.next().map(|hole| hole.start),
                Direction::Backward => fits.next_back().map(|hole| hole.end() - length),
            }
        }

        fn set(&mut self, start: u32, length: u32, used: bool) {
            self.0[start as usize..(start + length) as usize].fill(used);
        }
    }

    fn agree(space: &FreeSpace, naive: &Naive, context: &str) {
        let holes = naive.holes();
        assert_eq!(space.each_hole().collect::<Vec<_>>(), holes, "{context}");
        assert_eq!(space.holes() as usize, holes.len(), "{context}");
        assert_eq!(
            space.free(),
            holes.iter().map(|hole| hole.length).sum(),
            "{context}"
        );
    }

    #[test]
    fn every_step_agrees_with_a_naive_heap() {
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let size = random.u32(1..700);
            let mut space = FreeSpace::new(size);
            let mut naive = Naive(vec![false; size as usize]);
            let mut blocks: Vec<(u32, u32)> = Vec::new();
            let largest = *random.choice(&[3, 20, 200]).expect("not empty");
            for step in 0..600 {
                let context = format!("seed {seed}, step {step}");
                match random.u32(0..100) {
                    0..50 => {
                        let length = random.u32(1..=largest);
                        let direction = if random.bool() {
                            Direction::Forward
                        } else {
                            Direction::Backward
                        };
                        let expected = naive.fit(length, direction);
                        assert_eq!(space.allocate(length, direction), expected, "{context}");
                        if let Some(start) = expected {
                            naive.set(start, length, true);
                            blocks.push((start, length));
                        }
                    }
                    50..55 => {
                        let (limit, length) = (random.u32(0..size), random.u32(1..=largest));
                        if let Some(start) = space.allocate_from(limit, length) {
                            assert!(start >= limit, "{context}");
                            naive.set(start, length, true);
                            blocks.push((start, length));
                        }
                    }
                    55..95 if !blocks.is_empty() => {
                        let (start, length) = blocks.swap_remove(random.usize(0..blocks.len()));
                        naive.set(start, length, false);
                        space.release(start, length);
                    }
                    95..97 => {
                        blocks.retain(|(start, length)| {
                            let keep = random.bool();
                            if !keep {
                                naive.set(*start, *length, false);
                                space.sweep(*start, *length);
                            }
                            keep
                        });
                        space.rebuild();
                    }
                    97 => {
                        let more = random.u32(0..150);
                        space.grow(more);
                        naive.0.resize(naive.0.len() + more as usize, false);
                    }
                    _ => {}
                }
                agree(&space, &naive, &context);
            }
        }
    }

    #[test]
    fn nothing_fits_in_an_empty_range() {
        let mut space = FreeSpace::default();
        assert_eq!(space.allocate(1, Direction::Forward), None);
        assert_eq!(space.allocate_from(0, 1), None);
        assert_eq!((space.holes(), space.free()), (0, 0));
    }
}
