//! The statistics block that the library leaves for each process; its layout is in core/include/pagewise.h.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"PAGEWISE";
const VERSION: u32 = 1;
const POLICY: std::ops::Range<usize> = 24..40;
const HEADER: usize = 40;
/// No block is larger; a file that is was not written by the library.
const LARGEST_FILE: u64 = 1 << 20;

/// PW_STATISTICS_FIELDS, in order. A test compares this list with the header.
pub const FIELDS: &[&str] = &[
    "live_bytes",
    "peak_live_bytes",
    "shared_bytes",
    "snapshot_bytes",
    "peak_snapshot_bytes",
    "cached_bytes",
    "huge_bytes",
    "bookkeeping_bytes",
    "blocks_allocated",
    "blocks_freed",
    "allocated_warm",
    "allocated_mixed",
    "allocated_fresh",
    "gathered_bytes",
    "purges",
    "purged_bytes",
    "decayed_bytes",
    "pressure_releases",
    "copies_seen",
    "copies_shared",
    "shared_copy_bytes",
    "copies_plain_warm",
    "copies_plain_predicted",
    "copies_plain_dirty",
    "copies_plain_shape",
    "copies_plain_module",
    "copies_plain_fallback",
    "publishes",
    "published_bytes",
    "private_copy_bytes",
    "predictor_hits",
    "predictor_misses",
    "snapshots_live",
    "arenas_live",
    "punched_bytes",
    "sole_owner_bytes",
    "lazy_zero_bytes",
    "zero_scans",
    "zero_pages_checked",
    "zero_pages_found",
    "zero_reclaimed_bytes",
    "collections_seen",
    "forks_seen",
    "fallback_arena",
    "fallback_memfd",
    "fallback_file_size",
    "fallback_write",
    "fallback_map",
    "fallback_map_count",
    "fallback_pagemap",
    "fallback_pagemap_scan",
    "fallback_epochs",
    "fallback_descriptor",
    "fallback_threads",
    "fallback_move",
    "fallback_discard",
    "fallback_table",
    "fallback_keeper",
    "collections_asked",
    "collections_asked_bytes",
    "hugetlb_bytes",
    "fallback_hugetlb",
    "fallback_lock",
    "mmapcopy_used",
    "copies_by_mmapcopy",
    "fallback_mmapcopy",
    "segments_taken",
    "segments_returned",
    "segment_idle_bytes",
    "fallback_general",
    "copies_plain_brief",
    "blocks_altered",
    "fallback_allocator",
    "fallback_fork",
    "programs_left_plain",
    "fallback_seccomp",
    "frozen_nodes",
    "freezes",
    "thaws",
    "fallback_freeze",
    "fallback_written",
    "fallback_page_size",
];

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    #[error("it is shorter than a statistics block")]
    Truncated,
    #[error("it does not begin with PAGEWISE")]
    Magic,
    #[error("its version is {0}, this command knows version {VERSION}")]
    Version(u32),
}

/// One process's block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub policy: String,
    values: Vec<u64>,
}

impl Block {
    pub fn get(&self, name: &str) -> u64 {
        value_of(&self.values, name)
    }

    /// Of a regular file: others may have put anything in its place, and a pipe would be waited for.
    pub fn read(path: &Path) -> Option<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > LARGEST_FILE {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST_FILE).read_to_end(&mut bytes).ok()?;
        Self::parse(&bytes).ok()
    }

    /// Fields that a newer library has appended are ignored; those that an older one lacks are 0.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.get(..8).ok_or(Malformed::Truncated)? != MAGIC {
            return Err(Malformed::Magic);
        }
        let version = word32(bytes, 8).ok_or(Malformed::Truncated)?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let size = word32(bytes, 12).ok_or(Malformed::Truncated)? as usize;
        let block = bytes.get(..size).ok_or(Malformed::Truncated)?;
        let policy = block.get(POLICY).ok_or(Malformed::Truncated)?;
        let values = (0..FIELDS.len())
            .map(|index| word64(block, HEADER + 8 * index).unwrap_or(0))
            .collect();
        Ok(Self {
            policy: String::from_utf8_lossy(policy)
                .trim_end_matches('\0')
                .to_owned(),
            values,
        })
    }
}

fn value_of(values: &[u64], name: &str) -> u64 {
    let place = FIELDS.iter().position(|field| *field == name);
    place
        .and_then(|index| values.get(index).copied())
        .unwrap_or(0)
}

/// Whose block a file is: pagewise-PID.stats, or pagewise-PID.N.stats.
pub fn process_of(path: &Path) -> Option<i32> {
    let name = path.file_name()?.to_str()?;
    let middle = name.strip_prefix("pagewise-")?.strip_suffix(".stats")?;
    middle.split('.').next()?.parse().ok()
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    word.try_into().ok().map(u32::from_le_bytes)
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    word.try_into().ok().map(u64::from_le_bytes)
}

/// The blocks of all processes of a run, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    values: Vec<u64>,
    /// Blocks that were read.
    pub processes: u64,
    /// Files that were not statistics blocks.
    pub unreadable: u64,
    /// Why no process could leave its block, where that is known.
    pub refused: Option<io::ErrorKind>,
}

