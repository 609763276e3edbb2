//! What of a replaying process is the allocator's memory.
//!
//! Counted are private pages, shared memory (an allocator may keep snapshots there), huge pages and what is swapped out; exactly,
//! from /proc/PID/smaps_rollup, since the counters in /proc/PID/status lag behind by pages a processor. Taken away is what
//! the loader itself holds, found once in /proc/PID/smaps before the first operation: its shared mappings, which are
//! filled from the beginning, its stack, and written pages of the program's and the C library's files. The allocator's
//! own library, its heap and all else that is private remains.

use std::fs;
use std::io;
use std::path::Path;

/// Bytes of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    anonymous: u64,
    shared: u64,
    huge: u64,
    swapped: u64,
}

impl Sums {
    fn total(&self) -> u64 {
        self.anonymous + self.shared + self.huge + self.swapped
    }

    /// Takes in one line of smaps or smaps_rollup.
    fn add(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else {
            return;
        };
        let kilobytes = value.trim().strip_suffix(" kB").unwrap_or("");
        let bytes = kilobytes.trim().parse::<u64>().unwrap_or(0) * 1024;
        match name {
            "Anonymous" => self.anonymous += bytes,
            "Pss_Shmem" => self.shared += bytes,
            "Shared_Hugetlb" | "Private_Hugetlb" => self.huge += bytes,
            "Swap" => self.swapped += bytes,
            _ => {}
        }
    }
}

/// The memory of the process that holds the allocator, the loader's included.
fn of_process(process: u32) -> io::Result<u64> {
    let mut sums = Sums::default();
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    text.lines().for_each(|line| sums.add(line));
    Ok(sums.total())
}

pub struct Meter {
    process: u32,
    own: u64,
}

impl Meter {
    /// Before the first operation.
    pub fn new(process: u32, program: &Path) -> io::Result<Self> {
        let maps = fs::read_to_string(format!("/proc/{process}/smaps"))?;
        Ok(Self {
            process,
            own: own_bytes(&maps, &program.to_string_lossy()),
        })
    }

    /// Bytes that the allocator holds now.
    pub fn read(&self) -> io::Result<u64> {
        Ok(of_process(self.process)?.saturating_sub(self.own))
    }
}

/// Of the mappings in `smaps`, what is the loader's and not the allocator's.
fn own_bytes(smaps: &str, program: &str) -> u64 {
    let mut total = 0;
    let mut mapping = None;
    // Where the last mapping of a file of ours ended: its zero-initialised data follows without a name.
    let mut file_end = 0;
    for line in smaps.lines() {
        if let Some((start, end, name)) = heading(line) {
            let is_ours = is_own(name, program) || (name.is_empty() && start == file_end);
            if is_ours && !name.is_empty() {
                file_end = end;
            }
            mapping = is_ours.then_some(name == ZERO);
        } else if let Some(is_shared) = mapping {
            let mut sums = Sums::default();
            // Of shared mappings there is no sum by kind here.
            match line.strip_prefix("Pss:") {
                Some(pss) if is_shared => sums.add(&format!("Pss_Shmem:{pss}")),
                _ => sums.add(line),
            }
            total += sums.total();
        }
    }
    total
}

/// How the kernel calls a shared mapping without a file.
const ZERO: &str = "/dev/zero (deleted)";

fn is_own(name: &str, program: &str) -> bool {
    const C_LIBRARY: [&str; 4] = ["libc.so", "ld-", "libgcc_s.so", "libm.so"];
    let file = name.rsplit('/').next().unwrap_or(name);
    name == ZERO
        || name == program
        || name.starts_with("[stack")
        || (name.starts_with('/') && C_LIBRARY.iter().any(|start| file.starts_with(start)))
}

/// "START-END rights offset device inode    NAME"
fn heading(line: &str) -> Option<(u64, u64, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    // Rights, offset, device and inode.
    let mut name = rest;
    for _ in 0..4 {
        name = name
            .trim_start()
            .split_once(' ')
            .map_or("", |(_, rest)| rest);
    }
    Some((number(start)?, number(end)?, name.trim()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const SMAPS: &str = "\
5581d0000000-5581d0001000 rw-p 00000000 fe:01 11                         /usr/bin/pagewise
Anonymous:             4 kB
Swap:                  8 kB
5581d0001000-5581d0003000 rw-p 00000000 00:00 0 
Anonymous:             8 kB
5581e0000000-5581e0021000 rw-p 00000000 00:00 0                          [heap]
Anonymous:           100 kB
7f0000000000-7f0000100000 rw-s 00000000 00:01 5                          /dev/zero (deleted)
Pss:                1024 kB
Anonymous:             0 kB
7f0000200000-7f0000300000 rw-s 00000000 00:01 6                          /memfd:pagewise (deleted)
Pss:                1024 kB
7f0000400000-7f0000402000 rw-p 00000000 fe:01 12                         /usr/lib/x86_64-linux-gnu/libc.so.6
Anonymous:             8 kB
7f0000500000-7f0000502000 rw-p 00000000 fe:01 13                         /usr/lib/libjemalloc.so.2
Anonymous:             8 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Anonymous:            16 kB
";

    #[test]
    fn the_loaders_memory_is_told_from_the_allocators() {
        // Program, its bss, shared mapping, C library, stack.
        let expected = (4 + 8 + 8 + 1024 + 8 + 16) * 1024;
        assert_eq!(own_bytes(SMAPS, "/usr/bin/pagewise"), expected);
        assert_eq!(own_bytes("", "/usr/bin/pagewise"), 0);
        assert_eq!(own_bytes("nonsense\n:\n-\n", ""), 0);
    }

    #[test]
    fn names_with_spaces_are_read_whole() {
        let line = "1000-2000 rw-s 00000000 00:01 5        /a b/c (deleted)";
        assert_eq!(heading(line), Some((0x1000, 0x2000, "/a b/c (deleted)")));
        assert_eq!(heading("Rss:  4 kB"), None);
    }

    /// dd has filled its buffer once it cannot write it: nobody reads.
    #[test]
    fn what_a_process_allocates_is_seen_to_the_page() {
        const BUFFER: u64 = 64 << 20;
        let mut dd = Command::new("dd")
            .args(["if=/dev/zero", "bs=64M", "count=1"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("dd");
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut found = 0;
        while found < BUFFER && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
            found = of_process(dd.id()).expect("readable");
        }
        dd.kill().expect("still there");
        dd.wait().expect("ended");
        assert!((BUFFER..BUFFER + (4 << 20)).contains(&found), "{found}");
    }
}
