//! `pagewise compare`: alternates, checks, and claims no more than it measured.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use common::{errors, pagewise, read_json, text};
use serde_json::Value;

struct Compared {
    output: Output,
    json: Value,
}

fn compare(options: &[&str], command: &[&str]) -> Compared {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("x.json");
    let output = pagewise()
        .args(["compare", "--json", json.to_str().unwrap()])
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    let json = if json.exists() {
        read_json(&json)
    } else {
        Value::Null
    };
    Compared { output, json }
}

#[test]
fn the_json_file_follows_the_schema() {
    let compared = compare(
        &["--runs", "3", "--with", "plain,plain,auto,share"],
        &["sh", "-c", "echo same; sleep 0.1"],
    );
    assert_eq!(
        compared.output.status.code(),
        Some(0),
        "{}",
        errors(&compared.output)
    );
    let json = compared.json;
    assert_eq!((&json["schema"], &json["runs"]), (&1.into(), &3.into()));
    assert_eq!(json["command"][0], "sh");
    let names: Vec<&str> = json["configurations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["plain", "plain#2", "auto", "share"]);
    for configuration in json["configurations"].as_array().unwrap() {
        for figure in ["peak_bytes", "average_bytes", "cpu_seconds", "wall_seconds"] {
            let part = |name: &str| configuration[figure][name].as_f64().unwrap();
            assert!(part("low") <= part("mean") && part("mean") <= part("high"));
        }
        assert_eq!(configuration["output_matches"], true);
        assert_eq!(configuration["exit_status"], 0);
        assert_eq!(configuration["measurements"].as_array().unwrap().len(), 3);
        for field in ["swap_bytes", "samples", "missed_samples"] {
            assert!(configuration[field].is_u64(), "{field}");
        }
        assert!(["frames", "pss"].contains(&configuration["sampler"].as_str().unwrap()));
    }
    let ratios = json["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 3);
    for ratio in ratios {
        assert_eq!(ratio["to"], "plain");
        for figure in ["peak", "average", "cpu", "wall"] {
            assert!(ratio[figure]["mean"].as_f64().unwrap() > 0.0);
        }
    }
    assert_eq!(json["aa_control"], serde_json::json!(["plain", "plain#2"]));
    let said = text(&compared.output);
    assert!(
        said.contains("auto / plain") && said.contains("undecided"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "colour only on a terminal");
}

#[test]
fn a_real_difference_is_claimed_with_its_reason() {
    // Under auto, PAGEWISE_OPTIONS is set: the stand-in saves nothing, so the program itself does.
    let script =
        "if [ -n \"$PAGEWISE_OPTIONS\" ]; then m=8; else m=64; fi; exec \"$0\" anonymous $m";
    let program = common::footprint().to_str().unwrap();
    let compared = compare(
        &["--runs", "3", "--with", "plain,plain,auto"],
        &["sh", "-c", script, program],
    );
    let said = text(&compared.output);
    assert!(said.contains("auto used .1"), "{said}");
    assert!(
        said.contains("of plain's peak: 3.90 GB of copies shared their pages"),
        "{said}"
    );
    let ratio = &compared.json["ratios"][1];
    assert!(ratio["peak"]["mean"].as_f64().unwrap() < 0.2);
    assert!(
        !ratio["undecided"]
            .as_array()
            .unwrap()
            .contains(&"peak".into())
    );
}

#[test]
fn differing_output_is_said_loudly() {
    let script = "echo one; echo \"two$PAGEWISE_OPTIONS\" | cut -c 1-4; sleep 0.05";
    let compared = compare(&["--runs", "2"], &["sh", "-c", script]);
    assert_eq!(compared.output.status.code(), Some(1));
    let said = errors(&compared.output);
    assert!(
        said.contains("OUTPUT DIFFERS: auto") && said.contains("line 2 (byte 8)"),
        "{said}"
    );
    assert_eq!(compared.json["configurations"][0]["output_matches"], true);
    assert_eq!(compared.json["configurations"][1]["output_matches"], false);
}

#[test]
fn output_that_always_changes_is_not_blamed_on_us() {
    let compared = compare(&["--runs", "2"], &["sh", "-c", "date +%N"]);
    assert_eq!(compared.output.status.code(), Some(1));
    assert!(errors(&compared.output).contains("plain itself changes from run to run"));
}

/// Plain ran once: it is run once more, and that run counts in no figure.
#[test]
fn one_run_that_differs_is_looked_into() {
    let compared = compare(&["--runs", "1"], &["sh", "-c", "date +%N"]);
    assert_eq!(compared.output.status.code(), Some(1));
    let said = errors(&compared.output);
    assert!(said.contains("plain once more"), "{said}");
    assert!(
        said.contains("plain itself changes from run to run"),
        "{said}"
    );
    assert!(said.contains("set.seed(1)"), "{said}");
    for configuration in compared.json["configurations"].as_array().unwrap() {
        assert_eq!(configuration["measurements"].as_array().unwrap().len(), 1);
    }

    let ours = compare(&["--runs", "1"], &["sh", "-c", "echo $PAGEWISE_OPTIONS"]);
    assert_eq!(ours.output.status.code(), Some(1));
    let said = errors(&ours.output);
    assert!(
        said.contains("the difference comes from the other configuration"),
        "{said}"
    );

    let equal = compare(&["--runs", "1"], &["echo", "the same"]);
    assert_eq!(equal.output.status.code(), Some(0));
    assert!(!errors(&equal.output).contains("once more"));
}

#[test]
fn few_pairs_are_shown_and_have_no_interval() {
    let compared = compare(&["--runs", "2"], &["sh", "-c", "sleep 0.05"]);
    let said = text(&compared.output);
    for shown in [
        "run 1",
        "run 2",
        "pair 1",
        "pair 2",
        "Too few for an interval",
    ] {
        assert!(said.contains(shown), "{shown}: {said}");
    }
    assert!(!said.contains('–'), "an interval: {said}");
    assert!(
        said.contains("Next: pagewise compare --runs 5 -- sh -c 'sleep 0.05'"),
        "{said}"
    );
    let pairs = compared.json["ratios"][0]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);

    let enough = text(&compare(&["--runs", "5"], &["sleep", "0.02"]).output);
    assert!(
        enough.contains('–') && !enough.contains("run 1"),
        "{enough}"
    );
}

#[test]
fn how_often_the_command_will_run_is_said_before_it_does() {
    let said = errors(&compare(&["--runs", "1"], &["sh", "-c", "sleep 0.05"]).output);
    let place = |what| said.find(what).unwrap_or_else(|| panic!("{what}: {said}"));
    assert!(
        place("will be run 2 times") < place("round 1 of 1"),
        "{said}"
    );
}

#[test]
fn what_the_machine_did_besides_is_in_the_json() {
    let load = &compare(&["--runs", "1"], &["true"]).json["load"];
    assert!(load["processors"].as_u64().unwrap() >= 1);
    assert!(load["others"].as_f64().unwrap() >= 0.0);
}

#[test]
fn a_command_that_cannot_be_run_twice_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let compared = compare(&["--runs", "3"], &["mkdir", made.to_str().unwrap()]);
    assert_eq!(compared.output.status.code(), Some(2));
    let said = errors(&compared.output);
    assert!(
        said.contains("plain, run once more, failed as well"),
        "{said}"
    );
    assert!(!said.contains("bug of pagewise"), "{said}");
}

#[test]
fn files_that_a_run_writes_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("input.txt"), "of the user").unwrap();
    let run = |script: &str| {
        let pattern = folder.path().join("*.txt");
        let script = format!("cd {}; {script}", folder.path().display());
        compare(
            &["--runs", "2", "--files", pattern.to_str().unwrap()],
            &["sh", "-c", &script],
        )
    };
    let same = run("rm -f out.txt; echo 1 > out.txt");
    assert_eq!(
        same.output.status.code(),
        Some(0),
        "{}",
        errors(&same.output)
    );
    assert_eq!(same.json["configurations"][1]["files_match"], true);

    let other = run("rm -f out.txt; echo 1 > out.txt; echo x$LD_PRELOAD >> out.txt");
    assert_eq!(other.output.status.code(), Some(1));
    let said = errors(&other.output);
    assert!(said.contains("FILES DIFFER: auto wrote"), "{said}");
    assert!(said.contains("out.txt otherwise"), "{said}");
    assert!(said.contains("line 2 (byte 4)"), "{said}");
    assert_eq!(other.json["configurations"][0]["files_match"], true);
    assert_eq!(other.json["configurations"][1]["files_match"], false);
    assert_eq!(other.json["configurations"][1]["output_matches"], true);

    let none = compare(&["--runs", "1"], &["true"]);
    assert_eq!(none.json["configurations"][0]["files_match"], Value::Null);
    let wrong = compare(&["--files", "a/["], &["true"]);
    assert_eq!(wrong.output.status.code(), Some(125));
}

