//! /proc/PID/pagemap: which pages of a process are present, and in which frames.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

const ENTRY: u64 = 8;
const PRESENT: u64 = 1 << 63;
const FILE_OR_SHARED: u64 = 1 << 61;
const FRAME_MASK: u64 = (1 << 55) - 1;

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;

/// Pages that one ioctl may report. It bounds how long the kernel holds the program's mmap lock.
const PAGES_PER_SCAN: u64 = 16384;
const REGIONS_PER_SCAN: usize = 2048;
/// Regions closer than this are read with one call.
const MERGE_GAP_PAGES: u64 = 64;
/// Entries read with one call.
const ENTRIES_PER_READ: u64 = 32768;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
pub struct PmScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

nix::ioctl_readwrite!(pagemap_scan, b'f', 16, PmScanArg);

/// Addresses of present pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    /// Mapped by page-middle-directory entries: frames are consecutive within each huge page.
    pub huge: bool,
}

/// One page table entry of a present page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    pub fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }
    pub fn is_file_or_shared(self) -> bool {
        self.0 & FILE_OR_SHARED != 0
    }
    /// 0 when the kernel hides it.
    pub fn frame(self) -> u64 {
        self.0 & FRAME_MASK
    }
}

pub fn page_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: sysconf has no preconditions.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        u64::try_from(size).unwrap_or(4096)
    })
}

/// Bytes mapped by one page-middle-directory entry.
pub fn huge_page_size() -> u64 {
    page_size() * (page_size() / ENTRY)
}

pub struct PageMap {
    file: File,
}

impl PageMap {
    pub fn open(process: i32) -> io::Result<Self> {
        File::open(format!("/proc/{process}/pagemap")).map(|file| Self { file })
    }

    /// The entry of one page; none when it is not in any mapping.
    pub fn entry(&self, page: u64) -> io::Result<Option<Entry>> {
        let mut bytes = [0; ENTRY as usize];
        let got = self.file.read_at(&mut bytes, page / page_size() * ENTRY)?;
        Ok((got == bytes.len()).then(|| Entry(u64::from_ne_bytes(bytes))))
    }

    /// Calls `found` with each present page's address and entry. Regions must be in order.
    pub fn read_regions(
        &self,
        regions: &[Region],
        mut found: impl FnMut(u64, Entry),
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut rest = regions;
        while let Some(first) = rest.first() {
            let batch = merged_batch(rest);
            let start = first.start;
            let end = batch.last().map_or(first.end, |last| last.end);
            let mut from = start;
            while from < end {
                let to = end.min(from + ENTRIES_PER_READ * page_size());
                buffer.resize(((to - from) / page_size() * ENTRY) as usize, 0);
                let got = self.file.read_at(&mut buffer, from / page_size() * ENTRY)?;
                visit(batch, from, &buffer[..got], &mut found);
                from = to;
            }
            rest = &rest[batch.len()..];
        }
        Ok(())
    }

    /// Finds present pages in [start, end), the shared zero page excluded, with PAGEMAP_SCAN.
    /// With `file_only`, just those that belong to a file or to shared memory.
    pub fn scan(
        &self,
        start: u64,
        end: u64,
        file_only: bool,
        regions: &mut Vec<Region>,
    ) -> io::Result<()> {
        let wanted = if file_only { PAGE_IS_FILE } else { 0 };
        let mut found = vec![PageRegion::default(); REGIONS_PER_SCAN];
        let mut from = start;
        while from < end {
            let mut argument = PmScanArg {
                size: size_of::<PmScanArg>() as u64,
                start: from,
                end,
                vec: found.as_mut_ptr() as u64,
                vec_len: found.len() as u64,
                max_pages: PAGES_PER_SCAN,
                category_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO | wanted,
                category_inverted: PAGE_IS_PFNZERO,
                return_mask: PAGE_IS_PRESENT | PAGE_IS_HUGE,
                ..PmScanArg::default()
            };
            // SAFETY: the argument and the vector it points to outlive the call.
            let count = unsafe { pagemap_scan(self.file.as_raw_fd(), &raw mut argument) }?;
            append(regions, &found[..usize::try_from(count).unwrap_or(0)]);
            // A scan that makes no progress would never end.
            if argument.walk_end <= from {
                break;
            }
            from = argument.walk_end;
        }
        Ok(())
    }
}

/// The leading regions that are close enough to be read together.
fn merged_batch(regions: &[Region]) -> &[Region] {
    let gap = MERGE_GAP_PAGES * page_size();
    let length = regions
        .windows(2)
        .take_while(|pair| pair[1].start - pair[0].end <= gap)
        .count();
    &regions[..=length.min(regions.len() - 1)]
}

/// `entries` are those of the pages from `from` on, as the kernel writes them.
fn visit(batch: &[Region], from: u64, entries: &[u8], found: &mut impl FnMut(u64, Entry)) {
    let to = from + entries.len() as u64 / ENTRY * page_size();
    let first = batch.partition_point(|region| region.end <= from);
    for region in &batch[first..] {
        let start = region.start.max(from);
        let end = region.end.min(to);
        if start >= end {
            break;
        }
        let place = |page: u64| ((page - from) / page_size() * ENTRY) as usize;
        let pages = (start..end).step_by(page_size() as usize);
        let bytes = entries[place(start)..place(end)].chunks_exact(ENTRY as usize);
        for (page, bytes) in pages.zip(bytes) {
            let entry = Entry(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()));
            if entry.is_present() {
                found(page, entry);
            }
        }
    }
}

