//! Processes added up by name and policy: each such pair is a time series of its own.
//!
//! A process's number would be a series for each process that ever ran, and a reader keeps them all. So there are at most
//! MOST pairs, and one for the rest. Counters go on when a process ends: what they have counted stays counted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::processes::Row;
use crate::report::plain::plain;

/// Of these pairs at a time.
const MOST: usize = 32;
/// A pair without a process is kept for so long, or what runs from time to time would begin anew each time.
const KEPT: Duration = Duration::from_secs(3600);
const REST: &str = "(other)";
/// Of a process that has no statistics block.
const UNKNOWN: &str = "unknown";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub name: String,
    pub policy: String,
}

/// None: no process of the pair tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub processes: u64,
    pub physical_bytes: u64,
    pub saved_bytes: Option<u64>,
    pub shared_bytes: Option<u64>,
    pub snapshot_bytes: Option<u64>,
    pub warm_bytes: Option<u64>,
    pub live_bytes: Option<u64>,
    pub collections: Option<u64>,
    pub collections_asked: Option<u64>,
    pub page_faults: u64,
}

#[derive(Default)]
pub struct Totals {
    pairs: BTreeMap<Pair, (Sums, Option<Instant>)>,
    /// By number and start.
    seen: HashMap<(i32, u64), Seen>,
}

/// A process's counters at the last look.
#[derive(Clone, Copy, Default)]
struct Seen {
    page_faults: u64,
    collections: u64,
    collections_asked: u64,
}

impl Totals {
    pub fn pairs(&self) -> impl Iterator<Item = (&Pair, &Sums)> {
        self.pairs.iter().map(|(pair, (sums, _))| (pair, sums))
    }

    /// All processes as they are now.
    pub fn take(&mut self, rows: &[Row], now: Instant) {
        self.pairs.retain(|_, (sums, last)| {
            *sums = sums.counters();
            last.is_none_or(|last| now.saturating_duration_since(last) < KEPT)
        });
        // Where there are too many pairs, those with most memory have one of their own.
        let mut rows: Vec<&Row> = rows.iter().collect();
        rows.sort_by_key(|row| Reverse(row.physical_bytes));
        let mut seen = HashMap::new();
        for row in rows {
            let process = (row.process, row.started);
            let before = self.seen.get(&process).copied().unwrap_or_default();
            let (sums, last) = self.pairs.entry(self.pair_of(row)).or_default();
            *last = Some(now);
            seen.insert(process, sums.add(row, before));
        }
        self.seen = seen;
    }

    fn pair_of(&self, row: &Row) -> Pair {
        let pair = Pair {
            name: plain(&row.name),
            policy: plain(row.policy.as_deref().unwrap_or(UNKNOWN)),
        };
        let rest = Pair {
            name: REST.into(),
            policy: REST.into(),
        };
        let own = self.pairs.len() - usize::from(self.pairs.contains_key(&rest));
        match own < MOST || self.pairs.contains_key(&pair) {
            true => pair,
            false => rest,
        }
    }
}

impl Sums {
    fn counters(&self) -> Self {
        Self {
            collections: self.collections,
            collections_asked: self.collections_asked,
            page_faults: self.page_faults,
            ..Self::default()
        }
    }

    fn add(&mut self, row: &Row, before: Seen) -> Seen {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.processes, 1);
        add(&mut self.physical_bytes, row.physical_bytes);
        add(
            &mut self.page_faults,
            since(before.page_faults, row.page_faults),
        );
        let mut seen = Seen {
            page_faults: row.page_faults,
            ..before
        };
        if row.policy.is_none() {
            return seen;
        }
        let add = |sum: &mut Option<u64>, more: u64| add(sum.get_or_insert(0), more);
        if let Some(saved) = row.saved_bytes {
            add(&mut self.saved_bytes, saved);
        }
        add(&mut self.shared_bytes, row.shared_bytes);
        add(&mut self.snapshot_bytes, row.snapshot_bytes);
        add(&mut self.warm_bytes, row.warm_bytes);
        add(&mut self.live_bytes, row.live_bytes);
        let (collections, asked) = (row.collections, row.collections_asked);
        add(
            &mut self.collections,
            since(before.collections, collections),
        );
        add(
            &mut self.collections_asked,
            since(before.collections_asked, asked),
        );
        seen.collections = collections;
        seen.collections_asked = asked;
        seen
    }
}

