//! The resource limits of this shell, and the security module that may keep processes apart.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::files::Files;
use super::finding::{Finding, State};
use crate::report::units;

/// The library needs a handful, and one more for each of up to sixteen forks; programs need theirs.
const ENOUGH_FILES: u64 = 256;

pub fn findings(files: &Files) -> Vec<Finding> {
    vec![
        address_space(limit(Resource::RLIMIT_AS)),
        descriptors(limit(Resource::RLIMIT_NOFILE)),
        file_size(limit(Resource::RLIMIT_FSIZE)),
        locked(limit(Resource::RLIMIT_MEMLOCK)),
        tracing(files),
    ]
}

/// The soft limit; none when there is none.
fn limit(resource: Resource) -> Option<u64> {
    let (soft, _) = getrlimit(resource).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}

fn bytes(limit: Option<u64>) -> String {
    limit.map_or("no limit".into(), |limit| units::bytes(limit as f64))
}

fn address_space(limit: Option<u64>) -> Finding {
    let why = "large blocks are mapped from the kernel";
    let finding = |state| Finding::new("address space", state, bytes(limit), why);
    match limit {
        Some(_) => finding(State::Limited).command("ulimit -v unlimited"),
        None => finding(State::Good),
    }
}

fn descriptors(limit: Option<u64>) -> Finding {
    let why = "snapshots are files without a name";
    let found = limit.map_or("no limit".into(), |limit| format!("at most {limit}"));
    match limit {
        Some(limit) if limit < ENOUGH_FILES => {
            Finding::new("descriptors", State::Limited, found, why).command("ulimit -n 1024")
        }
        _ => Finding::new("descriptors", State::Good, found, why),
    }
}

fn file_size(limit: Option<u64>) -> Finding {
    let why = "the limit holds for snapshots too: no pages are shared where it is in force";
    let finding = |state| Finding::new("file size", state, bytes(limit), why);
    match limit {
        Some(_) => finding(State::Limited).command("ulimit -f unlimited"),
        None => finding(State::Good),
    }
}

fn locked(limit: Option<u64>) -> Finding {
    let why = "for ISM(TRUE, lock = TRUE), and programs that lock their memory";
    let finding = Finding::new("locked memory", State::Note, bytes(limit), why);
    match limit {
        // For this shell only where the hard limit allows it; limits.conf is for the next login.
        Some(_) => finding
            .command("echo \"$USER - memlock unlimited\" | sudo tee -a /etc/security/limits.conf"),
        None => finding,
    }
}

fn tracing(files: &Files) -> Finding {
    let why = "reading one's own processes' pages needs no right to trace them";
    let found = match files.number("/proc/sys/kernel/yama/ptrace_scope") {
        Some(0) => "own processes may be traced",
        Some(1) => "children may be traced",
        Some(_) => "only root may trace",
        None => "not restricted",
    };
    Finding::new("tracing", State::Note, found, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_force_are_found() {
        assert_eq!(address_space(Some(1 << 30)).state, State::Limited);
        assert_eq!(address_space(None).found, "no limit");
        assert_eq!(
            descriptors(Some(64)).command.as_deref(),
            Some("ulimit -n 1024")
        );
        assert_eq!(descriptors(Some(1024)).state, State::Good);
        assert!(file_size(Some(0)).command.is_some());
        assert_eq!(locked(Some(8_000_000)).found, "8.00 MB");
    }
}
