//! Every command that reads traces, on damaged, foreign and hostile files: a result or a refusal in words, within little memory
//! and time, and no file left half-written. trace/metis/tests/fuzz.rs tries many more files on the reader alone.
//! `FUZZ_SEED=N FUZZ_ROUNDS=N` repeats a run, and makes a longer one.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../trace/format/tests/damage/mod.rs"]
mod damage;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::bench::Bench;
use common::{errors, stand_in, text};

/// Of address space, as tables alone may take a quarter of a gigabyte; and of processor time.
const LIMITS: [&str; 2] = ["--as=1073741824", "--cpu=30"];
/// The replay of some allocator came to an end before the trace did.
const STOPPED: i32 = 1;
const REFUSED: i32 = 125;

const COMMANDS: [&[&str]; 12] = [
    &["stat", "--json", "out", "x.trace"],
    &["stat", "--at", "pinned", "--split", "x.trace"],
    &["show", "--sites", "x.trace"],
    &["show", "--properties", "x.trace"],
    &["convert", "x.trace", "-o", "out.txt"],
    &["convert", "x.trace", "-o", "out.csv"],
    &["convert", "x.trace", "-o", "out.pb.gz"],
    &["convert", "x.trace", "-o", "out.trace"],
    &["simulate", "--once", "--json", "out", "x.trace"],
    &["group", "--json", "out", "x.trace"],
    &["replay", "--allocator", "glibc", "--json", "out", "x.trace"],
    &["report", "--html", "out.html", "x.trace"],
];

fn limited(bench: &Bench, words: &[&str]) -> Output {
    Command::new("prlimit")
        .args(LIMITS)
        .args(["--", env!("CARGO_BIN_EXE_pagewise"), "trace"])
        .args(words)
        .env("PAGEWISE_LIBRARY", stand_in())
        .current_dir(bench.path("."))
        .output()
        .expect("prlimit of util-linux")
}

/// Blocks of two threads, of which most are freed, with all that a recorder says about them.
fn native_text() -> String {
    let mut text = String::from("pagewise-trace 1 addresses\nproperty frees by-thread\n");
    for object in 1..=2000_u64 {
        if object % 9 == 0 {
            text.push_str("aligned 64\n");
        }
        let (site, size, address) = (object % 20, 16 + object % 300, object * 512);
        let thread = object % 2;
        writeln!(
            text,
            "allocate {object} {site} {size} {thread} {address:#x}"
        )
        .unwrap();
        if object > 50 && object % 8 > 0 {
            if object % 7 == 0 {
                text.push_str("resized\n");
            }
            writeln!(text, "free {}", object - 50).unwrap();
        }
        if object % 100 == 0 {
            writeln!(text, "time {}", object * 1000).unwrap();
        }
    }
    for site in 0..20 {
        writeln!(text, "site {site} type=- depth={site} class=64").unwrap();
        writeln!(
            text,
            "frame {site} symbol=f{site} file=a.c line=7 module=/lib/a build=00ff"
        )
        .unwrap();
    }
    text
}

fn whole_traces(bench: &Bench) -> Vec<Vec<u8>> {
    bench.convert("native", &native_text());
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/metis/samples");
    let java = ["compress.test.trace", "serial.train.trace"].map(|name| samples.join(name));
    // The native one twice as often: it is what most commands are for.
    let native = bench.path("native.trace");
    [&native, &native, &java[0], &native, &java[1]]
        .map(|file| fs::read(file).unwrap())
        .into()
}

/// Every command on x.trace.
fn survive(bench: &Bench, what: &str, bytes: &[u8]) -> usize {
    fs::write(bench.path("x.trace"), bytes).unwrap();
    let mut good = 0;
    for words in COMMANDS {
        let output = limited(bench, words);
        let (code, said) = (output.status.code(), errors(&output));
        let name = format!(
            "{what}: trace {}: {:?}: {said}",
            words.join(" "),
            output.status
        );
        assert!(!said.contains("panicked"), "{name}");
        assert!(matches!(code, Some(0 | STOPPED | REFUSED)), "{name}");
        let left: Vec<String> = bench
            .names()
            .into_iter()
            .filter(|name| name.contains("out"))
            .collect();
        if code == Some(REFUSED) {
            assert!(said.contains("try: "), "{name}");
            assert!(left.is_empty(), "{name}: {left:?} is left");
        }
        for file in left {
            fs::remove_file(bench.path(&file)).unwrap();
        }
        good += usize::from(code == Some(0));
    }
    good
}

