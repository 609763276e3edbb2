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
        locked(
            limit(Resource::RLIMIT_MEMLOCK),
            nix::unistd::geteuid().is_root(),
        ),
        tracing(files),
    ]
}

/// What is in force, and up to what a shell may raise it. None: no limit.
#[derive(Clone, Copy, Default)]
struct Limit {
    soft: Option<u64>,
    hard: Option<u64>,
}

impl Limit {
    fn allows(self, wanted: Option<u64>) -> bool {
        match (self.hard, wanted) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(hard), Some(wanted)) => hard >= wanted,
        }
    }
}

fn limit(resource: Resource) -> Limit {
    let finite = |limit| (limit != RLIM_INFINITY).then_some(limit);
    let both = getrlimit(resource).map(|(soft, hard)| (finite(soft), finite(hard)));
    both.map_or(Limit::default(), |(soft, hard)| Limit { soft, hard })
}

fn bytes(limit: Option<u64>) -> String {
    limit.map_or("no limit".into(), |limit| units::bytes(limit as f64))
}

/// `flag` of ulimit, and what it is raised to: by whoever has the right to.
fn raise(flag: &str, limit: Limit, wanted: Option<u64>) -> String {
    let number = wanted.map_or("unlimited".into(), |wanted| wanted.to_string());
    match limit.allows(wanted) {
        true => format!("ulimit -{flag} {number}"),
        false => format!(
            "ulimit -H{flag}    # the hard limit: {number} is for root, or the job script, to set"
        ),
    }
}

fn address_space(limit: Limit) -> Finding {
    let why = "large blocks are mapped from the kernel";
    let finding = |state| Finding::new("address space", state, bytes(limit.soft), why);
    match limit.soft {
        Some(_) => finding(State::Limited).command(raise("v", limit, None)),
        None => finding(State::Good),
    }
}

fn descriptors(limit: Limit) -> Finding {
    let why = "snapshots are files without a name";
    let found = limit
        .soft
        .map_or("no limit".into(), |limit| format!("at most {limit}"));
    match limit.soft {
        Some(soft) if soft < ENOUGH_FILES => {
            Finding::new("descriptors", State::Limited, found, why).command(raise(
                "n",
                limit,
                Some(1024),
            ))
        }
        _ => Finding::new("descriptors", State::Good, found, why),
    }
}

fn file_size(limit: Limit) -> Finding {
    let why = "the limit holds for snapshots too: no pages are shared where it is in force";
    let finding = |state| Finding::new("file size", state, bytes(limit.soft), why);
    match limit.soft {
        Some(_) => finding(State::Limited).command(raise("f", limit, None)),
        None => finding(State::Good),
    }
}

fn locked(limit: Limit, is_root: bool) -> Finding {
    let why = "for ISM(TRUE, lock = TRUE), and programs that lock their memory";
    let found = match (limit.soft, is_root) {
        (Some(limit), true) => format!(
            "{}, which does not hold for root",
            units::bytes(limit as f64)
        ),
        (soft, _) => bytes(soft),
    };
    let finding = Finding::new("locked memory", State::Note, found, why);
    match limit.soft {
        // For this shell only where the hard limit allows it; limits.conf is for the next login.
        Some(_) if !is_root => finding
            .command("echo \"$USER - memlock unlimited\" | sudo tee -a /etc/security/limits.conf"),
        _ => finding,
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

    fn soft(limit: u64) -> Limit {
        Limit {
            soft: Some(limit),
            hard: None,
        }
    }

    #[test]
    fn limits_in_force_are_found() {
        assert_eq!(address_space(soft(1 << 30)).state, State::Limited);
        assert_eq!(address_space(Limit::default()).found, "no limit");
        assert_eq!(
            descriptors(soft(64)).command.as_deref(),
            Some("ulimit -n 1024")
        );
        assert_eq!(descriptors(soft(1024)).state, State::Good);
        assert!(file_size(soft(0)).command.is_some());
        assert_eq!(locked(soft(8_000_000), false).found, "8.00 MB");
        let of_root = locked(soft(8_000_000), true);
        assert!(of_root.command.is_none() && of_root.found.contains("not hold for root"));
    }

    #[test]
    fn nobody_is_told_to_type_what_the_shell_refuses() {
        let hard = |hard| Limit {
            soft: Some(64),
            hard: Some(hard),
        };
        let command = |finding: Finding| finding.command.unwrap_or_default();
        assert_eq!(command(descriptors(hard(4096))), "ulimit -n 1024");
        assert!(command(descriptors(hard(64))).starts_with("ulimit -Hn "));
        assert!(command(address_space(hard(64))).starts_with("ulimit -Hv "));
    }
}
