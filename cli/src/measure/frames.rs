//! Physical memory as root: distinct page frame numbers over all processes of the tree.
//!
//! Pages of ordinary files (program text) are counted like any other: each frame once. They are the
//! same in every configuration that is compared.

use std::fs;
use std::io;

use super::frame_set::FrameSet;
use super::page_map::{self, PageMap, Region};
use super::process_status;
use super::process_tree::distinct_address_spaces;
use super::reading::{Reading, Sampler};
use super::snapshot::{self, SnapshotFiles, SnapshotMapping};

pub struct FrameSampler {
    frames: FrameSet,
    snapshots: SnapshotFiles,
    regions: Vec<Region>,
    has_scan: bool,
    zero_frame: Option<u64>,
}

impl FrameSampler {
    pub fn new() -> Self {
        Self {
            frames: FrameSet::default(),
            snapshots: SnapshotFiles::default(),
            regions: Vec::new(),
            has_scan: page_map::scan_works().is_ok(),
            zero_frame: page_map::zero_frame(),
        }
    }

    fn visit(&mut self, process: i32) -> io::Result<()> {
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        let map = PageMap::open(process)?;
        let mappings = snapshot::mappings(&maps);
        self.snapshots.visit_process(process, &mappings);
        self.regions.clear();
        if self.has_scan {
            map.scan(
                0,
                snapshot::end_of_mappings(&maps),
                false,
                &mut self.regions,
            )?;
        } else {
            self.regions = resident_areas(process)?;
        }
        self.count(&map, &mappings)
    }

    fn count(&mut self, map: &PageMap, mappings: &[SnapshotMapping]) -> io::Result<()> {
        let (huge, small): (Vec<Region>, Vec<Region>) = self
            .regions
            .iter()
            .flat_map(|region| split_huge(*region))
            .partition(|region| region.huge);
        for region in huge {
            self.count_huge(map, region, mappings)?;
        }
        let mut owner = Owner::new(mappings);
        map.read_regions(&small, |page, entry| {
            let frame = entry.frame();
            if frame == 0 || Some(frame) == self.zero_frame || !self.frames.insert(frame) {
                return;
            }
            if let Some(mapping) = owner.of(page).filter(|_| entry.is_file_or_shared()) {
                self.snapshots.add_mapped(mapping.inode, 1);
            }
        })
    }

    /// The frames of a huge page follow each other: one entry tells them all.
    fn count_huge(
        &mut self,
        map: &PageMap,
        region: Region,
        mappings: &[SnapshotMapping],
    ) -> io::Result<()> {
        let size = page_map::huge_page_size();
        let pages = size / page_map::page_size();
        for start in (region.start..region.end).step_by(size as usize) {
            let entry = map.entry(start)?;
            let Some(entry) = entry.filter(|e| e.is_present() && e.frame() != 0) else {
                continue;
            };
            let new = self.frames.insert_run(entry.frame(), pages);
            if let Some(mapping) = Owner::new(mappings).of(start)
                && entry.is_file_or_shared()
            {
                self.snapshots.add_mapped(mapping.inode, new);
            }
        }
        Ok(())
    }
}

impl Sampler for FrameSampler {
    fn sample(&mut self, processes: &[i32]) -> Reading {
        let processes = distinct_address_spaces(processes);
        self.frames.clear();
        self.snapshots.start_sample(&processes);
        let mut reading = Reading::default();
        for process in processes {
            match self.visit(process) {
                Ok(()) => reading.processes += 1,
                Err(error) if is_refusal(&error) => reading.unreadable += 1,
                // It ended meanwhile: what was counted of it stays.
                Err(_) => {}
            }
            let status = process_status::read(process).unwrap_or_default();
            reading.weigh(process, status.resident());
            reading.swap_bytes += status.swap_bytes;
            reading.page_table_bytes += status.page_table_bytes;
            // Their frames are among the distinct ones, so this is a figure beside, not in addition.
            reading.hugetlb_bytes += status.hugetlb_bytes;
        }
        reading.unmapped_snapshot_bytes = self.snapshots.unmapped_bytes();
        reading.bytes = self.frames.len() * page_map::page_size() + reading.unmapped_snapshot_bytes;
        reading
    }
}

