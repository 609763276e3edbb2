//! How the kernel hands out memory and mappings.

use super::files::Files;
use super::finding::{Finding, State};
use crate::report::units;

/// The kernel's default; each published object costs a mapping.
const ENOUGH_MAPPINGS: u64 = 65530;

pub fn findings(files: &Files) -> Vec<Finding> {
    vec![mappings(files), overcommit(files), swap(files)]
}

fn mappings(files: &Files) -> Finding {
    let why = "shared pages need mappings; sharing pauses when they run out";
    match files.number("/proc/sys/vm/max_map_count") {
        Some(count) if count < ENOUGH_MAPPINGS => {
            Finding::new("mappings", State::Limited, format!("at most {count}"), why)
                .command("sudo sysctl -w vm.max_map_count=262144")
        }
        Some(count) => Finding::new("mappings", State::Good, format!("at most {count}"), why),
        None => Finding::new("mappings", State::Note, "unknown", why),
    }
}

fn overcommit(files: &Files) -> Finding {
    let why = "shared copies may need memory later that is not taken now";
    match files.number("/proc/sys/vm/overcommit_memory") {
        Some(2) => Finding::new("overcommit", State::Limited, "never", why)
            .command("sudo sysctl -w vm.overcommit_memory=0"),
        Some(1) => Finding::new("overcommit", State::Good, "always", why),
        Some(_) => Finding::new("overcommit", State::Good, "within reason", why),
        None => Finding::new("overcommit", State::Note, "unknown", why),
    }
}

fn swap(files: &Files) -> Finding {
    let why = "swapped pages are reported beside physical memory";
    let total = files.text("/proc/meminfo").and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("SwapTotal:"))?;
        crate::measure::process_status::kilobytes(line)
    });
    let found = match total {
        Some(0) => "none".into(),
        Some(total) => units::bytes(total as f64),
        None => "unknown".into(),
    };
    Finding::new("swap", State::Note, found, why)
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::fake;
    use super::super::finding::tests::{find, state_of};
    use super::*;

    #[test]
    fn tight_settings_are_found() {
        let (_root, files) = fake(&[
            ("proc/sys/vm/max_map_count", "1000\n"),
            ("proc/sys/vm/overcommit_memory", "2\n"),
            ("proc/meminfo", "MemTotal: 1 kB\nSwapTotal:  2000 kB\n"),
        ]);
        let findings = findings(&files);
        assert_eq!(state_of(&findings, "mappings"), State::Limited);
        assert!(find(&findings, "overcommit").command.is_some());
        assert_eq!(find(&findings, "swap").found, "2.05 MB");
    }

    #[test]
    fn usual_settings_are_good() {
        let (_root, files) = fake(&[
            ("proc/sys/vm/max_map_count", "65530\n"),
            ("proc/sys/vm/overcommit_memory", "0\n"),
        ]);
        let findings = findings(&files);
        assert_eq!(state_of(&findings, "mappings"), State::Good);
        assert_eq!(state_of(&findings, "overcommit"), State::Good);
        assert_eq!(find(&findings, "swap").found, "unknown");
    }
}
