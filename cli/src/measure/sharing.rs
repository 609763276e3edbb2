//! What the run would take if its copies shared no pages: an estimate, from the statistics blocks while it runs.
//!
//! A block says how large the vectors are that are mapped onto snapshots (shared), and what the snapshots hold. Which
//! of these pages were written since, and so became the vector's own, the kernel knows: private pages of mappings of
//! snapshots. That takes a walk through page tables, so it is asked seldom, and in between the last answer's share
//! holds: not for twice as many pages, of which it may know nothing.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::allowance::{Allowance, thread_cpu_time};
use super::page_map::page_size;
use super::process_status::kilobytes;
use super::snapshot::FILE_NAME;
use crate::statistics_block::{Block, process_of};

/// Blocks of new processes are looked for this often.
const SEARCH: Duration = Duration::from_millis(200);
/// A folder that last changed so long ago was listed whole.
const SETTLED: Duration = Duration::from_millis(100);
/// Looks at page tables: a share of a core, what a run may use up at once, and how far apart.
const WALKS_SHARE: f64 = 0.001;
const WALKS_AT_ONCE: Duration = Duration::from_millis(5);
const WALKS_REST: Duration = Duration::from_millis(50);
/// What a walk takes for a page, about. It takes no less than the last one: every mapping is told of.
const NANOSECONDS_A_PAGE: u64 = 20;
/// So much more than at the last walk is worth one that has not been earned.
const WORTH_A_WALK: u64 = 32 << 20;
/// Less is not worth a look.
const WORTH_TELLING: u64 = 1 << 20;
const LARGEST_BLOCK: usize = 4096;

pub struct Sharing {
    folder: PathBuf,
    blocks: HashMap<i32, File>,
    searched: Option<Instant>,
    /// When something in the folder last came or went.
    changed: Option<SystemTime>,
    walks: Allowance,
    walked: Option<Instant>,
    /// What the last walk took.
    walk_took: Duration,
    /// What was shared at the last walk, in bytes.
    walked_bytes: u64,
    /// Of shared pages, those that were written: what the last walk found.
    written_share: f64,
}

/// Of all processes that are no fork's child: a child has its parent's vectors, which it shares with it under plain too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shared {
    mapped: u64,
    snapshots: u64,
}

impl Sharing {
    pub fn new(folder: &Path, started: Instant) -> Self {
        Self {
            folder: folder.into(),
            blocks: HashMap::new(),
            searched: None,
            changed: None,
            walks: Allowance::new(started, WALKS_AT_ONCE, WALKS_SHARE),
            walked: None,
            walk_took: Duration::ZERO,
            walked_bytes: 0,
            written_share: 0.0,
        }
    }

    /// CPU time of walks, which have an allowance of their own.
    pub fn spent_on_walks(&self) -> Duration {
        self.walks.spent()
    }

    /// Bytes that these processes would have more without shared pages.
    pub fn saved(&mut self, processes: &[i32]) -> u64 {
        if self.searched.is_none_or(|at| at.elapsed() >= SEARCH) {
            self.search();
        }
        let shared = self.read(processes);
        if shared.mapped < WORTH_TELLING {
            return 0;
        }
        if self.may_walk(shared.mapped) {
            self.walk(processes, shared.mapped);
        }
        let written = (shared.mapped as f64 * self.written_share) as u64;
        let kept = written.saturating_add(shared.snapshots);
        shared.mapped.saturating_sub(kept)
    }

    /// A process that executes another program has a new block: the one with the highest name.
    fn search(&mut self) {
        self.searched = Some(Instant::now());
        let changed = fs::metadata(&self.folder).and_then(|folder| folder.modified());
        let changed = changed.ok();
        if changed.is_some() && changed == self.changed {
            return;
        }
        // A folder's time is no finer than the kernel's clock: more may come at the same time.
        self.changed = changed.filter(|at| at.elapsed().is_ok_and(|age| age >= SETTLED));
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        // "pagewise-7.stats", ".1.stats", ".2.stats" and, longer, ".10.stats".
        found.sort_by_cached_key(|path| (path.as_os_str().len(), path.clone()));
        self.blocks.clear();
        for path in found {
            let is_file = fs::symlink_metadata(&path).is_ok_and(|one| one.is_file());
            if let (Some(process), true) = (process_of(&path), is_file)
                && let Ok(file) = File::open(&path)
            {
                self.blocks.insert(process, file);
            }
        }
    }

    fn read(&self, processes: &[i32]) -> Shared {
        let mut sum = Shared::default();
        let mut buffer = [0; LARGEST_BLOCK];
        for file in processes.iter().filter_map(|one| self.blocks.get(one)) {
            let length = file.read_at(&mut buffer, 0).unwrap_or(0);
            let Ok(block) = Block::parse(&buffer[..length]) else {
                continue;
            };
            if block.get("forks_seen") == 0 {
                sum.mapped = sum.mapped.saturating_add(block.get("shared_bytes"));
                sum.snapshots = sum.snapshots.saturating_add(block.get("snapshot_bytes"));
            }
        }
        sum
    }

    /// Much more than at the last walk need not have been earned: it doubles each time, so this is seldom.
    fn may_walk(&self, bytes: u64) -> bool {
        let cost =
            Duration::from_nanos(bytes / page_size() * NANOSECONDS_A_PAGE).max(self.walk_took);
        let has_rested = self.walked.is_none_or(|at| at.elapsed() >= WALKS_REST);
        let is_much_more = bytes / 2 >= self.walked_bytes && bytes >= WORTH_A_WALK;
        has_rested && (is_much_more || self.walks.rest_before(cost).is_zero())
    }