pub fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::OutOfMemory
    )
}

/// Cuts a region of huge pages at whole huge pages; the rest is read entry by entry. Other machines
/// have huge pages of other sizes, so all is read entry by entry there.
fn split_huge(region: Region) -> Vec<Region> {
    let size = page_map::huge_page_size();
    let start = region.start.next_multiple_of(size);
    let end = region.end / size * size;
    if !region.huge || !cfg!(target_arch = "x86_64") || start >= end {
        return vec![Region {
            huge: false,
            ..region
        }];
    }
    let small = |start, end| Region {
        start,
        end,
        huge: false,
    };
    [
        small(region.start, start),
        Region {
            start,
            end,
            huge: true,
        },
        small(end, region.end),
    ]
    .into_iter()
    .filter(|part| part.start < part.end)
    .collect()
}

/// Which snapshot mapping an address lies in; addresses are asked for in ascending order.
struct Owner<'a> {
    rest: &'a [SnapshotMapping],
}

impl<'a> Owner<'a> {
    fn new(mappings: &'a [SnapshotMapping]) -> Self {
        Self { rest: mappings }
    }

    fn of(&mut self, page: u64) -> Option<&'a SnapshotMapping> {
        while let Some(first) = self.rest.first()
            && first.end <= page
        {
            self.rest = &self.rest[1..];
        }
        self.rest.first().filter(|first| first.start <= page)
    }
}

/// Without PAGEMAP_SCAN: areas with resident pages, so that large reservations are not read.
fn resident_areas(process: i32) -> io::Result<Vec<Region>> {
    let text = fs::read(format!("/proc/{process}/smaps"))?;
    Ok(parse_resident_areas(&String::from_utf8_lossy(&text)))
}

fn parse_resident_areas(smaps: &str) -> Vec<Region> {
    let mut areas = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        if let Some(value) = line.strip_prefix("Rss:") {
            if process_status::kilobytes(value).unwrap_or(0) > 0 {
                areas.extend(current.take());
            }
        } else if let Some(range) = parse_range(line) {
            current = Some(range);
        }
    }
    areas
}

fn parse_range(line: &str) -> Option<Region> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some(Region {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        huge: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_regions_are_cut_at_whole_huge_pages() {
        let (size, page) = (page_map::huge_page_size(), page_map::page_size());
        let parts = split_huge(Region {
            start: size - page,
            end: 3 * size + page,
            huge: true,
        });
        assert_eq!(parts.len(), 3);
        assert_eq!((parts[1].start, parts[1].end), (size, 3 * size));
        assert!(parts[1].huge && !parts[0].huge && !parts[2].huge);
    }

    /// The way without PAGEMAP_SCAN agrees with the one with it.
    #[test]
    fn both_ways_agree_about_a_shell_with_a_large_variable() {
        if !page_map::frame_numbers_visible() {
            return;
        }
        let script = "x=$(head -c 20000000 /dev/zero | tr '\\0' a); echo ready; read y";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let mut ready = [0; 5];
        let mut out = shell.stdout.take().expect("stdout");
        io::Read::read_exact(&mut out, &mut ready).expect("a word");
        let process = [shell.id() as i32];
        let mut sampler = FrameSampler::new();
        let fast = sampler.sample(&process).bytes;
        sampler.has_scan = false;
        let slow = sampler.sample(&process).bytes;
        drop(shell.stdin.take());
        shell.wait().expect("sh ends");
        assert!(fast > 20_000_000);
        assert!(
            fast.abs_diff(slow) <= 4 * page_map::page_size(),
            "{fast} {slow}"
        );
    }

    #[test]
    fn only_resident_areas_are_read() {
        let smaps = "1000-2000 rw-p 00000000 00:00 0\nSize: 4 kB\nRss:   4 kB\n\
                     3000-9000 ---p 00000000 00:00 0\nRss:   0 kB\n";
        let areas = parse_resident_areas(smaps);
        assert_eq!(areas.len(), 1);
        assert_eq!((areas[0].start, areas[0].end), (0x1000, 0x2000));
    }
}
