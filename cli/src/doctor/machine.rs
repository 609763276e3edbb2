//! Huge pages, page merging, memory cgroups and pressure information.

use super::files::Files;
use super::finding::{Finding, State};
use crate::ksm;
use crate::measure::cgroup;
use crate::report::units;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const KSM: &str = "/sys/kernel/mm/ksm";

pub fn findings(files: &Files) -> Vec<Finding> {
    let mut findings = vec![
        user(),
        huge_pages(files),
        huge_page_effort(files),
        huge_shared(files),
        merging(files),
    ];
    findings.extend(killed_run());
    findings.push(memory_group(files));
    findings.push(pressure(files));
    findings
}

fn user() -> Finding {
    // To run somebody's script as root for better figures is no advice.
    let why = "nothing needs root but the ksm policies and a count of page frames";
    let found = match nix::unistd::geteuid().is_root() {
        true => "root",
        false => "not root",
    };
    Finding::new("user", State::Note, found, why)
}

fn huge_pages(files: &Files) -> Finding {
    let why = "the policies huge and auto ask for them";
    let path = format!("{THP}/enabled");
    match files.choice(&path) {
        Some(choice) if choice == "never" => {
            Finding::new("huge pages", State::Limited, choice, why)
                .command(format!("echo madvise | sudo tee {path}"))
        }
        Some(choice) => Finding::new("huge pages", State::Good, choice, why),
        None => Finding::new("huge pages", State::Limited, "not in this kernel", why),
    }
}

fn huge_page_effort(files: &Files) -> Finding {
    let why = "whether a program waits while the kernel makes room for a huge page";
    let path = format!("{THP}/defrag");
    match files.choice(&path) {
        Some(choice) if choice == "never" => {
            Finding::new("huge page effort", State::Limited, choice, why)
                .command(format!("echo madvise | sudo tee {path}"))
        }
        Some(choice) => Finding::new("huge page effort", State::Good, choice, why),
        None => Finding::new("huge page effort", State::Note, "unknown", why),
    }
}

fn huge_shared(files: &Files) -> Finding {
    let why = "snapshots in huge pages; not needed";
    let choice = files.choice(&format!("{THP}/shmem_enabled"));
    Finding::new(
        "huge shared pages",
        State::Note,
        choice.unwrap_or_else(|| "unknown".into()),
        why,
    )
}

fn merging(files: &Files) -> Finding {
    let why = "for the policies ksm and ksm-aggressive, which switch it on and off themselves";
    match files.text(&format!("{KSM}/run")).as_deref() {
        Some(_) if !nix::unistd::geteuid().is_root() => {
            Finding::new("page merging", State::Note, "there, for root", why)
        }
        Some("1") => Finding::new("page merging", State::Note, "on", why)
            .command(format!("echo 0 | sudo tee {KSM}/run")),
        Some(_) => Finding::new("page merging", State::Good, "there, off now", why),
        None => Finding::new("page merging", State::Note, "not in this kernel", why),
    }
}

fn killed_run() -> Option<Finding> {
    let saved = ksm::Places::default().left_by_killed_run()?;
    let why = "the next ksm run puts it back, or you";
    let found = "a killed run has left it switched on";
    Some(Finding::new("page merging state", State::Bad, found, why).command(saved.commands()))
}

fn memory_group(files: &Files) -> Finding {
    let why = "the kernel's own peak as a cross-check; a limit holds for snapshots too";
    let Some(location) = cgroup::own_location(files.root()) else {
        return Finding::new("memory cgroup", State::Note, "none", why);
    };
    let version = if location.is_v2 { "v2" } else { "v1" };
    let found = match cgroup::limit(&location) {
        Some(limit) => format!("{version}, limited to {}", units::bytes(limit as f64)),
        None => format!("{version}, no limit"),
    };
    Finding::new("memory cgroup", State::Good, found, why)
}

fn pressure(files: &Files) -> Finding {
    let why = "warm pages are given back when memory gets short";
    match files.text("/proc/pressure/memory") {
        Some(_) => Finding::new("pressure information", State::Good, "there", why),
        None if files.text("/etc/default/grub").is_some() => {
            Finding::new("pressure information", State::Limited, "off", why).command(
                "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&psi=1 /' /etc/default/grub && sudo update-grub && sudo reboot",
            )
        }
        None => {
            let found = "off (psi=1 on the kernel's command line switches it on)";
            Finding::new("pressure information", State::Limited, found, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::fake;
    use super::super::finding::tests::{find, state_of};
    use super::*;

    #[test]
    fn huge_pages_that_are_off_can_be_switched_on() {
        let (_root, files) = fake(&[(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]\n",
        )]);
        let findings = findings(&files);
        let finding = find(&findings, "huge pages");
        assert_eq!(finding.state, State::Limited);
        assert_eq!(
            finding.command.as_deref(),
            Some("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
        );
    }

    #[test]
    fn huge_pages_that_are_on_are_left_alone() {
        let (_root, files) = fake(&[(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        )]);
        let findings = findings(&files);
        assert_eq!(state_of(&findings, "huge pages"), State::Good);
        assert_eq!(state_of(&findings, "pressure information"), State::Limited);
    }

    #[test]
    fn a_cgroup_limit_is_shown() {
        let (_root, files) = fake(&[
            ("proc/self/cgroup", "0::/job\n"),
            (
                "proc/self/mounts",
                "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            ),
            ("sys/fs/cgroup/job/memory.max", "1000000000\n"),
        ]);
        assert_eq!(memory_group(&files).found, "v2, limited to 1.00 GB");
    }
}
