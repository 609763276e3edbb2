//! `pagewise top`: who runs under Pagewise, and what it is at.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::copies::{BLOCK, COPIES, Copies};
use common::{output, pagewise, text};
use serde_json::Value;

fn processes() -> Vec<Value> {
    let found: Value = serde_json::from_slice(&output(&["top", "--json", "-"]).stdout).unwrap();
    assert_eq!(found["schema"], 1);
    found["processes"].as_array().unwrap().clone()
}

/// The stand-in stays mapped, and so shows who runs under it; it does not keep its block mapped, as the library does.
#[test]
fn processes_under_pagewise_are_listed_and_others_are_not() {
    let mut child = pagewise()
        .args(["run", "--quiet", "--", "sleep", "20.5"])
        .env("PAGEWISE_LIBRARY", common::stand_in_named_as_ours())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut plain = std::process::Command::new("sleep")
        .arg("20.25")
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let find = |command: &str| {
        let all = processes();
        let mut found = all.into_iter().filter(|one| one["command"] == command);
        found.next()
    };
    let found = loop {
        let found = find("sleep 20.5");
        if found.is_some() || begin.elapsed() > Duration::from_secs(20) {
            break found;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let other = find("sleep 20.25");
    let shown = text(&output(&["top", "--once"]));
    for process in [&mut child, &mut plain] {
        // SAFETY: both were started above.
        unsafe { libc::kill(process.id() as i32, libc::SIGTERM) };
        process.wait().unwrap();
    }
    let found = found.expect("the one under Pagewise");
    assert!(
        found["physical_bytes"].as_u64().unwrap() > 100_000,
        "{found}"
    );
    assert_eq!(found["name"], "sleep");
    assert_eq!(found["policy"], Value::Null);
    assert_eq!(other, None);
    assert!(
        shown.contains("sleep 20.5") && shown.contains("not told"),
        "{shown}"
    );
    assert!(!shown.contains("sleep 20.25"), "{shown}");
}

/// What the library's own block says, of a process that holds a block and three copies of it.
#[test]
fn what_copies_share_and_save_is_shown() {
    let Some(mut copies) = Copies::start() else {
        return;
    };
    let name = copies.name.clone();
    let look = || {
        let found = processes().into_iter().find(|one| one["name"] == *name);
        found.expect("the process under Pagewise")
    };
    let figure = |of: &Value, name: &str| of[name].as_u64().expect(name);
    let before = look();
    let line = output(&["top", "--once"]);
    copies.write();
    let after = look();
    copies.end();

    assert_eq!(before["policy"], "share", "{before}");
    let all = (COPIES + 1) * BLOCK;
    assert!(figure(&before, "live_bytes") >= all, "{before}");
    assert_close(figure(&before, "shared_bytes"), all, &before);
    assert_close(figure(&before, "snapshot_bytes"), BLOCK, &before);
    assert_close(figure(&before, "saved_bytes"), COPIES * BLOCK, &before);
    let physical = figure(&before, "physical_bytes");
    assert!((BLOCK..2 * BLOCK).contains(&physical), "{before}");

    let shown = text(&line);
    let mut shown = shown.lines().filter(|line| line.contains(&name));
    let shown: Vec<&str> = shown.next().expect("a line").split_whitespace().collect();
    assert_eq!(shown[1], "share");
    // 48 MiB of 64.
    assert_eq!(shown[4..8], ["50.3", "MB", "67.1", "MB"], "{shown:?}");

    // A copy that was written in full saves nothing, and takes its own memory.
    assert_close(figure(&after, "saved_bytes"), (COPIES - 1) * BLOCK, &after);
    assert_close(figure(&after, "physical_bytes"), physical + BLOCK, &after);
    let faults = figure(&after, "page_faults") - figure(&before, "page_faults");
    assert!(
        faults >= BLOCK / 4096 / 2,
        "{faults} page faults of the copy"
    );
}

/// To a sixteenth of a block: a block's first page holds more than the program's bytes, and tables have pages too.
fn assert_close(found: u64, expected: u64, all: &Value) {
    let difference = found.abs_diff(expected);
    assert!(
        difference <= BLOCK / 16,
        "{found} and not {expected}: {all}"
    );
}
