//! Physical memory is right for programs whose footprint is known by construction.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{figures, footprint, is_root};

const MEGABYTE: f64 = 1048576.0;
const SIZE: f64 = 64.0;
/// Page tables of the allocator, stack, and what the loader does differently from run to run.
const TOLERANCE: f64 = 0.75;
/// Pss divides the C library's pages among all processes of the machine, whose number changes meanwhile, and is
/// read of one process after the other.
const TOLERANCE_OF_PSS: f64 = 10.0;

fn samplers() -> &'static [&'static str] {
    if is_root() {
        &["frames", "pss", "counters"]
    } else {
        &["pss", "counters"]
    }
}

/// Peak of a shape above that of a program that does nothing.
fn peak(sampler: &str, shape: &str) -> f64 {
    let program = footprint().to_str().unwrap();
    let measure = |shape: &str| {
        let options = ["--policy", "plain", "--sampler", sampler];
        // On a busy machine half a second may go by with hardly a sample.
        let found = (0..5)
            .map(|_| figures(&options, &[program, shape, "64"]))
            .find(|found| found["samples"].as_u64().unwrap() > 3)
            .expect("samples");
        assert_eq!(found["sampler"], sampler);
        assert_eq!(found["exit_status"], 0, "{shape}");
        found["peak_bytes"]["mean"].as_f64().unwrap() / MEGABYTE
    };
    measure(shape) - measure("nothing")
}

fn expect(shape: &str, megabytes: f64) {
    expect_by(samplers(), shape, megabytes);
}

fn expect_by(samplers: &[&str], shape: &str, megabytes: f64) {
    for sampler in samplers {
        let found = peak(sampler, shape);
        // What forked processes share is estimated by proportional sizes.
        let tolerance = match (*sampler, shape) {
            ("pss", _) | ("counters", "forked") => TOLERANCE_OF_PSS,
            _ => TOLERANCE,
        };
        assert!(
            (found - megabytes).abs() < tolerance,
            "{shape} by {sampler}: {found:.2} MB instead of {megabytes}"
        );
    }
}

#[test]
fn touched_anonymous_memory() {
    expect("anonymous", SIZE);
}

/// The kernel's own peak of the process is known at its end, even where no look has found as much.
#[test]
fn a_peak_between_two_looks_is_found_by_counters() {
    let found = peak("counters", "brief");
    assert!((found - SIZE).abs() < TOLERANCE, "{found:.2} MB");
}

/// Of libraries that a program maps after it has begun too.
#[test]
fn little_of_a_file_counts_at_once() {
    let found = peak("counters", "mapped-late");
    assert!((found - 0.75).abs() < 0.3, "{found:.2} MB");
}

#[test]
fn untouched_reservations_cost_nothing() {
    expect("reserved", SIZE);
}

#[test]
fn the_zero_page_is_no_memory() {
    expect("zeros-read", 0.0);
}

#[test]
fn a_page_mapped_twice_counts_once() {
    expect("mapped-twice", SIZE);
}

#[test]
fn huge_pages() {
    expect("huge", SIZE);
}

#[test]
fn published_and_unmapped() {
    expect("snapshot-unmapped", SIZE);
}

#[test]
fn published_and_shared_by_four_copies() {
    expect("snapshot-shared", SIZE);
}

#[test]
fn published_and_mapped_in_part() {
    expect("snapshot-partly", SIZE);
}

#[test]
fn published_and_half_written() {
    expect("snapshot-written", SIZE * 1.5);
}

#[test]
fn published_and_half_punched() {
    expect("snapshot-punched", SIZE / 2.0);
}

/// Only root can follow a mapping to its file once the descriptor is gone, and only page frames are looked for there.
#[test]
fn published_and_the_descriptor_closed() {
    if is_root() {
        expect_by(&["frames"], "snapshot-closed", SIZE);
    }
}

#[test]
fn forked_children_share_until_they_write() {
    expect("forked", SIZE * 1.5);
}

#[test]
fn a_daemon_is_still_counted() {
    expect("orphaned", SIZE);
}

#[test]
fn a_vforked_child_is_its_parents_memory() {
    expect("vforked", SIZE);
}

#[test]
fn pages_of_the_hugetlb_pool_count() {
    let pages = Path::new("/proc/sys/vm/nr_hugepages");
    let before = std::fs::read_to_string(pages).unwrap_or_default();
    if !is_root() || before.trim() != "0" {
        return; // Somebody else's pool.
    }
    std::fs::write(pages, "40").unwrap();
    let has_pool = std::fs::read_to_string(pages).unwrap().trim() == "40";
    let found: Vec<f64> = samplers()
        .iter()
        .map(|s| if has_pool { peak(s, "pool") } else { SIZE })
        .collect();
    std::fs::write(pages, "0").unwrap();
    for found in found {
        assert!((found - SIZE).abs() < TOLERANCE, "{found:.2} MB");
    }
}

#[test]
fn the_average_is_between_nothing_and_the_peak() {
    let script = "sleep 0.5; exec \"$0\" anonymous 64";
    let program = footprint().to_str().unwrap();
    let found = figures(&["--policy", "plain"], &["sh", "-c", script, program]);
    let average = found["average_bytes"]["mean"].as_f64().unwrap() / MEGABYTE;
    assert!(average > 20.0 && average < 50.0, "{average:.1} MB");
}

#[test]
fn the_kernels_own_peak_agrees() {
    let program = footprint().to_str().unwrap();
    let found = figures(
        &["--policy", "plain", "--exact"],
        &[program, "anonymous", "64"],
    );
    if let Some(peak) = found["cgroup_peak_bytes"].as_f64() {
        let sampled = found["peak_bytes"]["mean"].as_f64().unwrap();
        assert!((peak - sampled).abs() < 6.0 * MEGABYTE, "{peak} {sampled}");
    }
}

#[test]
fn as_nobody() {
    let json = tempfile::tempdir().unwrap();
    let path = json.path().join("figures.json");
    if !is_root()
        || !Command::new("setpriv")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    {
        return;
    }
    // Copies that nobody can reach, wherever the build lies.
    let folder = tempfile::tempdir().unwrap();
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open.clone()).unwrap();
    std::fs::set_permissions(json.path(), open).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        std::fs::copy(from, &to).unwrap();
        to
    };
    let pagewise = copy(Path::new(env!("CARGO_BIN_EXE_pagewise")), "pagewise");
    let program = copy(footprint(), "footprint");
    for (shape, expected) in [
        ("snapshot-written", 96.0),
        ("anonymous", 64.0),
        ("huge", 64.0),
    ] {
        let status = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(&pagewise)
            .args(["run", "--quiet", "--exact", "--policy", "plain", "--json"])
            .arg(&path)
            .arg("--")
            .arg(&program)
            .args([shape, "64"])
            .env_remove("XDG_RUNTIME_DIR")
            .status()
            .unwrap();
        assert!(status.success());
        let found = common::read_json(&path);
        assert_eq!(found["sampler"], "pss");
        assert_eq!(found["cgroup_peak_bytes"], serde_json::Value::Null);
        let peak = found["peak_bytes"]["mean"].as_f64().unwrap() / MEGABYTE;
        assert!((peak - expected).abs() < 2.5, "{shape}: {peak:.1} MB");
    }
}
