//! What can only be known by trying.

use std::io;
use std::path::Path;

use super::files::Files;
use super::finding::{Finding, State};
use crate::launch::filter;
use crate::launch::library as lookup;
use crate::measure::page_map;
use crate::statistics_block::Statistics;

pub fn findings() -> Vec<Finding> {
    vec![
        filters(),
        scan(),
        written_pages(),
        frame_numbers(),
        memory_file(),
    ]
}

/// Found, and loaded into a program that does nothing; and what it found there.
pub fn library(files: &Files) -> Vec<Finding> {
    let why = "it is preloaded into the command";
    let named = lookup::PRELOAD
        .find()
        .and_then(|path| Ok((lookup::name_of(&path)?, path)));
    let (name, path) = match named {
        Err(failure) => {
            return vec![
                Finding::new("library", State::Bad, failure.what, why).command(failure.next),
            ];
        }
        Ok(both) => both,
    };
    match try_preloading(&name) {
        Ok(statistics) => {
            let found = match name == path {
                true => format!("{} works", path.display()),
                false => format!("{} works, as {}", path.display(), name.display()),
            };
            vec![
                Finding::new("library", State::Good, found, why),
                copies_by_the_kernel(&statistics, files),
            ]
        }
        Err(problem) => {
            let found = format!("{}: {problem}", path.display());
            vec![
                Finding::new("library", State::Bad, found, why)
                    .command(format!("LD_PRELOAD={} /bin/true", name.display())),
            ]
        }
    }
}

/// The library knows how to ask for mmapcopy(2), and when not to.
fn copies_by_the_kernel(statistics: &Statistics, files: &Files) -> Finding {
    let why = "pages of copies are shared by one system call, without snapshots";
    if statistics.get("mmapcopy_used") > 0 {
        return Finding::new("mmapcopy", State::Good, "works", why);
    }
    let is_filtered = files.text("/proc/self/status").is_some_and(|text| {
        text.lines()
            .filter_map(|line| line.strip_prefix("Seccomp:"))
            .any(|mode| mode.trim() != "0")
    });
    let found = if is_filtered {
        "not asked for: system calls are filtered here; copies share snapshots"
    } else {
        "this kernel does not have it; copies share snapshots"
    };
    Finding::new("mmapcopy", State::Note, found, why)
}

fn try_preloading(library: &Path) -> Result<Statistics, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let options = format!(
        "policy=auto,seccomp=ignore,statistics={}",
        folder.path().display()
    );
    lookup::try_loading(library, &options)?;
    let statistics = Statistics::read_folder(folder.path()).unwrap_or_default();
    if statistics.processes == 0 {
        return Err("loaded, but it left no statistics".into());
    }
    Ok(statistics)
}

/// Under a filter the library does nothing unless it is told that the filter is harmless, as `run` finds out.
fn filters() -> Finding {
    let why = "under one that ends programs, or was not tried, all is left to the C library";
    let library = match lookup::PRELOAD.find_name() {
        Ok(name) => name,
        Err(failure) => return Finding::new("seccomp", State::Note, failure.what, why),
    };
    match filter::option_for(&[&library]) {
        Ok(None) => Finding::new("seccomp", State::Good, "no filter is in force", why),
        Ok(Some(option)) => {
            let found = format!("the filter in force is harmless: pagewise run sets {option}");
            Finding::new("seccomp", State::Good, found, why).command(format!(
                "PAGEWISE_OPTIONS={option} LD_PRELOAD=...    # without pagewise run"
            ))
        }
        Err(reason) => {
            let found = format!("a filter is in force, and {reason}");
            Finding::new("seccomp", State::Bad, found, why).command(
                "docker run --security-opt seccomp=unconfined ...    # or --options seccomp=ignore, at your own risk",
            )
        }
    }
}

fn scan() -> Finding {
    let why = "finds written pages quickly; without it /proc/self/pagemap is read";
    let result = page_map::scan_works();
    of_newer_kernel("PAGEMAP_SCAN", "working", State::Limited, result, why)
}

fn written_pages() -> Finding {
    let why = "freeze=auto leaves packages out of R's collections only where they are told; pagewise_freeze() is slower without";
    let result = page_map::written_pages_told();
    of_newer_kernel("written pages", "told", State::Note, result, why)
}

fn of_newer_kernel(
    name: &'static str,
    good: &str,
    without: State,
    result: Result<(), std::io::Error>,
    why: &'static str,
) -> Finding {
    match result {
        Ok(()) => Finding::new(name, State::Good, good, why),
        Err(error) => {
            let found = format!("not {good}: {error}");
            Finding::new(name, without, found, why).command(newer_kernel())
        }
    }
}

/// It has come with Linux 6.7.
fn newer_kernel() -> &'static str {
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if system
        .lines()
        .any(|line| line == "VERSION_CODENAME=bookworm")
    {
        return "sudo apt-get install -t bookworm-backports linux-image-amd64 && sudo reboot    # Linux 6.7 or newer";
    }
    "uname -r    # Linux 6.7 or newer has it; in a container the host's counts"
}

fn frame_numbers() -> Finding {
    let why = "physical memory is counted frame by frame; else it is the sum of Pss";
    if page_map::frame_numbers_visible() {
        Finding::new("page frames", State::Good, "visible", why)
    } else {
        let found =
            "hidden (they need CAP_SYS_ADMIN); the sum of Pss is as good for one's own programs";
        Finding::new("page frames", State::Note, found, why)
    }
}

fn memory_file() -> Finding {
    let why = "snapshots, and so all sharing of pages, need it";
    // SAFETY: the name ends in NUL.
    let file = unsafe { libc::memfd_create(c"pagewise-doctor".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        let found = format!("denied: {}", io::Error::last_os_error());
        return Finding::new("memfd_create", State::Bad, found, why).command(
            "docker run --security-opt seccomp=unconfined ...    # if this is a container",
        );
    }
    // SAFETY: the descriptor was opened just now and nobody else knows it.
    unsafe { libc::close(file) };
    Finding::new("memfd_create", State::Good, "works", why)
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::fake;
    use super::*;
    use crate::statistics_block::tests::bytes;

    #[test]
    fn mmapcopy_is_what_the_library_says() {
        let (_root, open) = fake(&[("proc/self/status", "Name:\tx\nSeccomp:\t0\n")]);
        let (_other, filtered) = fake(&[("proc/self/status", "Name:\tx\nSeccomp:\t2\n")]);
        let without = Statistics::default();
        let finding = copies_by_the_kernel(&without, &open);
        assert_eq!(finding.state, State::Note);
        assert!(finding.found.contains("does not have it"));
        let finding = copies_by_the_kernel(&without, &filtered);
        assert!(finding.found.contains("filtered"));
        let folder = tempfile::tempdir().expect("folder");
        let block = bytes(&[("mmapcopy_used", 1)]);
        std::fs::write(folder.path().join("pagewise-1.stats"), block).expect("block");
        let with = Statistics::read_folder(folder.path()).expect("statistics");
        let finding = copies_by_the_kernel(&with, &open);
        assert_eq!(finding.state, State::Good);
    }
}
