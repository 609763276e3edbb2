//! Figures reported beside physical memory: swap, page tables, pages of the hugetlb pool.
//!
//! Read at every sample. procfs-core opens the same file, but keeps two strings of each of its sixty lines, and has no
//! figures at all where one line is not as it expects.

use std::fs;
use std::io;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    pub swap_bytes: u64,
    pub page_table_bytes: u64,
    pub hugetlb_bytes: u64,
}

pub fn read(process: i32) -> io::Result<ProcessStatus> {
    fs::read_to_string(format!("/proc/{process}/status")).map(|text| parse(&text))
}

fn parse(text: &str) -> ProcessStatus {
    let mut status = ProcessStatus::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let field = match name {
            "VmSwap" => &mut status.swap_bytes,
            "VmPTE" => &mut status.page_table_bytes,
            "HugetlbPages" => &mut status.hugetlb_bytes,
            _ => continue,
        };
        *field = kilobytes(value).unwrap_or(0);
    }
    status
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
    fn reads_the_three_lines() {
        let status = parse("Name:\tx\nVmSwap:\t   8 kB\nVmPTE:\t 44 kB\nHugetlbPages:\t 2048 kB\n");
        assert_eq!(status.swap_bytes, 8 << 10);
        assert_eq!(status.page_table_bytes, 44 << 10);
        assert_eq!(status.hugetlb_bytes, 2 << 20);
    }

    #[test]
    fn nonsense_is_zero() {
        assert_eq!(parse("VmSwap: many kB\nVmPTE\n"), ProcessStatus::default());
        assert_eq!(kilobytes("99999999999999999999 kB"), None);
    }
}
