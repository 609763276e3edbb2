//! Physical memory without privileges: the sum of proportional set sizes, to which snapshot pages that
//! nobody maps are added. A page that a process outside the tree maps as well counts in part only.

use std::collections::HashMap;
use std::fs;
use std::io;

use super::frame_set::FrameSet;
use super::frames::is_refusal;
use super::page_map::{self, PageMap, Region};
use super::process_status::{self, kilobytes};
use super::process_tree::distinct_address_spaces;
use super::reading::{Reading, Sampler};
use super::snapshot::{self, Inode, SnapshotFiles, SnapshotMapping};

pub struct PssSampler {
    snapshots: SnapshotFiles,
    /// Pages of each snapshot file that some process maps.
    mapped: HashMap<Inode, FrameSet>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Rollup {
    pss: u64,
    anonymous: u64,
    shmem: u64,
    swap: u64,
    private_hugetlb: u64,
    shared_hugetlb: u64,
}

impl PssSampler {
    pub fn new() -> Self {
        Self {
            snapshots: SnapshotFiles::default(),
            mapped: HashMap::new(),
        }
    }

    fn visit_snapshots(&mut self, process: i32) -> io::Result<()> {
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        let mappings = snapshot::mappings(&maps);
        let are_all_found = self.snapshots.visit_process(process, &mappings);
        self.mark_mapped(process, &mappings)?;
        if !are_all_found {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    /// Pages that were mapped since the first look are in Pss: they must not count as unmapped too.
    fn visit_again(&mut self, process: i32) -> io::Result<()> {
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        self.mark_mapped(process, &snapshot::mappings(&maps))
    }

    fn mark_mapped(&mut self, process: i32, mappings: &[SnapshotMapping]) -> io::Result<()> {
        if mappings.is_empty() {
            return Ok(());
        }
        let map = PageMap::open(process)?;
        for mapping in mappings {
            let pages = self.mapped.entry(mapping.inode).or_default();
            for region in file_pages(&map, mapping)? {
                let first = (region.start - mapping.start + mapping.offset) / page_map::page_size();
                let count = (region.end - region.start) / page_map::page_size();
                pages.insert_run(first, count);
            }
        }
        Ok(())
    }
}

/// Pages in a mapping that are the file's own, not private copies of them.
fn file_pages(map: &PageMap, mapping: &SnapshotMapping) -> io::Result<Vec<Region>> {
    let mut regions = Vec::new();
    if map
        .scan(mapping.start, mapping.end, true, &mut regions)
        .is_ok()
    {
        return Ok(regions);
    }
    let whole = Region {
        start: mapping.start,
        end: mapping.end,
        huge: false,
    };
    regions.clear();
    map.read_regions(&[whole], |page, entry| {
        if entry.is_file_or_shared() {
            regions.push(Region {
                start: page,
                end: page + page_map::page_size(),
                huge: false,
            });
        }
    })?;
    Ok(regions)
}

impl Sampler for PssSampler {
    fn sample(&mut self, processes: &[i32]) -> Reading {
        let processes = distinct_address_spaces(processes);
        self.snapshots.start_sample(&processes);
        self.mapped.values_mut().for_each(FrameSet::clear);
        let mut reading = Reading::default();
        let mut shared_hugetlb = 0;
        for process in processes {
            // Snapshots before and after: a page that is mapped or unmapped in between is missed this
            // once at worst. Looked at once only, it could count twice, and be taken for a peak.
            if let Err(error) = self.visit_snapshots(process) {
                reading.unreadable += u32::from(is_refusal(&error));
            }
            match rollup(process) {
                Ok(rollup) => {
                    reading.processes += 1;
                    reading.bytes += rollup.pss;
                    reading.swap_bytes += rollup.swap;
                    reading.hugetlb_bytes += rollup.private_hugetlb;
                    shared_hugetlb = rollup.shared_hugetlb.max(shared_hugetlb);
                }
                Err(error) => reading.unreadable += u32::from(is_refusal(&error)),
            }
            // A process that is gone by now has been counted as far as it was seen.
            let _ = self.visit_again(process);
            let status = process_status::read(process).unwrap_or_default();
            reading.weigh(process, status.resident());
            reading.page_table_bytes += status.page_table_bytes;
        }
        for (inode, pages) in &self.mapped {
            self.snapshots.add_mapped(*inode, pages.len());
        }
        // Pss leaves out the hugetlb pool. Shared pages of it are taken to be the same ones everywhere.
        reading.hugetlb_bytes += shared_hugetlb;
        reading.unmapped_snapshot_bytes = self.snapshots.unmapped_bytes();
        reading.bytes += reading.hugetlb_bytes + reading.unmapped_snapshot_bytes;
        reading
    }
}

/// A process's share of two kinds of memory that it may have in common with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub anonymous: u64,
    pub shmem: u64,
}

/// Kernels before 5.3 do not tell them apart.
pub fn kinds(process: i32) -> io::Result<Kinds> {
    let rollup = rollup(process)?;
    Ok(Kinds {
        anonymous: rollup.anonymous,
        shmem: rollup.shmem,
    })
}

fn rollup(process: i32) -> io::Result<Rollup> {
    fs::read_to_string(format!("/proc/{process}/smaps_rollup")).map(|text| parse_rollup(&text))
}

fn parse_rollup(text: &str) -> Rollup {
    let mut rollup = Rollup::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let field = match name {
            "Pss" => &mut rollup.pss,
            "Pss_Anon" => &mut rollup.anonymous,
            "Pss_Shmem" => &mut rollup.shmem,
            "SwapPss" => &mut rollup.swap,
            "Private_Hugetlb" => &mut rollup.private_hugetlb,
            "Shared_Hugetlb" => &mut rollup.shared_hugetlb,
            _ => continue,
        };
        *field = kilobytes(value).unwrap_or(0);
    }
    rollup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pss_is_not_mistaken_for_its_parts() {
        let rollup = parse_rollup(
            "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 90 kB\nPss: 40 kB\nPss_Dirty: 30 kB\nPss_Anon: 20 kB\nPss_File: 15 kB\nPss_Shmem: 5 kB\n\
             SwapPss: 2 kB\nPrivate_Hugetlb: 2048 kB\nShared_Hugetlb: 4096 kB\n",
        );
        assert_eq!(rollup.pss, 40 << 10);
        assert_eq!((rollup.anonymous, rollup.shmem), (20 << 10, 5 << 10));
        assert_eq!(rollup.swap, 2 << 10);
        assert_eq!(rollup.private_hugetlb, 2 << 20);
        assert_eq!(rollup.shared_hugetlb, 4 << 20);
    }
}