    fn walk(&mut self, processes: &[i32], mapped: u64) {
        self.walked = Some(Instant::now());
        self.walked_bytes = mapped;
        let before = thread_cpu_time();
        let with_block = processes.iter().filter(|one| self.blocks.contains_key(one));
        let maps =
            with_block.filter_map(|one| fs::read_to_string(format!("/proc/{one}/smaps")).ok());
        let written: u64 = maps.map(|smaps| private_pages_of_snapshots(&smaps)).sum();
        self.walk_took = thread_cpu_time().saturating_sub(before);
        self.walks.spend(self.walk_took);
        self.written_share = (written as f64 / mapped as f64).min(1.0);
    }
}

/// In bytes, in memory or swapped out.
pub fn private_pages_of_snapshots(smaps: &str) -> u64 {
    let mut is_snapshot = false;
    let mut sum = 0;
    for line in smaps.lines() {
        match line.split_once(':') {
            Some(("Anonymous" | "Swap", value)) if is_snapshot => {
                sum += kilobytes(value).unwrap_or(0);
            }
            // A field's name is one word; a mapping begins with its addresses.
            Some((name, _)) if !name.contains(' ') => {}
            _ => is_snapshot = line.contains(FILE_NAME),
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics_block::tests::bytes;

    #[test]
    fn private_pages_of_snapshots_are_found_among_others() {
        let smaps = "7f00-7f10 rw-p 00000000 00:01 9 /memfd:pagewise-snapshots (deleted)\nRss: 8 kB\nAnonymous:  12 kB\nSwap: 4 kB\nVmFlags: rd wr\n\
                     7f10-7f20 rw-p 00000000 00:00 0 \nAnonymous: 400 kB\n\
                     7f20-7f30 rw-p 00004000 00:01 9 /memfd:pagewise-snapshots (deleted)\nAnonymous: 8 kB\n";
        assert_eq!(private_pages_of_snapshots(smaps), 24 << 10);
        assert_eq!(private_pages_of_snapshots(""), 0);
    }

    #[test]
    fn an_early_walk_does_not_stand_for_what_is_shared_later() {
        let mut sharing = Sharing::new(Path::new("/nowhere"), Instant::now());
        sharing.walk(&[], 100 << 20);
        sharing.walks.spend(Duration::from_secs(60));
        let long_ago = Instant::now().checked_sub(2 * WALKS_REST);
        assert!(long_ago.is_some(), "the machine has just been started");
        sharing.walked = long_ago;
        assert!(!sharing.may_walk(150 << 20));
        assert!(sharing.may_walk(200 << 20));
        sharing.walk(&[], 200 << 20);
        assert!(!sharing.may_walk(800 << 20), "without a rest");
    }

    #[test]
    fn absurd_figures_of_a_block_save_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let most = [("shared_bytes", u64::MAX), ("snapshot_bytes", u64::MAX)];
        let block = folder.path().join("pagewise-900000001.stats");
        fs::write(block, bytes(&most)).expect("block");
        let mut sharing = Sharing::new(folder.path(), Instant::now());
        sharing.walked = Some(Instant::now());
        sharing.written_share = 1.0;
        assert_eq!(sharing.saved(&[900_000_001]), 0);
    }

    #[test]
    fn a_walk_takes_no_less_than_the_last_one() {
        let mut sharing = Sharing::new(Path::new("/nowhere"), Instant::now());
        assert!(sharing.may_walk(WORTH_TELLING));
        sharing.walk_took = Duration::from_secs(1);
        assert!(!sharing.may_walk(WORTH_TELLING), "of many mappings");
        assert!(sharing.may_walk(WORTH_A_WALK), "worth it all the same");
    }

    #[test]
    fn a_forks_child_does_not_save_its_parents_pages_again() {
        let folder = tempfile::tempdir().expect("folder");
        let write = |name: &str, values: &[(&str, u64)]| {
            fs::write(folder.path().join(name), bytes(values)).expect("block");
        };
        // No process has such a number: nothing is found written.
        let shared = [("shared_bytes", 100 << 20), ("snapshot_bytes", 10 << 20)];
        write("pagewise-900000001.stats", &shared);
        write(
            "pagewise-900000002.stats",
            &[shared[0], shared[1], ("forks_seen", 1)],
        );
        write("pagewise-900000003.stats", &shared);
        write("other.stats", &shared);
        let mut sharing = Sharing::new(folder.path(), Instant::now());
        assert_eq!(sharing.saved(&[900_000_001, 900_000_002]), 90 << 20);
        assert_eq!(sharing.saved(&[900_000_002]), 0);
        // What it has become by executing another program counts, not what it was.
        for number in (1..=10).rev() {
            let bytes = if number == 10 { 0 } else { 100 << 20 };
            let name = format!("pagewise-900000003.{number}.stats");
            write(&name, &[("shared_bytes", bytes)]);
        }
        sharing.search();
        assert_eq!(sharing.saved(&[900_000_003]), 0);
        assert_eq!(
            Sharing::new(Path::new("/nowhere"), Instant::now()).saved(&[1]),
            0
        );
    }
}