#[test]
fn damaged_files_are_survived_by_every_command() {
    let number = |name, other| std::env::var(name).map_or(other, |text| text.parse().unwrap());
    let seed = number("FUZZ_SEED", fastrand::u64(..));
    let rounds = number("FUZZ_ROUNDS", 60);
    println!("FUZZ_SEED={seed}");
    let bench = Bench::new();
    let whole = whole_traces(&bench);
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        let (what, bytes) = damage::damaged(&whole, &mut fastrand::Rng::with_seed(seed));
        survive(
            &bench,
            &format!("{what} (FUZZ_SEED={seed} FUZZ_ROUNDS=1)"),
            &bytes,
        );
    }
}

/// Else nothing but refusals would be tried.
#[test]
fn whole_files_are_read_within_the_same_limits() {
    let bench = Bench::new();
    let whole = whole_traces(&bench);
    assert_eq!(survive(&bench, "native", &whole[0]), COMMANDS.len());
    // Of a collected program there is nothing to replay or to group, and no page is known: twice that is asked for.
    assert_eq!(survive(&bench, "java", &whole[2]), COMMANDS.len() - 4);
}

/// What damage by chance hardly ever makes.
#[test]
fn numbers_at_their_limits_are_survived() {
    let bench = Bench::new();
    let (most, thread) = (u64::MAX, u32::MAX);
    let huge = format!("allocate 1 0 {most} 0 0x0\n");
    let twice = format!("{huge}allocate 2 0 {most} 0 0x0\nallocate 3 1 {most} 1 {most:#x}\n");
    let many: String = (1..=3000)
        .map(|object| format!("allocate {object} 0 {} 0 0x0\n", 1_u64 << 40))
        .collect();
    let frame = format!(
        "site 0 type=- depth={most} class={most}\nframe {most:#x} symbol=f file=- line={} module=/a build=-\n",
        u32::MAX
    );
    for (what, lines) in [
        ("the largest block", format!("{huge}free 1\n")),
        ("more than an address space", format!("{twice}free 1\n")),
        ("many large blocks", format!("{many}{frame}")),
        ("a late time", format!("time {most}\n{huge}{frame}")),
        (
            "the last thread",
            format!("allocate 1 0 16 {thread} 0x10\n"),
        ),
        (
            "the largest counts",
            format!(
                "property dropped-allocations {most}\nproperty dropped-frees {most}\n\
                 property sample-bytes {most}\n{huge}"
            ),
        ),
    ] {
        let text = format!("pagewise-trace 1 addresses\n{lines}");
        fs::write(bench.path("limits.txt"), text).unwrap();
        let output = limited(&bench, &["convert", "limits.txt", "-o", "limits.trace"]);
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | REFUSED)),
            "{what}: {}",
            errors(&output)
        );
        if code == Some(0) {
            let bytes = fs::read(bench.path("limits.trace")).unwrap();
            survive(&bench, what, &bytes);
        }
    }
}

#[test]
fn a_text_may_end_or_be_damaged_anywhere() {
    let bench = Bench::new();
    let whole = native_text().into_bytes();
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..40 {
        let mut bytes = whole.clone();
        match round % 4 {
            0 => bytes.truncate(random.usize(..whole.len())),
            1 => bytes[random.usize(14..whole.len())] = random.u8(..),
            2 => drop(bytes.splice(100..100, vec![b'9'; 2 << 20])),
            _ => bytes
                .splice(40..40, b"\nproperty a %ff\n".iter().copied())
                .for_each(drop),
        }
        fs::write(bench.path("x.txt"), bytes).unwrap();
        let output = limited(&bench, &["convert", "x.txt", "-o", "out.trace"]);
        let name = format!("{round}: {}{}", text(&output), errors(&output));
        assert!(matches!(output.status.code(), Some(0 | REFUSED)), "{name}");
        let is_there = bench.path("out.trace").exists();
        assert_eq!(is_there, output.status.success(), "{name}");
        let _ = fs::remove_file(bench.path("out.trace"));
    }
}
