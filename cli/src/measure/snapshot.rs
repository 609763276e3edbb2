//! Snapshot files of the library. A page of such a file is memory whether or not a process maps it.

use std::collections::HashMap;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::page_map::page_size;

pub const FILE_NAME: &str = "/memfd:pagewise-snapshots";
/// How names of shared memory begin in /proc/PID/maps.
const SHARED_MEMORY: [&str; 4] = [" /memfd:", " /dev/shm/", " /SYSV", " /dev/zero"];
/// Descriptors of a process are looked through again after this many samples.
const LOOK_AGAIN: u32 = 8;

/// Identity of a snapshot file. All memfds live on one kernel mount, so the inode tells them apart;
/// the device number is left out because maps and stat may print it differently.
pub type Inode = u64;

/// Part of a process's address space that maps a snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub inode: Inode,
}

/// Mappings of snapshot files among the lines of /proc/PID/maps, in address order.
pub fn mappings(maps: &[u8]) -> Vec<SnapshotMapping> {
    memmem::find_iter(maps, FILE_NAME)
        .filter_map(|position| parse_line(line_before(maps, position)))
        .collect()
}

fn line_before(maps: &[u8], position: usize) -> &[u8] {
    let start = memchr::memrchr(b'\n', &maps[..position]).map_or(0, |newline| newline + 1);
    &maps[start..position]
}

/// "start-end perms offset device inode".
fn parse_line(line: &[u8]) -> Option<SnapshotMapping> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let inode = words.nth(1)?;
    Some(SnapshotMapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
    })
}

/// End of the highest mapping in the user half of the address space.
pub fn end_of_mappings(maps: &[u8]) -> u64 {
    maps.split(|&byte| byte == b'\n')
        .rev()
        .filter_map(|line| {
            let range = std::str::from_utf8(line.split(|&b| b == b' ').next()?).ok()?;
            u64::from_str_radix(range.split_once('-')?.1, 16).ok()
        })
        .find(|&end| end < 1 << 63)
        .unwrap_or(0)
}

/// Address space of a process for shared memory that is none of ours, known by its names: at most so much is in its page
/// tables.
pub fn other_shared_memory(process: i32) -> u64 {
    fs::read(format!("/proc/{process}/maps")).map_or(0, |maps| other_mappings(&maps))
}

fn other_mappings(maps: &[u8]) -> u64 {
    maps.split(|&byte| byte == b'\n')
        .filter(|line| {
            let is_named = |name: &&str| memmem::find(line, name.as_bytes()).is_some();
            SHARED_MEMORY.iter().any(&is_named) && !is_named(&FILE_NAME)
        })
        .filter_map(parse_line)
        .map(|mapping| mapping.end - mapping.start)
        .sum()
}

/// How many bytes each snapshot file holds and how many of them were seen mapped.
#[derive(Default)]
pub struct SnapshotFiles {
    held: HashMap<Inode, u64>,
    mapped_pages: HashMap<Inode, u64>,
    /// Descriptors known to be snapshot files, by process, and samples until the next look.
    known: HashMap<i32, (Vec<i32>, u32)>,
}

impl SnapshotFiles {
    pub fn start_sample(&mut self, processes: &[i32]) {
        self.held.clear();
        self.mapped_pages.clear();
        self.known.retain(|process, _| processes.contains(process));
    }

    /// Looks up the sizes of the files that a process holds open or maps. Returns whether all were found:
    /// without privileges, a file cannot be reached once its descriptor is closed.
    pub fn visit_process(&mut self, process: i32, mappings: &[SnapshotMapping]) -> bool {
        let known = self.known.entry(process).or_default();
        known.1 = known.1.saturating_sub(1);
        let mut found = held_by_known(process, &known.0);
        let is_complete = found.len() == known.0.len()
            && mappings
                .iter()
                .all(|mapping| found.iter().any(|(inode, _)| *inode == mapping.inode));
        if known.1 == 0 || !is_complete {
            *known = (snapshot_descriptors(process), LOOK_AGAIN);
            found = held_by_known(process, &known.0);
        }
        self.held.extend(found);
        for mapping in mappings {
            self.visit_mapping(process, mapping);
        }
        mappings
            .iter()
            .all(|mapping| self.held.contains_key(&mapping.inode))
    }