#[test]
fn failed_runs_have_no_ratios() {
    let script = "echo some trouble >&2; test -z \"$PAGEWISE_OPTIONS\"";
    let compared = compare(&["--runs", "4"], &["sh", "-c", script]);
    assert_eq!(compared.output.status.code(), Some(2));
    assert!(text(&compared.output).is_empty());
    let said = errors(&compared.output);
    assert!(
        said.contains("plain: succeeded") && said.contains("auto: exit status 1"),
        "{said}"
    );
    assert!(said.contains("| some trouble"), "{said}");
    assert!(said.contains("report this as a bug"), "{said}");
    assert_eq!(compared.json["ratios"], serde_json::json!([]));
    assert_eq!(compared.json["configurations"][1]["exit_status"], 1);
    // The first round has shown it: no more are run.
    assert_eq!(
        compared.json["configurations"][0]["measurements"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_killed_run_is_named() {
    let compared = compare(&["--runs", "1"], &["sh", "-c", "kill -SEGV $$"]);
    assert_eq!(compared.output.status.code(), Some(2));
    assert!(errors(&compared.output).contains("killed by signal 11 (SIGSEGV)"));
    assert_eq!(compared.json["configurations"][0]["exit_status"], 139);
    assert_eq!(compared.json["configurations"][0]["signal"], 11);
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_its_processes() {
    let compared = compare(
        &["--runs", "1", "--timeout-seconds", "1", "--with", "plain"],
        &["sh", "-c", "trap '' TERM; sleep 30 & sleep 30; sleep 30"],
    );
    assert_eq!(compared.output.status.code(), Some(2));
    assert!(errors(&compared.output).contains("did not end in time"));
    assert_eq!(compared.json["configurations"][0]["timed_out"], true);
}

#[test]
fn a_deadline_beyond_all_time_is_none() {
    let most = u64::MAX.to_string();
    let options = ["--runs", "1", "--timeout-seconds", &most];
    let compared = compare(&options, &["sleep", "0.05"]);
    assert_eq!(
        compared.output.status.code(),
        Some(0),
        "{}",
        errors(&compared.output)
    );
}

#[test]
fn json_on_standard_output_is_alone_there() {
    let options = ["compare", "--quiet", "--runs", "1", "--json", "-"];
    let output = pagewise()
        .args(options)
        .args(["--", "sleep", "0.05"])
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    assert_eq!(json["runs"], 1);
}

#[test]
fn the_table_is_there_when_the_file_cannot_be_written() {
    let options = ["compare", "--quiet", "--runs", "1", "--json", "/dev/full"];
    let output = pagewise()
        .args(options)
        .args(["--", "sleep", "0.05"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output).contains("auto / plain"), "{}", text(&output));
    let said = errors(&output);
    assert!(said.contains("cannot write /dev/full"), "{said}");
    assert!(said.contains("figures are on standard output"), "{said}");
}

/// A shell's background process becomes this one's child by exec.
#[test]
fn processes_that_were_there_before_are_neither_counted_nor_ended() {
    let script = "sleep 5 > /dev/null 2>&1 & echo $!; exec \"$0\" compare --quiet --runs 1 --with plain --json - -- sh -c 'sleep 0.1'";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_pagewise")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = text(&output);
    let (process, json) = said.split_once('\n').unwrap();
    let process = nix::unistd::Pid::from_raw(process.parse().unwrap());
    let is_alive = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).is_ok();
    assert!(is_alive, "{}", errors(&output));
    let json: Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["configurations"][0]["left_over_processes"], 0);
}

#[test]
fn every_run_gets_the_same_input() {
    let mut child = pagewise()
        .args([
            "compare",
            "--runs",
            "2",
            "--quiet",
            "--",
            "sh",
            "-c",
            "wc -c; sleep 0.05",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&[7; 100_000])
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(errors(&output).is_empty());
}

#[test]
fn configurations_alternate() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = "o=${PAGEWISE_OPTIONS#policy=}; echo \"${o%%,*}\" >> \"$0\"";
    compare(
        &["--runs", "3", "--with", "plain,auto,share"],
        &["sh", "-c", script, log.to_str().unwrap()],
    );
    let order = fs::read_to_string(log).unwrap().replace('\n', " ");
    assert_eq!(order, " auto share share auto   auto share ");
}

#[test]
fn processes_left_over_by_a_run_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = "(trap 'echo ended >> \"$0\"; exit' TERM; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3; done) & sleep 0.1";
    let compared = compare(
        &["--runs", "1"],
        &["sh", "-c", script, log.to_str().unwrap()],
    );
    assert_eq!(
        compared.output.status.code(),
        Some(0),
        "{}",
        errors(&compared.output)
    );
    assert_eq!(compared.json["configurations"][0]["left_over_processes"], 2);
    assert_eq!(fs::read_to_string(log).unwrap(), "ended\nended\n");
}

#[test]
fn mistakes_have_documented_exit_codes() {
    let code = |options: &[&str], command: &[&str]| compare(options, command).output.status.code();
    assert_eq!(code(&[], &["no-such-command"]), Some(127));
    assert_eq!(code(&[], &["/etc/passwd"]), Some(126));
    assert_eq!(code(&["--with", "plain,fast"], &["true"]), Some(125));
    assert_eq!(code(&["--runs", "0"], &["true"]), Some(125));
    assert_eq!(
        code(&["--options", "statistics=/tmp"], &["true"]),
        Some(125)
    );
}

#[test]
fn a_static_program_is_compared_as_plain() {
    let program = common::static_program().to_str().unwrap();
    let compared = compare(&["--runs", "1"], &[program, "anonymous", "8"]);
    assert!(errors(&compared.output).contains("statically linked"));
    assert_eq!(compared.json["configurations"][1]["preloaded"], false);
}

#[test]
fn policies_of_page_merging_put_everything_back() {
    let state = |name: &str| fs::read_to_string(Path::new("/sys/kernel/mm/ksm").join(name)).ok();
    let names = ["run", "pages_to_scan", "sleep_millisecs"];
    let before = names.map(state);
    if !common::is_root() || before[0].as_deref() != Some("0\n") {
        return;
    }
    let compared = compare(
        &["--runs", "1", "--with", "plain,ksm-aggressive"],
        &[
            "sh",
            "-c",
            "sleep 0.3; cat /sys/kernel/mm/ksm/pages_to_scan >&2",
        ],
    );
    assert_eq!(
        compared.output.status.code(),
        Some(0),
        "{}",
        errors(&compared.output)
    );
    let ksm = &compared.json["configurations"][1];
    assert!(ksm["ksmd_cpu_seconds"].as_f64().is_some());
    assert_eq!(
        compared.json["configurations"][0]["ksmd_cpu_seconds"],
        Value::Null
    );
    assert_eq!(names.map(state), before);
    assert!(!Path::new("/run/pagewise-ksm.json").exists());
}

/// The command's writes fail there: it is not to blame.
#[test]
fn a_full_folder_for_outputs_is_said() {
    let script = "mount -t tmpfs -o size=64k none /mnt && exec \"$@\"";
    let small = |words: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command.args(words).env("TMPDIR", "/mnt");
        command.env("PAGEWISE_LIBRARY", common::stand_in());
        command.stdin(Stdio::null()).output()
    };
    if !small(&["true"]).is_ok_and(|output| output.status.success()) {
        return; // no namespace can be had here
    }
    let own = env!("CARGO_BIN_EXE_pagewise");
    let options = ["compare", "--quiet", "--runs", "1"];
    let output = small(&[&[own], &options[..], &["--", "seq", "100000"]].concat()).unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("try: TMPDIR=") && said.contains("/mnt, which is full"),
        "{said}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.csv");
    let pattern = file.to_str().unwrap();
    let written = format!("seq 100000 > {pattern}");
    let command = ["--files", pattern, "--", "sh", "-c", &written];
    let output = small(&[&[own], &options[..], &command].concat()).unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("cannot keep files that --files names in /mnt"),
        "{said}"
    );
    assert!(said.contains("TMPDIR="), "{said}");
}
