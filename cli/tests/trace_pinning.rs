//! `pagewise trace report` of programs whose pinning call site is known by construction (programs/pinning.cpp): does it
//! name the site, and is what it promises what the program gains with the site's blocks elsewhere?
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::bench::Bench;
use common::copies::skipped;
use common::{errors, own_file, recorder, text};

/// Of the real gain.
const TOLERANCE: f64 = 0.25;

/// The program, with its plugin beside it. None: there is no C++ compiler.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        compiled("pinning-plugin", "pinning.so", &["-O1", "-shared", "-fPIC"])?;
        compiled("pinning", "pinning", &["-O1", "-pthread"])
    });
    built.as_deref()
}

fn compiled(name: &str, to: &str, flags: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let built = own_file(to);
    let status = Command::new(compiler)
        .args(["-std=c++17", "-g", "-fno-optimize-sibling-calls", "-o"])
        .args([&built, &folder.join(format!("{name}.cpp"))])
        .args(flags)
        .status();
    let Ok(status) = status else {
        skipped("no C++ compiler");
        return None;
    };
    assert!(status.success(), "{name}.cpp");
    Some(built)
}

/// What is resident in the end, of the program that is recorded: the recorder's own memory is in both figures.
fn resident(bench: &Bench, options: &[&str], command: &[&str]) -> f64 {
    let output = bench.record(options, command);
    assert!(output.status.success(), "{}", errors(&output));
    let said = text(&output);
    let figure = said.strip_prefix("resident ").unwrap();
    1024.0 * figure.split(' ').next().unwrap().parse::<f64>().unwrap()
}

/// As reports write them.
fn bytes(amount: &str) -> f64 {
    let (number, unit) = amount.split_once(' ').unwrap();
    let factor = match unit {
        "bytes" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => panic!("{amount}"),
    };
    factor * number.parse::<f64>().unwrap()
}

fn check(shape: &str, site: &str) {
    if let Some(program) = program() {
        check_of(program, &[], shape, site);
    }
}

fn check_of(program: &Path, options: &[&str], shape: &str, site: &str) {
    let bench = Bench::new().with("PAGEWISE_RECORD_LIBRARY", recorder());
    let program = program.to_str().unwrap();
    let elsewhere = resident(&bench, options, &[program, shape, "elsewhere"]);
    let gain = resident(&bench, options, &[program, shape]) - elsewhere;
    let shown = text(&bench.run(&["report", "x.trace"]));
    let answer = shown.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(answer.starts_with(site), "{shown}");
    assert!(answer.contains(" pins most: its "), "{shown}");
    let (_, rest) = answer.split_once("With its blocks elsewhere, ").unwrap();
    let promised = bytes(rest.split(" of ").next().unwrap());
    assert!(
        (promised - gain).abs() <= TOLERANCE * gain,
        "promised {promised}, gained {gain}: {shown}"
    );
    // What is not of the allocator that was recorded is said to be a model's.
    for sentence in answer
        .split(". ")
        .filter(|one| one.contains("size classes"))
    {
        assert!(sentence.contains("model"), "{sentence}");
    }
}

#[test]
fn of_equal_sizes() {
    check("equal", "keep_session (pinning.cpp:");
}

#[test]
fn of_two_sizes() {
    check("sizes", "keep_session (pinning.cpp:");
}

#[test]
fn in_threads_of_their_own_arenas() {
    check("threads", "keep_session (pinning.cpp:");
}

#[test]
fn in_threads_that_share_arenas() {
    check("arenas", "keep_session (pinning.cpp:");
}

#[test]
fn by_realloc() {
    check("realloc", "keep_history (pinning.cpp:");
}

#[test]
fn in_a_plugin() {
    check("plugins", "keep_of_plugin (pinning-plugin.cpp:");
}

/// Which std::list takes by operator new, in functions of its own.
#[test]
fn as_nodes_of_a_container() {
    check("nodes", "keep_visit (pinning.cpp:");
}

/// Not inlined, those functions are frames of their own, and with --stacks there are others behind them.
#[test]
fn as_nodes_of_a_container_that_nothing_is_inlined_into() {
    if let Some(program) = compiled("pinning", "pinning-plain", &["-O0", "-pthread"]) {
        check_of(&program, &["--stacks"], "nodes", "keep_visit (");
    }
}

#[test]
fn among_large_requests() {
    check("burst", "keep_record (pinning.cpp:");
}