    /// A file whose descriptor the program has closed is reached through its mapping.
    fn visit_mapping(&mut self, process: i32, mapping: &SnapshotMapping) {
        if self.held.contains_key(&mapping.inode) {
            return;
        }
        let path = format!(
            "/proc/{process}/map_files/{:x}-{:x}",
            mapping.start, mapping.end
        );
        if let Some((inode, bytes)) = held_by(Path::new(&path)) {
            self.held.insert(inode, bytes);
        }
    }

    pub fn add_mapped(&mut self, inode: Inode, pages: u64) {
        *self.mapped_pages.entry(inode).or_default() += pages;
    }

    /// Bytes of snapshot files that no visited process has in its page tables.
    pub fn unmapped_bytes(&self) -> u64 {
        self.held
            .iter()
            .map(|(inode, &held)| {
                let mapped = self.mapped_pages.get(inode).copied().unwrap_or(0);
                held.saturating_sub(mapped * page_size())
            })
            .sum()
    }
}

fn held_by_known(process: i32, descriptors: &[i32]) -> Vec<(Inode, u64)> {
    let is_ours = |path: &Path| {
        fs::read_link(path).is_ok_and(|to| to.to_str().is_some_and(|to| to.starts_with(FILE_NAME)))
    };
    descriptors
        .iter()
        .filter_map(|number| {
            let path = format!("/proc/{process}/fd/{number}");
            // The number may have been closed and used again since.
            is_ours(Path::new(&path)).then(|| held_by(Path::new(&path)))?
        })
        .collect()
}

fn held_by(path: &Path) -> Option<(Inode, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.st_ino(), metadata.st_blocks() * 512))
}

/// The snapshot files that processes hold open, and where each can be reached.
pub fn files(processes: impl Iterator<Item = i32>) -> Vec<(Inode, PathBuf)> {
    let mut found: Vec<(Inode, PathBuf)> = processes
        .flat_map(descriptors)
        .filter_map(|path| Some((fs::metadata(&path).ok()?.st_ino(), path)))
        .collect();
    found.sort();
    found.dedup_by_key(|(inode, _)| *inode);
    found
}

/// Where the snapshot files that a process holds open can be reached.
fn descriptors(process: i32) -> Vec<PathBuf> {
    snapshot_descriptors(process)
        .into_iter()
        .map(|number| PathBuf::from(format!("/proc/{process}/fd/{number}")))
        .collect()
}

fn snapshot_descriptors(process: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            fs::read_link(entry.path())
                .is_ok_and(|to| to.to_str().is_some_and(|to| to.starts_with(FILE_NAME)))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"\
55d0c8a00000-55d0c8a21000 r-xp 00000000 fe:00 1234    /usr/bin/x y\n\
7f0000000000-7f0000200000 rw-p 00400000 00:01 77      /memfd:pagewise-snapshots (deleted)\n\
7f0000200000-7f0000300000 rw-p 00000000 00:00 0 \n\
7f0000300000-7f0000301000 r--s 00001000 00:01 78      /memfd:pagewise-snapshots (deleted)\n\
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0       [stack]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

    #[test]
    fn finds_snapshot_mappings() {
        let found = mappings(MAPS);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].start, 0x7f00_0000_0000);
        assert_eq!(found[0].offset, 0x40_0000);
        assert_eq!(found[1].inode, 78);
    }

    #[test]
    fn other_shared_memory_is_known_by_name() {
        assert_eq!(other_mappings(MAPS), 0);
        let others = b"7f00-8f00 rw-s 00000000 00:01 5   /memfd:pagewise-shared-1 (deleted)\n\
            9000-9100 rw-s 00000000 00:19 6   /dev/shm/psm\na000-b000 r--p 00000000 fe:00 7  /lib/x.so\n";
        assert_eq!(other_mappings(others), 0x1000 + 0x100);
    }

    #[test]
    fn the_end_is_below_the_kernel_half() {
        assert_eq!(end_of_mappings(MAPS), 0x7ffd_0002_1000);
        assert_eq!(end_of_mappings(b""), 0);
    }

    #[test]
    fn unmapped_is_held_less_mapped() {
        let mut files = SnapshotFiles::default();
        files.held.insert(1, 10 * page_size());
        files.held.insert(2, page_size());
        files.add_mapped(1, 4);
        files.add_mapped(2, 3);
        assert_eq!(files.unmapped_bytes(), 6 * page_size());
    }
}
