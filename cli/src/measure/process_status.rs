//! What the kernel counts of a process: pages by their kind, swap, page tables, pages of the hugetlb pool.
//!
//! Read at every sample. procfs-core opens the same file, but keeps two strings of each of its sixty lines, and has no
//! figures at all where one line is not as it expects.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// No kernel writes as much.
const LONGEST: usize = 8192;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// Pages in the page tables, one that is mapped twice counted twice: anonymous ones, files', shared memory's.
    pub anonymous_bytes: u64,
    pub file_bytes: u64,
    pub shmem_bytes: u64,
    pub swap_bytes: u64,
    pub page_table_bytes: u64,
    pub hugetlb_bytes: u64,
}

impl ProcessStatus {
    /// Pages in the page tables and of the hugetlb pool.
    pub fn resident(&self) -> u64 {
        self.anonymous_bytes + self.file_bytes + self.shmem_bytes + self.hugetlb_bytes
    }
}

pub fn read(process: i32) -> io::Result<ProcessStatus> {
    fs::read_to_string(format!("/proc/{process}/status")).map(|text| parse(&text))
}

/// The same of a status file that is kept open.
pub fn read_again(file: &File) -> io::Result<ProcessStatus> {
    let mut buffer = [0; LONGEST];
    let length = file.read_at(&mut buffer, 0)?;
    // The process's name may hold anything.
    Ok(parse(&String::from_utf8_lossy(&buffer[..length])))
}

/// Pages of a process in its page tables, and of these files' and shared memory's, of an open /proc/PID/statm: the
/// quickest of its counters.
pub fn resident_and_shared(statm: &File) -> Option<(u64, u64)> {
    let mut buffer = [0; 128];
    let length = statm.read_at(&mut buffer, 0).ok()?;
    parse_statm(std::str::from_utf8(&buffer[..length]).ok()?)
}

/// The second and third number.
fn parse_statm(statm: &str) -> Option<(u64, u64)> {
    let mut numbers = statm
        .split_ascii_whitespace()
        .skip(1)
        .map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn parse(text: &str) -> ProcessStatus {
    let mut status = ProcessStatus::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let field = match name {
            "RssAnon" => &mut status.anonymous_bytes,
            "RssFile" => &mut status.file_bytes,
            "RssShmem" => &mut status.shmem_bytes,
            "VmSwap" => &mut status.swap_bytes,
            "VmPTE" => &mut status.page_table_bytes,
            "HugetlbPages" => &mut status.hugetlb_bytes,
            _ => continue,
        };
        *field = kilobytes(value).unwrap_or(0);
    }
    status
}

/// As `ps` shows it, shortened by the kernel to 15 letters.
pub fn name_of(process: i32) -> String {
    let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// "  12 kB" in bytes.
pub fn kilobytes(value: &str) -> Option<u64> {
    let number = value.trim().strip_suffix("kB")?.trim();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_lines_and_no_others() {
        let status = parse(
            "Name:\tx\nVmRSS:\t 9 kB\nRssAnon:\t 4 kB\nRssFile:\t 3 kB\nRssShmem:\t 2 kB\n\
             VmSwap:\t   8 kB\nVmPTE:\t 44 kB\nHugetlbPages:\t 2048 kB\n",
        );
        let pages = [
            status.anonymous_bytes,
            status.file_bytes,
            status.shmem_bytes,
        ];
        assert_eq!(pages, [4 << 10, 3 << 10, 2 << 10]);
        assert_eq!(parse_statm("9 8 3 1 0 5 0\n"), Some((8, 3)));
        assert_eq!(status.swap_bytes, 8 << 10);
        assert_eq!(status.page_table_bytes, 44 << 10);
        assert_eq!(status.hugetlb_bytes, 2 << 20);
    }

    #[test]
    fn nonsense_is_zero() {
        assert_eq!(parse("VmSwap: many kB\nVmPTE\n"), ProcessStatus::default());
        assert_eq!(parse_statm("9"), None);
        assert_eq!(kilobytes("99999999999999999999 kB"), None);
    }
}
