//! The processes under Pagewise that may be looked at, and what they are at: from the library's mappings, the statistics
//! blocks among them, and the kernel's counters.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::Serialize;

use crate::measure::process_status;
use crate::measure::process_tree::{all_processes, stat_of};
use crate::measure::sharing::private_pages_of_snapshots;
use crate::statistics_block::{Block, process_of};

/// A process may execute another program, or switch Pagewise on: mappings are looked through again after so many looks.
const LOOKS: u32 = 10;
/// Less is not worth a walk through page tables.
const WORTH_A_WALK: u64 = 1 << 20;

/// One process under Pagewise, now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    pub process: i32,
    /// When it was started, in the kernel's ticks: numbers are used again.
    #[serde(skip)]
    pub started: u64,
    pub name: String,
    pub command: String,
    /// None, and 0 below, where there is no statistics block.
    pub policy: Option<String>,
    /// Anonymous pages, files' pages, snapshots and pages of the hugetlb pool.
    pub physical_bytes: u64,
    /// What its vectors would take more if they shared no pages. None of a fork's child: it shares with its parent.
    pub saved_bytes: Option<u64>,
    pub shared_bytes: u64,
    pub snapshot_bytes: u64,
    pub warm_bytes: u64,
    pub live_bytes: u64,
    pub collections: u64,
    pub collections_asked: u64,
    pub page_faults: u64,
}

/// Under Pagewise, with a statistics block or without.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Unknown,
}

#[derive(Default)]
pub struct Observer {
    /// By number and start, since numbers are used again. None: not under Pagewise.
    known: HashMap<(i32, u64), Option<Source>>,
    looks: u32,
}

impl Observer {
    pub fn look(&mut self) -> Vec<Row> {
        if self.looks.is_multiple_of(LOOKS) {
            self.known.clear();
        }
        self.looks += 1;
        let present: Vec<(i32, u64)> = own_processes();
        self.known.retain(|one, _| present.contains(one));
        let mut rows = Vec::new();
        for one in present {
            let found = self.known.entry(one).or_insert_with(|| examine(one.0));
            if let Some(block) = found {
                rows.extend(row(one.0, block));
            }
        }
        rows
    }
}

/// Of this user; root may look at everybody's.
fn own_processes() -> Vec<(i32, u64)> {
    let user = nix::unistd::geteuid();
    let is_own = |process: &i32| {
        let owner = fs::metadata(format!("/proc/{process}")).map(|file| file.uid());
        user.is_root() || owner.is_ok_and(|owner| owner == user.as_raw())
    };
    let own = all_processes()
        .unwrap_or_default()
        .into_iter()
        .filter(is_own);
    own.filter_map(|process| Some((process, stat_of(process)?.starttime)))
        .collect()
}

/// None: not under Pagewise, or it may not be looked at.
fn examine(process: i32) -> Option<Source> {
    let maps = fs::read(format!("/proc/{process}/maps")).ok()?;
    of_maps(process, &String::from_utf8_lossy(&maps))
}

fn of_maps(process: i32, maps: &str) -> Option<Source> {
    let mut is_loaded = false;
    for line in maps.lines() {
        let Some(start) = line.find('/') else {
            continue;
        };
        let path = &line[start..];
        if process_of(path.as_ref()) == Some(process) {
            return Some(Source::File(path.into()));
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        is_loaded |= name.starts_with("libpagewise") && !name.starts_with("libpagewise-record");
    }
    is_loaded.then_some(Source::Unknown)
}

/// None: it has ended meanwhile.
fn row(process: i32, block: &Source) -> Option<Row> {
    let status = process_status::read(process).ok()?;
    let stat = stat_of(process)?;
    let mut row = Row {
        process,
        started: stat.starttime,
        name: process_status::name_of(process),
        command: command_of(process),
        physical_bytes: status.resident() - status.shmem_bytes,
        page_faults: stat.minflt + stat.majflt,
        ..Row::default()
    };
    if let Source::File(path) = block
        && let Some(block) = read_block(process, path)
    {
        fill(&mut row, &block);
    }
    Some(row)
}

fn command_of(process: i32) -> String {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&words);
    text.trim_end_matches('\0').replace('\0', " ")
}

/// In a container the path is that of its own root.
fn read_block(process: i32, path: &std::path::Path) -> Option<Block> {
    let inside = PathBuf::from(format!("/proc/{process}/root")).join(path.strip_prefix("/").ok()?);
    Block::read(&inside).or_else(|| Block::read(path))
}

fn fill(row: &mut Row, block: &Block) {
    row.policy = Some(block.policy.clone());
    row.shared_bytes = block.get("shared_bytes");
    row.snapshot_bytes = block.get("snapshot_bytes");
    row.warm_bytes = block.get("cached_bytes");
    row.live_bytes = block.get("live_bytes");
    row.collections = block.get("collections_seen");
    row.collections_asked = block.get("collections_asked");
    row.physical_bytes = row.physical_bytes.saturating_add(row.snapshot_bytes);
    if block.get("forks_seen") == 0 {
        let written = match row.shared_bytes >= WORTH_A_WALK {
            true => written(row.process),
            false => 0,
        };
        let kept = row.snapshot_bytes.saturating_add(written);
        row.saved_bytes = Some(row.shared_bytes.saturating_sub(kept));
    }
}

fn written(process: i32) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default();
    private_pages_of_snapshots(&smaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics_block::tests::bytes;

    #[test]
    fn a_process_is_known_by_its_mappings() {
        let library = "7f-8f r-xp 0 08:01 5   /usr/lib/libpagewise-preload.so\n";
        let block = "8f-9f rw-s 0 00:01 6   /dev/shm/pagewise-x/pagewise-77.stats\n";
        assert_eq!(of_maps(77, "0-1 r-xp 0 08:01 5 /bin/true\n"), None);
        assert_eq!(of_maps(77, library), Some(Source::Unknown));
        let recorder = library.replace("preload", "record");
        assert_eq!(of_maps(77, &recorder), None);
        let both = format!("{library}{block}");
        let expected = PathBuf::from("/dev/shm/pagewise-x/pagewise-77.stats");
        assert_eq!(of_maps(77, &both), Some(Source::File(expected)));
        assert_eq!(of_maps(78, &both), Some(Source::Unknown), "its parent's");
    }

    #[test]
    fn figures_are_the_blocks() {
        let values = [
            ("shared_bytes", 900_000),
            ("snapshot_bytes", 100_000),
            ("cached_bytes", 7),
            ("collections_seen", 3),
        ];
        let mut row = Row::default();
        fill(&mut row, &Block::parse(&bytes(&values)).expect("block"));
        assert_eq!(row.saved_bytes, Some(800_000));
        assert_eq!((row.warm_bytes, row.collections), (7, 3));
        assert_eq!(row.physical_bytes, 100_000);
        let mut child = Row::default();
        let forked = [values[0], ("forks_seen", 1)];
        fill(&mut child, &Block::parse(&bytes(&forked)).expect("block"));
        assert_eq!(child.saved_bytes, None);
        // Whoever runs under the library may write anything into the block.
        let mut hostile = Row {
            physical_bytes: 1,
            ..Row::default()
        };
        let most = [("shared_bytes", u64::MAX), ("snapshot_bytes", u64::MAX)];
        fill(&mut hostile, &Block::parse(&bytes(&most)).expect("block"));
        assert_eq!(hostile.saved_bytes, Some(0));
    }
}
