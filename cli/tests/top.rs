//! `pagewise top`: who runs under Pagewise, and what it is at.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

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
