//! Memory that several processes have in common, by counters that count it in each of them.
//!
//! It is at least what one of them has, and at most the sum. In between it is what an exact look found last, and what
//! the counters moved by since: a page that a process gets anew is nobody else's. Pages that a process copies because
//! it writes to them do not show in its counters, so exact looks have to follow.

use std::collections::HashMap;

/// One process's bytes.
pub type Part = (i32, u64);

#[derive(Debug, Default)]
pub struct Shared {
    known: u64,
    /// Each process's counter as it was when it was known.
    counted: HashMap<i32, u64>,
}

impl Shared {
    /// An exact look has found so much.
    pub fn learn(&mut self, bytes: u64, parts: &[Part]) {
        self.known = bytes;
        self.counted = parts.iter().copied().collect();
    }

    /// What there is now, at least `least` of it. Before anything is known it is what the largest has.
    pub fn bytes(&mut self, parts: &[Part], least: u64) -> u64 {
        let most = sum(parts);
        if self.counted.is_empty() {
            self.learn(largest(parts), parts);
        }
        let mut bytes = i128::from(self.known);
        for (process, now) in parts {
            // What is new shares all that it has, as after a fork.
            let counted = *self.counted.entry(*process).or_insert(*now);
            bytes += i128::from(*now) - i128::from(counted);
        }
        let bytes = u64::try_from(bytes.max(0)).unwrap_or(u64::MAX);
        let bytes = bytes.max(least).min(most);
        self.learn(bytes, parts);
        bytes
    }

    pub fn forget(&mut self) {
        self.counted.clear();
    }
}

pub fn sum(parts: &[Part]) -> u64 {
    parts.iter().map(|(_, bytes)| bytes).sum()
}

pub fn largest(parts: &[Part]) -> u64 {
    parts.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(shared: &mut Shared, parts: &[Part]) -> u64 {
        shared.bytes(parts, largest(parts))
    }

    #[test]
    fn a_fork_shares_all_and_what_comes_later_is_its_own() {
        let mut shared = Shared::default();
        assert_eq!(bytes(&mut shared, &[(1, 500), (2, 500)]), 500);
        assert_eq!(bytes(&mut shared, &[(1, 500), (2, 530)]), 530);
        assert_eq!(bytes(&mut shared, &[(1, 500), (2, 530), (3, 500)]), 530);
        shared.learn(900, &[(1, 500), (2, 530), (3, 500)]);
        assert_eq!(bytes(&mut shared, &[(1, 500), (2, 530), (3, 520)]), 920);
    }

    #[test]
    fn it_is_never_less_than_one_has_nor_more_than_all() {
        let mut shared = Shared::default();
        shared.learn(900, &[(1, 500), (2, 500)]);
        assert_eq!(bytes(&mut shared, &[(1, 510)]), 510, "the other one ended");
        shared.learn(100, &[(1, 500)]);
        assert_eq!(bytes(&mut shared, &[(1, 500)]), 500);
    }
}
