//! Seccomp filters, which containers and services have in force: some end a program for a system call that they
//! do not know, and so the libraries leave everything to the C library under a filter that nobody has tried.
//! The command inherits ours. So we try it: a child of ours does under it what the library does.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// First argument of the child.
pub const NAME: &str = "filter-rehearsal";

/// A thread that was ended with a lock held keeps the others waiting for ever.
const LONGEST: Duration = Duration::from_secs(20);
const KEEPER_DECAYS: Duration = Duration::from_millis(1600);
const MEGABYTE: usize = 1 << 20;

/// What was found about the filters of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filters {
    None,
    /// So many.
    Some(u32),
    /// There are some, and the kernel does not say how many (before Linux 5.9), or nothing can be read.
    Unknown,
}

pub fn in_force() -> Filters {
    fs::read_to_string("/proc/self/status").map_or(Filters::Unknown, |status| of_status(&status))
}

fn of_status(status: &str) -> Filters {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    match value("Seccomp:") {
        None | Some("0") => Filters::None,
        Some(_) => value("Seccomp_filters:")
            .and_then(|count| count.parse().ok())
            .filter(|count| *count > 0)
            .map_or(Filters::Unknown, Filters::Some),
    }
}

/// The option by which the library is told that the filters in force are harmless; or why it is not.
pub fn option_for(libraries: &[&Path]) -> Result<Option<String>, String> {
    let count = match in_force() {
        Filters::None => return Ok(None),
        Filters::Some(count) => count,
        Filters::Unknown => {
            return Err("the kernel does not say which filters are in force".to_owned());
        }
    };
    for library in libraries {
        try_out(library)?;
    }
    Ok(Some(format!("seccomp={count}")))
}

fn try_out(library: &Path) -> Result<(), String> {
    let general = library
        .file_name()
        .is_some_and(|name| name.to_string_lossy().contains("general"));
    let options = if general {
        "policy=general,seccomp=ignore"
    } else {
        "policy=share,huge=on,pool=on,modules=all,collect=burst,seccomp=ignore"
    };
    let mut child = Command::new("/proc/self/exe")
        .arg(NAME)
        .env("LD_PRELOAD", library)
        .env("PAGEWISE_OPTIONS", options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    match wait(&mut child) {
        Some(true) => Ok(()),
        Some(false) => Err("it ends programs for system calls that the library makes".to_owned()),
        None => Err("it keeps the library from going on".to_owned()),
    }
}

/// Did it end well? None: not in time.
fn wait(child: &mut Child) -> Option<bool> {
    let begin = Instant::now();
    while begin.elapsed() < LONGEST {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Err(_) => return Some(false),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// In the child, with the library before the C library: each of its mechanisms is made to work.
pub fn rehearse() {
    let source = vec![1_u8; 2 * MEGABYTE];
    let mut copies: Vec<Vec<u8>> = (0..8).map(|_| source.clone()).collect();
    for copy in &mut copies {
        copy[MEGABYTE] = 2;
    }
    copies.truncate(4);
    let mut growing = vec![3_u8; 3 * MEGABYTE];
    growing.resize(9 * MEGABYTE, 4);
    let mut zeros = vec![5_u8; 4 * MEGABYTE];
    zeros.fill(0);
    drop(vec![6_u8; 48 * MEGABYTE]); // warm pages, and a thread that gives them back
    let small: Vec<Vec<u8>> = (0..4000).map(|size| vec![7_u8; size]).collect();
    drop(small);
    let _ = Command::new("/bin/true").status();
    let worker = thread::spawn(move || copies.iter().map(Vec::len).sum::<usize>());
    thread::sleep(KEEPER_DECAYS);
    let _ = worker.join();
    drop(std::hint::black_box((source, growing, zeros)));
    // SAFETY: has no preconditions.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        assert_eq!(of_status("Name:\tx\n"), Filters::None);
        assert_eq!(
            of_status("Seccomp:\t0\nSeccomp_filters:\t0\n"),
            Filters::None
        );
        assert_eq!(
            of_status("Seccomp:\t2\nSeccomp_filters:\t3\n"),
            Filters::Some(3)
        );
        assert_eq!(of_status("Seccomp:\t2\n"), Filters::Unknown);
        assert_eq!(
            of_status("Seccomp:\t1\nSeccomp_filters:\t0\n"),
            Filters::Unknown
        );
    }

    #[test]
    fn the_rehearsal_ends_well() {
        rehearse();
    }
}
