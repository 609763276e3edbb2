//! Cheap counters that tell between two samples how memory moves.
//!
//! A count of frames takes long in a large process, and memory that lives shorter would be missed:
//! more of it in a fast program than in a slow one. So the last count is carried on by what the
//! kernel's own counters changed since: anonymous pages of the process, and pages of its snapshots.
//! That is exact as long as no anonymous page is mapped twice, so it is done for a tree of one process
//! without page merging; other trees are only counted more often when they seem to grow.

use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;

use super::page_map::page_size;
use super::process_status;
use super::snapshot::{self, Inode};

/// The counters of the processes and snapshot files that the last sample saw.
#[derive(Default)]
pub struct Watch {
    processes: Vec<i32>,
    counters: Vec<File>,
    snapshots: Vec<(Inode, PathBuf)>,
}

impl Watch {
    pub fn on(processes: &[i32]) -> Self {
        let mut watch = Self {
            processes: processes.to_vec(),
            counters: processes
                .iter()
                .filter_map(|process| File::open(format!("/proc/{process}/statm")).ok())
                .collect(),
            snapshots: Vec::new(),
        };
        watch.look_for_snapshots();
        watch
    }

    /// Snapshot files may have been opened or closed since the last look: true when they were.
    pub fn look_for_snapshots(&mut self) -> bool {
        let found = snapshot::files(self.processes.iter().copied());
        let inodes = |files: &[(Inode, PathBuf)]| files.iter().map(|f| f.0).collect::<Vec<_>>();
        let has_changed = inodes(&found) != inodes(&self.snapshots);
        self.snapshots = found;
        has_changed
    }

    /// Do the counters tell how many frames there are, given an earlier count?
    pub fn is_exact(&self) -> bool {
        self.processes.len() == 1 && !pages_are_being_merged()
    }

    /// Anonymous memory and snapshots in bytes. Shared pages may be counted more than once, so only
    /// differences mean anything.
    pub fn read(&self) -> u64 {
        let anonymous: u64 = self.counters.iter().filter_map(anonymous_pages).sum();
        let snapshots = self
            .snapshots
            .iter()
            .filter_map(|(_, path)| fs::metadata(path).ok());
        anonymous * page_size() + snapshots.map(|file| file.st_blocks() * 512).sum::<u64>()
    }
}

/// The kernel's page merging (KSM) maps anonymous pages more than once.
fn pages_are_being_merged() -> bool {
    fs::read_to_string("/sys/kernel/mm/ksm/run").is_ok_and(|run| run.trim() == "1")
}

fn anonymous_pages(statm: &File) -> Option<u64> {
    let (resident, shared) = process_status::resident_and_shared(statm)?;
    Some(resident.saturating_sub(shared))
}

/// A count of frames, and how the counters stood meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    processes: Vec<i32>,
    counters: u64,
    bytes: u64,
}

impl Baseline {
    /// None when memory moved so much during the count that it belongs to no one moment.
    pub fn after_sample(processes: &[i32], before: u64, after: u64, bytes: u64) -> Option<Self> {
        let is_still = before.abs_diff(after) <= before / 200 && after > 0;
        is_still.then(|| Self {
            processes: processes.to_vec(),
            counters: before.midpoint(after),
            bytes,
        })
    }

    /// The new one, or else the last one as long as the processes are the same.
    pub fn better(new: Option<Self>, last: Option<Self>, processes: &[i32]) -> Option<Self> {
        new.or_else(|| last.filter(|last| last.processes == processes))
    }

    /// What there is now, judging by the counters. None when the process is gone.
    pub fn carried_on(&self, counters: u64) -> Option<u64> {
        (counters > 0).then(|| (self.bytes + counters).saturating_sub(self.counters))
    }
}

/// Decides when a new peak is worth an extra sample.
#[derive(Debug)]
pub struct PeakHunt {
    at_sample: u64,
    last: u64,
    sampled_bytes: u64,
}

impl PeakHunt {
    /// `counters` as they stood when a sample found `bytes`.
    pub fn from_sample(counters: u64, bytes: u64) -> Self {
        Self {
            at_sample: counters,
            last: counters,
            sampled_bytes: bytes,
        }
    }

    /// A new peak is looked at when growth pauses, or when it has come far.
    pub fn is_new_peak(&mut self, counters: u64, peak: u64) -> bool {
        let grown = counters.saturating_sub(self.at_sample);
        let expected = self.sampled_bytes + grown;
        let has_paused = counters <= self.last + self.last / 500;
        self.last = counters;
        (has_paused && expected > peak + peak / 100) || expected > peak + peak / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_memory() {
        let own = std::process::id() as i32;
        let watch = Watch::on(&[own]);
        let before = watch.read();
        let block = vec![1_u8; 32 << 20];
        let grown = watch.read() - before;
        assert!(grown > 30 << 20 && grown < 40 << 20, "{grown} {}", block[5]);
    }

    #[test]
    fn a_count_is_carried_on_while_it_belongs_to_the_same_processes() {
        let still = Baseline::after_sample(&[7], 1000, 1004, 5000);
        assert_eq!(still.as_ref().and_then(|b| b.carried_on(1102)), Some(5100));
        assert_eq!(
            still.as_ref().and_then(|b| b.carried_on(0)),
            None,
            "it ended"
        );
        let moving = Baseline::after_sample(&[7], 1000, 1200, 9000);
        assert_eq!(moving, None);
        assert_eq!(Baseline::better(moving.clone(), still.clone(), &[7]), still);
        assert_eq!(Baseline::better(moving, still, &[7, 8]), None);
    }

    #[test]
    fn a_peak_is_looked_at_when_growth_pauses() {
        let mut hunt = PeakHunt::from_sample(1000, 1000);
        assert!(!hunt.is_new_peak(1000, 1000));
        assert!(!hunt.is_new_peak(1060, 1000), "still growing");
        assert!(hunt.is_new_peak(1060, 1000), "paused above the peak");
        assert!(!hunt.is_new_peak(1060, 1060), "it is known now");
        assert!(hunt.is_new_peak(1300, 1060), "far above the peak");
    }
}
