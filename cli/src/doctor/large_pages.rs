//! What the ISM calls' administration pages ask for, on the Linux of today (ism-large-pages): the
//! hugetlb pool, its groups, shared memory limits.

use super::files::Files;
use super::finding::{Finding, State};
use crate::measure::page_map::page_size;
use crate::report::units;

const POOLS: &str = "/sys/kernel/mm/hugepages";
const GIGABYTE_POOL: &str = "hugepages-1048576kB";
/// Enough for a segment of 4 GB, the largest of the slides.
const ENOUGH_SHARED: u64 = 4 << 30;

pub fn findings(files: &Files) -> Vec<Finding> {
    vec![
        pool(files),
        gigabyte_pool(files),
        surplus(files),
        group(files),
        shared_segment(files),
        shared_in_all(files),
    ]
}

fn pool(files: &Files) -> Finding {
    let why = "ISM(TRUE, pages = \"hugetlb\") takes pages of it; nothing else of ours does";
    let path = "/proc/sys/vm/nr_hugepages";
    let free = files.number(&format!("{POOLS}/hugepages-2048kB/free_hugepages"));
    match (files.number(path), free) {
        (Some(0), _) => Finding::new("hugetlb pool", State::Note, "empty", why)
            .command("sudo sysctl -w vm.nr_hugepages=1024"),
        (Some(pages), Some(0)) => {
            let found = format!("{pages} pages, all in use");
            Finding::new("hugetlb pool", State::Limited, found, why)
                .command(format!("sudo sysctl -w vm.nr_hugepages={}", pages * 2))
        }
        (Some(pages), free) => {
            let free = free.map_or(String::new(), |free| format!(", {free} free"));
            Finding::new(
                "hugetlb pool",
                State::Good,
                format!("{pages} pages{free}"),
                why,
            )
        }
        (None, _) => Finding::new("hugetlb pool", State::Note, "not in this kernel", why),
    }
}

fn gigabyte_pool(files: &Files) -> Finding {
    let why = "for ISM(TRUE, pages = \"hugetlb-1g\")";
    let path = format!("{POOLS}/{GIGABYTE_POOL}/nr_hugepages");
    match files.number(&path) {
        Some(0) => Finding::new("1 GB pages", State::Note, "none reserved", why)
            .command(format!("echo 4 | sudo tee {path}")),
        Some(pages) => Finding::new("1 GB pages", State::Good, format!("{pages} reserved"), why),
        None => Finding::new("1 GB pages", State::Note, "not on this processor", why),
    }
}

fn surplus(files: &Files) -> Finding {
    let why = "pages that the hugetlb pool may take from free memory when it is empty";
    match files.number("/proc/sys/vm/nr_overcommit_hugepages") {
        Some(0) => Finding::new("hugetlb surplus", State::Note, "none", why)
            .command("sudo sysctl -w vm.nr_overcommit_hugepages=1024"),
        Some(pages) => {
            let found = format!("at most {pages} pages");
            Finding::new("hugetlb surplus", State::Good, found, why)
        }
        None => Finding::new("hugetlb surplus", State::Note, "unknown", why),
    }
}

fn group(files: &Files) -> Finding {
    let why = "who may use the pool for System V segments, as the ISM calls did; Pagewise maps it without";
    let found = match files.number("/proc/sys/vm/hugetlb_shm_group") {
        Some(0) => "root only".into(),
        Some(group) => format!("group {group}"),
        None => "unknown".into(),
    };
    Finding::new("hugetlb group", State::Note, found, why)
}

fn shared_segment(files: &Files) -> Finding {
    let why = "kernel.shmmax, for programs with System V segments; Pagewise makes none";
    match files.number("/proc/sys/kernel/shmmax") {
        Some(limit) if limit < ENOUGH_SHARED => {
            let found = units::bytes(limit as f64);
            Finding::new("shared segment", State::Limited, found, why)
                .command("sudo sysctl -w kernel.shmmax=18446744073692774399")
        }
        Some(_) => Finding::new("shared segment", State::Good, "no limit worth naming", why),
        None => Finding::new("shared segment", State::Note, "unknown", why),
    }
}

fn shared_in_all(files: &Files) -> Finding {
    let why = "kernel.shmall in bytes, for the same programs";
    match files.number("/proc/sys/kernel/shmall") {
        Some(pages) if pages < ENOUGH_SHARED / page_size() => {
            let found = units::bytes((pages * page_size()) as f64);
            Finding::new("shared in all", State::Limited, found, why)
                .command("sudo sysctl -w kernel.shmall=18446744073692774399")
        }
        Some(_) => Finding::new("shared in all", State::Good, "no limit worth naming", why),
        None => Finding::new("shared in all", State::Note, "unknown", why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::fake;
    use super::super::finding::tests::{find, state_of};
    use super::*;

    #[test]
    fn an_old_machine_is_told_what_to_type() {
        let (_root, files) = fake(&[
            ("proc/sys/vm/nr_hugepages", "0\n"),
            ("proc/sys/kernel/shmmax", "33554432\n"),
            ("proc/sys/kernel/shmall", "2097\n"),
            ("proc/sys/vm/hugetlb_shm_group", "1000\n"),
        ]);
        let findings = findings(&files);
        let command = |name| find(&findings, name).command.clone().unwrap_or_default();
        assert!(command("hugetlb pool").ends_with("vm.nr_hugepages=1024"));
        assert!(command("shared segment").contains("kernel.shmmax="));
        assert!(command("shared in all").contains("kernel.shmall="));
        assert_eq!(find(&findings, "hugetlb group").found, "group 1000");
        assert_eq!(find(&findings, "1 GB pages").found, "not on this processor");
    }

    #[test]
    fn a_pool_in_use_is_told_from_one_with_free_pages() {
        let free = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
        let (_root, files) = fake(&[("proc/sys/vm/nr_hugepages", "8\n"), (free, "0\n")]);
        assert_eq!(state_of(&findings(&files), "hugetlb pool"), State::Limited);
        let (_root, files) = fake(&[("proc/sys/vm/nr_hugepages", "8\n"), (free, "3\n")]);
        assert_eq!(
            find(&findings(&files), "hugetlb pool").found,
            "8 pages, 3 free"
        );
    }

    #[test]
    fn what_is_shared_in_all_is_counted_in_the_kernels_pages() {
        let enough = ENOUGH_SHARED / page_size();
        for (pages, state) in [(enough - 1, State::Limited), (enough, State::Good)] {
            let (_root, files) = fake(&[("proc/sys/kernel/shmall", &pages.to_string())]);
            assert_eq!(state_of(&findings(&files), "shared in all"), state);
        }
    }

    #[test]
    fn limits_of_today_are_good() {
        let huge = "18446744073692774399\n";
        let (_root, files) = fake(&[
            ("proc/sys/kernel/shmmax", huge),
            ("proc/sys/kernel/shmall", huge),
        ]);
        assert_eq!(state_of(&findings(&files), "shared segment"), State::Good);
        assert_eq!(state_of(&findings(&files), "shared in all"), State::Good);
    }
}