impl Statistics {
    /// Reads every pagewise-*.stats in a folder.
    pub fn read_folder(folder: &Path) -> io::Result<Self> {
        let mut sum = Self::default();
        for entry in fs::read_dir(folder)?.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("pagewise-") && name.ends_with(".stats") {
                sum.add_file(&entry.path());
            }
        }
        Ok(sum)
    }

    fn add_file(&mut self, path: &Path) {
        match Block::read(path) {
            Some(block) => self.add(&block),
            None => self.unreadable += 1,
        }
    }

    fn add(&mut self, block: &Block) {
        self.values.resize(FIELDS.len(), 0);
        for (sum, value) in self.values.iter_mut().zip(&block.values) {
            *sum = sum.saturating_add(*value);
        }
        self.processes += 1;
    }

    /// The mean of several runs, rounded.
    pub fn mean(runs: &[Self]) -> Self {
        let mean = |of: &dyn Fn(&Self) -> u64| {
            let sum: u128 = runs.iter().map(|run| u128::from(of(run))).sum();
            u64::try_from(sum / runs.len().max(1) as u128).unwrap_or(u64::MAX)
        };
        Self {
            values: (0..FIELDS.len())
                .map(|index| mean(&|run| run.values.get(index).copied().unwrap_or(0)))
                .collect(),
            processes: mean(&|run| run.processes),
            unreadable: mean(&|run| run.unreadable),
            refused: runs.iter().find_map(|run| run.refused),
        }
    }

    pub fn get(&self, name: &str) -> u64 {
        value_of(&self.values, name)
    }
}

impl Serialize for Statistics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("processes", &self.processes)?;
        map.serialize_entry("unreadable_blocks", &self.unreadable)?;
        for name in FIELDS {
            map.serialize_entry(name, &self.get(name))?;
        }
        map.end()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A block as the library writes it.
    pub fn bytes(values: &[(&str, u64)]) -> Vec<u8> {
        let size = HEADER + 8 * FIELDS.len();
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((size as u32).to_le_bytes());
        bytes.extend(77_u64.to_le_bytes());
        bytes.extend(b"auto\0\0\0\0\0\0\0\0\0\0\0\0");
        for field in FIELDS {
            let value = values.iter().find(|(name, _)| name == field);
            bytes.extend(value.map_or(0, |(_, value)| *value).to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_field_list_is_the_headers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/include/pagewise.h");
        let header = fs::read_to_string(path).expect("core/include/pagewise.h");
        let list = header
            .split("#define PW_STATISTICS_FIELDS(X)")
            .nth(1)
            .and_then(|rest| rest.split("struct pw_statistics").next())
            .expect("PW_STATISTICS_FIELDS");
        let names: Vec<&str> = list
            .split("X(")
            .skip(1)
            .filter_map(|part| part.split(',').next())
            .collect();
        assert_eq!(names, FIELDS);
        assert!(header.contains(&format!("PW_STATISTICS_VERSION {VERSION}u")));
    }

    #[test]
    fn reads_what_the_library_writes() {
        let block = Block::parse(&bytes(&[("copies_shared", 3)])).expect("block");
        assert_eq!(block.policy, "auto");
        let mut sum = Statistics::default();
        sum.add(&block);
        sum.add(&block);
        assert_eq!((sum.get("copies_shared"), sum.processes), (6, 2));
        assert_eq!(sum.get("no_such_field"), 0);
    }

    #[test]
    fn newer_and_older_blocks_are_read() {
        let mut newer = bytes(&[("live_bytes", 5)]);
        newer.extend([9; 16]);
        let size = newer.len() as u32;
        newer[12..16].copy_from_slice(&size.to_le_bytes());
        assert_eq!(Block::parse(&newer).expect("newer").values[0], 5);

        let mut older = bytes(&[("live_bytes", 5)]);
        older.truncate(HEADER + 8);
        older[12..16].copy_from_slice(&(HEADER as u32 + 8).to_le_bytes());
        assert_eq!(Block::parse(&older).expect("older").values[..2], [5, 0]);
    }

    #[test]
    fn hostile_blocks_are_refused() {
        assert_eq!(Block::parse(b""), Err(Malformed::Truncated));
        assert_eq!(Block::parse(b"PAGEWISE"), Err(Malformed::Truncated));
        assert_eq!(Block::parse(&[0; 600]), Err(Malformed::Magic));
        let good = bytes(&[]);
        assert_eq!(Block::parse(&good[..100]), Err(Malformed::Truncated));
        let mut huge = good.clone();
        huge[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Block::parse(&huge), Err(Malformed::Truncated));
        let mut tiny = good.clone();
        tiny[12..16].copy_from_slice(&8_u32.to_le_bytes());
        assert_eq!(Block::parse(&tiny), Err(Malformed::Truncated));
        let mut other = good;
        other[8] = 9;
        assert_eq!(Block::parse(&other), Err(Malformed::Version(9)));
    }

    #[test]
    fn a_folder_with_strangers_in_it() {
        let folder = tempfile::tempdir().expect("folder");
        let file = |name: &str| folder.path().join(name);
        fs::write(file("pagewise-1.stats"), bytes(&[("publishes", 2)])).expect("file");
        fs::write(file("pagewise-1.2.stats"), bytes(&[("publishes", 1)])).expect("file");
        fs::write(file("pagewise-2.stats"), "short").expect("file");
        fs::write(file("other.stats"), "ignored").expect("file");
        std::os::unix::fs::symlink("/dev/zero", file("pagewise-3.stats")).expect("link");
        nix::unistd::mkfifo(&file("pagewise-4.stats"), nix::sys::stat::Mode::S_IRWXU)
            .expect("pipe");
        let sum = Statistics::read_folder(folder.path()).expect("folder");
        assert_eq!((sum.processes, sum.unreadable), (2, 3));
        assert_eq!(sum.get("publishes"), 3);
    }

    #[test]
    fn counters_saturate() {
        let block = Block::parse(&bytes(&[("live_bytes", u64::MAX)])).expect("block");
        let mut sum = Statistics::default();
        sum.add(&block);
        sum.add(&block);
        assert_eq!(sum.get("live_bytes"), u64::MAX);
        let mean = Statistics::mean(&[sum.clone(), sum]);
        assert_eq!(mean.get("live_bytes"), u64::MAX);
    }
}