/// Adds regions, joining a region that continues the previous one (it was cut by `max_pages`). What a region repeats is
/// left out: where mappings change during a scan, the next one may begin before the last one's end.
fn append(regions: &mut Vec<Region>, found: &[PageRegion]) {
    for region in found {
        let known = regions.last().map_or(0, |last| last.end);
        let next = Region {
            start: region.start.max(known),
            end: region.end,
            huge: region.categories & PAGE_IS_HUGE != 0,
        };
        if next.start >= next.end {
            continue;
        }
        match regions.last_mut() {
            Some(last) if last.end == next.start && last.huge == next.huge => last.end = next.end,
            _ => regions.push(next),
        }
    }
}

/// Does the kernel let this process see frame numbers? It needs CAP_SYS_ADMIN.
pub fn frame_numbers_visible() -> bool {
    let touched = vec![1_u8; page_size() as usize * 2];
    frame_of(touched.as_ptr()) != 0
}

/// Does this kernel have the PAGEMAP_SCAN ioctl (Linux 6.7)?
pub fn scan_works() -> Result<(), io::Error> {
    let touched = [1_u8; 1];
    let page = touched.as_ptr() as u64 / page_size() * page_size();
    let map = PageMap::open(own_process())?;
    map.scan(page, page + page_size(), false, &mut Vec::new())
}

/// Does the kernel tell asynchronously which pages were written (Linux 6.7; containers may refuse it)?
pub fn written_pages_told() -> Result<(), io::Error> {
    const USER_MODE_ONLY: libc::c_int = 1;
    const UNPOPULATED_AND_ASYNCHRONOUS: u64 = 1 << 13 | 1 << 15;
    const API: libc::c_ulong = 0xC018_AA3F;
    let mut wanted: [u64; 3] = [0xAA, UNPOPULATED_AND_ASYNCHRONOUS, 0];
    // SAFETY: it makes a descriptor, and watches nothing.
    let file = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
    let file = libc::c_int::try_from(file).unwrap_or(-1);
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is ours, and the structure is as large as the request says.
    let done = unsafe { libc::ioctl(file, API, wanted.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: it was made just now, and nobody else has it.
    unsafe { libc::close(file) };
    if done == 0 { Ok(()) } else { Err(error) }
}

/// The frame of the zero page, which every untouched page that was read is mapped to.
pub fn zero_frame() -> Option<u64> {
    let size = page_size() as usize;
    // SAFETY: a fresh private anonymous mapping disturbs nothing.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was mapped readable just now.
    unsafe { page.cast::<u8>().read_volatile() };
    let frame = frame_of(page.cast());
    // SAFETY: it is our mapping and nothing refers to it any more.
    unsafe { libc::munmap(page, size) };
    (frame != 0).then_some(frame)
}

fn frame_of(address: *const u8) -> u64 {
    PageMap::open(own_process())
        .and_then(|map| map.entry(address as u64))
        .ok()
        .flatten()
        .map_or(0, Entry::frame)
}

fn own_process() -> i32 {
    nix::unistd::getpid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64) -> Region {
        Region {
            start: start * page_size(),
            end: end * page_size(),
            huge: false,
        }
    }

    #[test]
    fn near_regions_are_read_together_and_far_ones_are_not() {
        let regions = [region(0, 1), region(3, 4), region(1000, 1001)];
        assert_eq!(merged_batch(&regions).len(), 2);
        assert_eq!(merged_batch(&regions[2..]).len(), 1);
    }

    #[test]
    fn entries_between_regions_are_not_visited() {
        let entries: Vec<u8> = (0..10)
            .flat_map(|n| (PRESENT | (n + 1)).to_ne_bytes())
            .collect();
        let mut pages = Vec::new();
        visit(
            &[region(0, 2), region(5, 6)],
            0,
            &entries,
            &mut |page, entry| {
                pages.push((page / page_size(), entry.frame()));
            },
        );
        assert_eq!(pages, [(0, 1), (1, 2), (5, 6)]);
    }

    #[test]
    fn regions_stay_in_order_and_apart_where_a_scan_repeats_pages() {
        let part = |start, end| PageRegion {
            start: start * page_size(),
            end: end * page_size(),
            ..PageRegion::default()
        };
        let mut regions = Vec::new();
        append(&mut regions, &[part(4, 8)]);
        append(&mut regions, &[part(2, 6), part(5, 9), part(20, 21)]);
        let places: Vec<_> = regions
            .iter()
            .map(|region| (region.start / page_size(), region.end / page_size()))
            .collect();
        assert_eq!(places, [(4, 9), (20, 21)]);
        assert_eq!(merged_batch(&regions).len(), 2);
    }

    #[test]
    fn a_region_cut_by_the_page_limit_is_joined() {
        let mut regions = Vec::new();
        let part = |start, end| PageRegion {
            start,
            end,
            categories: PAGE_IS_PRESENT,
        };
        append(&mut regions, &[part(0, 4096)]);
        append(&mut regions, &[part(4096, 8192), part(16384, 20480)]);
        assert_eq!(regions.len(), 2);
        assert_eq!(regions[0].end, 8192);
    }
}
