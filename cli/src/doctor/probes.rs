//! What can only be known by trying.

use std::io;
use std::path::Path;

use super::{Finding, State};
use crate::launch::library as lookup;
use crate::measure::page_map;
use crate::statistics_block::Statistics;

pub fn findings() -> Vec<Finding> {
    vec![scan(), frame_numbers(), memory_file(), write_faults()]
}

/// Found, and loaded into a program that does nothing.
pub fn library() -> Vec<Finding> {
    let why = "it is preloaded into the command";
    let finding = match lookup::PRELOAD.find() {
        Err(failure) => {
            Finding::new("library", State::Bad, failure.what, why).command(failure.next)
        }
        Ok(path) => match try_preloading(&path) {
            Ok(()) => {
                let found = format!("{} works", path.display());
                Finding::new("library", State::Good, found, why)
            }
            Err(problem) => {
                let found = format!("{}: {problem}", path.display());
                Finding::new("library", State::Bad, found, why)
                    .command(format!("LD_PRELOAD={} /bin/true", path.display()))
            }
        },
    };
    vec![finding]
}

fn try_preloading(library: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let options = format!("policy=auto,statistics={}", folder.path().display());
    lookup::try_loading(library, &options)?;
    let statistics = Statistics::read_folder(folder.path()).unwrap_or_default();
    if statistics.processes == 0 {
        return Err("loaded, but it left no statistics".into());
    }
    Ok(())
}

fn scan() -> Finding {
    let why = "finds written pages quickly; without it /proc/self/pagemap is read";
    match page_map::scan_works() {
        Ok(()) => Finding::new("PAGEMAP_SCAN", State::Good, "works", why),
        Err(error) => {
            let found = format!("does not work: {error}");
            Finding::new("PAGEMAP_SCAN", State::Limited, found, why).command(
                "sudo apt-get install -t bookworm-backports linux-image-amd64 && sudo reboot    # Linux 6.7 or newer",
            )
        }
    }
}

fn frame_numbers() -> Finding {
    let why = "physical memory is counted frame by frame; else it is the sum of Pss";
    if page_map::frame_numbers_visible() {
        Finding::new("page frames", State::Good, "visible", why)
    } else {
        Finding::new("page frames", State::Limited, "hidden", why)
            .command("sudo pagewise compare ...    # needs CAP_SYS_ADMIN")
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

fn write_faults() -> Finding {
    let why = "finds writes that race with sharing; not needed by most programs";
    const USER_MODE_ONLY: libc::c_int = 1;
    // SAFETY: no pointers are passed.
    let file = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
    if file < 0 {
        let found = format!("denied: {}", io::Error::last_os_error());
        return Finding::new("userfaultfd", State::Limited, found, why)
            .command("sudo sysctl -w vm.unprivileged_userfaultfd=1");
    }
    // SAFETY: the descriptor was opened just now and nobody else knows it.
    unsafe { libc::close(file as libc::c_int) };
    Finding::new("userfaultfd", State::Good, "works", why)
}