/// A counter that is less than before has begun anew: the process executed another program.
fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn row(process: i32, name: &str) -> Row {
        Row {
            process,
            name: name.into(),
            policy: Some("auto".into()),
            physical_bytes: 1_000_000,
            saved_bytes: Some(5_000_000),
            collections: 3,
            page_faults: 100,
            ..Row::default()
        }
    }

    fn of(totals: &Totals, name: &str) -> Sums {
        let mut found = totals.pairs().filter(|(pair, _)| pair.name == name);
        let sums = found.next().map(|(_, sums)| sums.clone());
        assert!(found.next().is_none(), "{name} once");
        sums.unwrap_or_default()
    }

    #[test]
    fn processes_of_one_name_and_policy_are_added_up() {
        let mut totals = Totals::default();
        let mut child = row(2, "R");
        child.saved_bytes = None;
        let mut not_told = row(3, "ruby");
        not_told.policy = None;
        totals.take(&[row(1, "R"), child, not_told], Instant::now());
        let found = of(&totals, "R");
        assert_eq!((found.processes, found.physical_bytes), (2, 2_000_000));
        assert_eq!(
            found.saved_bytes,
            Some(5_000_000),
            "of a child it is not known"
        );
        assert_eq!(found.collections, Some(6));
        let found = of(&totals, "ruby");
        assert_eq!((found.processes, found.page_faults), (1, 100));
        assert_eq!((found.saved_bytes, found.warm_bytes), (None, None));
    }

    #[test]
    fn counters_go_on_when_processes_end_or_begin_anew() {
        let mut totals = Totals::default();
        let now = Instant::now();
        totals.take(&[row(1, "R"), row(2, "R")], now);
        let mut later = row(1, "R");
        later.page_faults = 150;
        totals.take(std::slice::from_ref(&later), now);
        let found = of(&totals, "R");
        assert_eq!((found.processes, found.page_faults), (1, 250));
        // The block could not be read once; then it executed another program; then its number was used again.
        let mut unread = later.clone();
        unread.policy = None;
        totals.take(&[unread], now);
        later.collections = 4;
        totals.take(std::slice::from_ref(&later), now);
        assert_eq!(of_policy(&totals, "auto").collections, Some(7));
        later.collections = 1;
        totals.take(std::slice::from_ref(&later), now);
        assert_eq!(of_policy(&totals, "auto").collections, Some(8));
        later.started = 9;
        totals.take(&[later], now);
        assert_eq!(of_policy(&totals, "auto").page_faults, 400);
        totals.take(&[], now);
        let found = of_policy(&totals, "auto");
        assert_eq!((found.processes, found.physical_bytes), (0, 0));
        assert_eq!((found.page_faults, found.saved_bytes), (400, None));
    }

    fn of_policy(totals: &Totals, policy: &str) -> Sums {
        let mut found = totals.pairs().filter(|(pair, _)| pair.policy == policy);
        found
            .next()
            .map(|(_, sums)| sums.clone())
            .unwrap_or_default()
    }

    #[test]
    fn there_are_only_so_many_pairs_at_a_time() {
        let mut totals = Totals::default();
        let start = Instant::now();
        let rows: Vec<Row> = (0..100)
            .map(|number| Row {
                physical_bytes: number as u64,
                ..row(number, &format!("worker-{number}"))
            })
            .collect();
        totals.take(&rows, start);
        assert_eq!(totals.pairs().count(), MOST + 1);
        assert_eq!(of(&totals, REST).processes, 100 - MOST as u64);
        assert_eq!(
            of(&totals, "worker-99").processes,
            1,
            "those with most memory"
        );
        let sum: u64 = totals.pairs().map(|(_, sums)| sums.page_faults).sum();
        assert_eq!(sum, 100 * 100);
        // Places are free again when nothing had them for an hour.
        totals.take(&[row(200, "new")], start + KEPT / 2);
        assert_eq!(of(&totals, "new"), Sums::default());
        totals.take(&[row(201, "new")], start + KEPT * 2);
        assert_eq!(of(&totals, "new").processes, 1);
        assert_eq!(totals.pairs().count(), 1);
    }
}
