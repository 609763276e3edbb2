//! Cheap counters that tell between two samples whether memory is growing past its peak.
//!
//! They only say when to look: every figure that is reported is a count of pages.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::page_map::page_size;

/// The counters of the processes and snapshot files that the last sample saw.
#[derive(Default)]
pub struct Watch {
    counters: Vec<File>,
    snapshots: Vec<PathBuf>,
}

impl Watch {
    pub fn on(processes: &[i32], snapshots: Vec<PathBuf>) -> Self {
        let mut seen = HashSet::new();
        Self {
            counters: processes
                .iter()
                .filter_map(|process| File::open(format!("/proc/{process}/statm")).ok())
                .collect(),
            snapshots: snapshots
                .into_iter()
                .filter(|path| fs::metadata(path).is_ok_and(|file| seen.insert(file.st_ino())))
                .collect(),
        }
    }

    /// Anonymous memory and snapshots in bytes. Shared pages may be counted more than once, so only
    /// differences mean anything.
    pub fn read(&self) -> u64 {
        let anonymous: u64 = self.counters.iter().filter_map(anonymous_pages).sum();
        let snapshots = self
            .snapshots
            .iter()
            .filter_map(|path| fs::metadata(path).ok());
        anonymous * page_size() + snapshots.map(|file| file.st_blocks() * 512).sum::<u64>()
    }
}

fn anonymous_pages(statm: &File) -> Option<u64> {
    let mut buffer = [0; 128];
    let length = statm.read_at(&mut buffer, 0).ok()?;
    parse(std::str::from_utf8(&buffer[..length]).ok()?)
}

/// Resident less shared: the second and third number.
fn parse(statm: &str) -> Option<u64> {
    let mut numbers = statm
        .split_ascii_whitespace()
        .skip(1)
        .map(str::parse::<u64>);
    let (resident, shared) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(resident.saturating_sub(shared))
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
        let watch = Watch::on(&[own], Vec::new());
        let before = watch.read();
        let block = vec![1_u8; 32 << 20];
        let grown = watch.read() - before;
        assert!(grown > 30 << 20 && grown < 40 << 20, "{grown} {}", block[5]);
        assert_eq!(parse("9 8 3 1 0 5 0\n"), Some(5));
        assert_eq!(parse("9"), None);
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
