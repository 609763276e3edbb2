//! `pagewise trace`: recording real programs, and looking at what was recorded.
#![allow(clippy::unwrap_used)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::bench::Bench;
use common::{
    allocating_program, errors, program_without_frame_pointers, read_json, recorder, text,
};
use serde_json::Value;

fn new_bench() -> Bench {
    Bench::new().with("PAGEWISE_RECORD_LIBRARY", recorder())
}

impl Bench {
    fn record_program(&self, options: &[&str], mode: &str) -> Output {
        self.record(options, &[allocating_program().to_str().unwrap(), mode])
    }

    fn stat(&self, name: &str) -> Value {
        let output = self.run(&[
            "stat",
            "--top",
            "100000",
            "--split",
            "--json",
            "figures.json",
            name,
        ]);
        assert!(output.status.success(), "{}", errors(&output));
        read_json(&self.path("figures.json"))
    }
}

/// The program says "expect SIZE ALLOCATIONS FREES". All blocks of a size come from sites of their own.
fn check_expectations(bench: &Bench, output: &Output) {
    let shown = bench.run(&["convert", "x.trace", "-o", "-"]);
    let shown = text(&shown);
    let said = text(output);
    let mut checked = 0;
    for line in said.lines().filter_map(|line| line.strip_prefix("expect ")) {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let of_size = |line: &&str| line.split(' ').nth(3) == Some(&numbers[0].to_string());
        let allocations = shown
            .lines()
            .filter(|line| line.starts_with("allocate "))
            .filter(of_size);
        let objects: std::collections::HashSet<&str> = allocations
            .map(|line| line.split(' ').nth(1).unwrap())
            .collect();
        let frees = shown
            .lines()
            .filter_map(|line| line.strip_prefix("free "))
            .filter(|object| objects.contains(object));
        assert_eq!(
            (objects.len() as u64, frees.count() as u64),
            (numbers[1], numbers[2]),
            "{line}"
        );
        checked += 1;
    }
    assert!(checked > 0, "{said}");
}

#[test]
fn what_a_program_allocates_is_in_its_trace() {
    let bench = new_bench();
    for mode in ["every-function", "threads"] {
        let output = bench.record_program(&[], mode);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(text(&output).ends_with("done\n"));
        check_expectations(&bench, &output);
    }
    assert_eq!(bench.names(), ["x.trace"]);
}

#[test]
fn one_line_says_what_was_recorded() {
    let bench = new_bench();
    let output = bench.record_program(&[], "every-function");
    let said = errors(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("x.trace: ") && said.contains(" allocations and "),
        "{said}"
    );
    let output = bench.record_program(&["--quiet"], "every-function");
    assert!(output.stderr.is_empty());
}

#[test]
fn a_trace_says_on_which_allocator_it_was_recorded() {
    let bench = new_bench();
    bench.record_program(&[], "every-function");
    let plain = bench.stat("x.trace")["properties"].clone();
    let file = plain["allocator"].as_str().unwrap();
    assert!(
        file.starts_with('/') && file.contains("/libc.so."),
        "{file}"
    );
    let said = text(&bench.run(&["stat", "x.trace"]));
    let named = format!("allocator glibc ({file})\n");
    assert!(said.contains(&named), "{said}");
    let said = text(&bench.run(&["report", "x.trace"]));
    assert!(said.contains(&format!("glibc ({file})")), "{said}");
    fs::rename(bench.path("x.trace"), bench.path("plain.trace")).unwrap();

    let bench = bench
        .with("MALLOC_ARENA_MAX", Path::new("1"))
        .with("MIMALLOC_VERBOSE", Path::new("0"));
    bench.record_program(&[], "every-function");
    let with = format!("glibc ({file}), with MALLOC_ARENA_MAX=1");
    let said = text(&bench.run(&["report", "x.trace"]));
    assert!(said.contains(&format!("{with}\n")), "{said}");
    let said = errors(&bench.run(&["diff", "plain.trace", "x.trace"]));
    let warning = format!("A ran on glibc ({file}), B on {with}: which pages");
    assert!(said.contains(&warning), "{said}");
    let said = errors(&bench.run(&["diff", "x.trace", "x.trace"]));
    assert!(!said.contains("ran on"), "{said}");
}

/// Those of older recorders do not name it.
#[test]
fn a_trace_without_an_allocator_opens() {
    let bench = new_bench();
    sparse_trace(&bench);
    let said = text(&bench.run(&["report", "sparse.trace"]));
    assert!(said.contains("ran on   not known\n"), "{said}");
    let said = text(&bench.run(&["stat", "sparse.trace"]));
    assert!(!said.contains("allocator "), "{said}");
    let said = errors(&bench.run(&["diff", "sparse.trace", "sparse.trace"]));
    assert!(!said.contains("ran on"), "{said}");
}

#[test]
fn status_and_input_pass_through() {
    let bench = new_bench();
    let output = bench.record(&[], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output), "out\n");
    assert!(errors(&output).starts_with("err\n"));
    assert_eq!(
        bench.record(&[], &["no-such-command-here"]).status.code(),
        Some(127)
    );
    assert_eq!(bench.record(&[], &["/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn a_crash_loses_nothing() {
    for (mode, signal) in [("crash", libc::SIGSEGV), ("kill", libc::SIGKILL)] {
        let bench = new_bench();
        let output = bench.record_program(&[], mode);
        assert_eq!(output.status.signal(), Some(signal));
        check_expectations(&bench, &output);
        let shown = text(&bench.run(&["show", "--properties", "x.trace"]));
        assert!(
            shown.contains(&format!("ended: signal {signal}")),
            "{shown}"
        );
        assert!(errors(&output).contains("was killed by signal"));
    }
}

#[test]
fn children_have_traces_of_their_own() {
    let bench = new_bench();
    let output = bench.record_program(&["--every-process"], "fork");
    assert!(output.status.success(), "{}", errors(&output));
    check_expectations(&bench, &output);
    // Child, grandchild, and system()'s shell, which may allocate or not.
    let others = bench.names().len() - 1;
    assert!(others >= 2, "{:?}", bench.names());
    let said = errors(&output);
    assert!(said.contains(" other traces: "), "{said}");
    for name in bench.names().iter().filter(|name| *name != "x.trace") {
        assert!(said.contains(&format!("{name} (")), "{name}: {said}");
    }
    let all: Vec<String> = bench
        .names()
        .iter()
        .map(|name| text(&bench.run(&["convert", name, "-o", "-"])))
        .collect();
    let with = |size: &str| all.iter().filter(|text| text.contains(size)).count();
    assert_eq!(
        (
            with(" 11001 0 0x"),
            with(" 11003 0 0x"),
            with(" 11005 0 0x")
        ),
        (1, 1, 1)
    );

    // The child made some 2000 events, the others few.
    let few = new_bench();
    let said = errors(&few.record_program(&[], "fork"));
    assert_eq!(few.names().len(), 2, "{:?}", few.names());
    assert!(
        said.contains("1 other trace: ") && said.contains(" left out (--every-process)"),
        "{said}"
    );

    let alone = new_bench();
    alone.record_program(&["--no-children"], "fork");
    assert_eq!(alone.names(), ["x.trace"]);
}

#[test]
fn the_last_program_of_the_command_gets_the_name() {
    let bench = new_bench();
    let output = bench.record_program(&["--every-process"], "exec");
    assert!(output.status.success());
    check_expectations(&bench, &output);
    assert_eq!(bench.names().len(), 2, "{:?}", bench.names());
    let before = bench.names()[1].clone();
    let shown = text(&bench.run(&["show", "--properties", &before]));
    assert!(shown.contains("ended: exec"), "{shown}");
}

/// The functions of each site's stack, innermost first.
fn stacks(bench: &Bench) -> Vec<Vec<String>> {
    let shown = text(&bench.run(&["convert", "x.trace", "-o", "-"]));
    let mut stacks = Vec::new();
    for line in shown.lines() {
        if line.starts_with("site ") {
            stacks.push(Vec::new());
        }
        let symbol = line.strip_prefix("frame ").and_then(|line| {
            let symbol = line.split("symbol=").nth(1)?;
            symbol.split(' ').next()
        });
        if let (Some(symbol), Some(stack)) = (symbol, stacks.last_mut()) {
            stack.push(symbol.to_owned());
        }
    }
    stacks
}

/// Whether a stack leads from the allocation to the program's start.
fn is_whole(stack: &[String]) -> bool {
    let chain = ["third", "second", "first", "stacks"];
    stack.len() > chain.len() && stack[..4] == chain && stack[stack.len() - 1] == "_start"
}

#[test]
fn stacks_lead_to_main_with_and_without_frame_pointers() {
    let bench = new_bench();
    for program in [allocating_program(), program_without_frame_pointers()] {
        let output = bench.record(&["--stacks"], &[program.to_str().unwrap(), "stacks"]);
        check_expectations(&bench, &output);
        let found = stacks(&bench);
        assert!(found.iter().any(|stack| is_whole(stack)), "{found:?}");
        // Those of the handler on another stack are short, and nothing is made up.
        for stack in &found {
            let at = stack.iter().position(|name| name == "third");
            assert!(
                at.is_none() || stack.len() == 1 || stack[1] == "second",
                "{stack:?}"
            );
        }
    }
    let shown = text(&bench.run(&["show", "--properties", "x.trace"]));
    assert!(shown.contains("stacks: unwind-tables"), "{shown}");
}

#[test]
fn frame_pointers_are_another_way_to_find_stacks() {
    let bench = new_bench();
    bench.record_program(&["--stacks=frame-pointers"], "stacks");
    let found = stacks(&bench);
    let is_there = |stack: &Vec<String>| stack.len() > 2 && stack[..2] == ["third", "second"];
    assert!(found.iter().any(is_there), "{found:?}");
    let without = program_without_frame_pointers().to_str().unwrap();
    bench.record(&["--stacks=frame-pointers"], &[without, "stacks"]);
    let found = stacks(&bench);
    assert!(!found.iter().any(|stack| is_whole(stack)), "{found:?}");
    let shown = text(&bench.run(&["show", "--properties", "x.trace"]));
    assert!(shown.contains("stacks: frame-pointers"), "{shown}");
}

#[test]
fn threads_have_stacks_of_their_own() {
    let bench = new_bench();
    let program = program_without_frame_pointers().to_str().unwrap();
    for mode in ["threads", "threads-and-forks"] {
        let output = bench.record(&["--stacks"], &[program, mode]);
        assert!(output.status.success(), "{mode}: {}", errors(&output));
        if mode == "threads" {
            check_expectations(&bench, &output);
        }
    }
}

/// Debian's redis-server is a link to redis-check-rdb, which nobody knows.
#[test]
fn programs_are_called_as_they_were_started() {
    let bench = new_bench();
    let link = bench.path("server");
    std::os::unix::fs::symlink(allocating_program(), &link).unwrap();
    bench.record(&["--stacks"], &[link.to_str().unwrap(), "stacks"]);
    let shown = text(&bench.run(&["convert", "x.trace", "-o", "-"]));
    assert!(
        shown.contains(&format!("module={}", link.display())),
        "{shown}"
    );
    let shown = text(&bench.run(&["stat", "x.trace"]));
    let real = format!("program   {}", allocating_program().display());
    assert!(shown.contains(&real), "{shown}");
}

#[test]
fn recording_java_without_its_option_is_noticed() {
    let bench = new_bench();
    fs::copy(allocating_program(), bench.path("java")).unwrap();
    let output = bench.record(&[], &["./java", "stacks"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(
        errors(&output).contains("--jvm records the program's objects"),
        "{}",
        errors(&output)
    );
    fs::rename(bench.path("java"), bench.path("other")).unwrap();
    let output = bench.record(&[], &["./other", "stacks"]);
    assert!(!errors(&output).contains("--jvm"), "{}", errors(&output));
}

/// Traces that tell sites apart in different ways say so, instead of blaming the program.
#[test]
fn learning_from_another_kind_of_recording_is_explained() {
    let bench = new_bench();
    bench.record_program(&[], "every-function");
    fs::rename(bench.path("x.trace"), bench.path("plain.trace")).unwrap();
    bench.record_program(&["--stacks"], "every-function");
    bench.refused(
        &["group", "--train", "plain.trace", "x.trace"],
        "the first is recorded without --stacks, the second recorded with --stacks",
    );
}

/// Has it a child that has not ended? One that has and was not waited for yet counts as well.
fn has_children(pid: u32) -> bool {
    let path = format!("/proc/{pid}/task/{pid}/children");
    fs::read_to_string(path).is_ok_and(|children| !children.trim().is_empty())
}

/// `./x` recorded, with an interrupt so many milliseconds after it has ended: while it runs, an
/// interrupt is the program's own.
fn interrupted_recording(bench: &Bench, milliseconds: u64) -> Output {
    let _ = fs::remove_file(bench.path("x.trace"));
    let _ = fs::remove_file(bench.path("ended"));
    let mut command = bench.pagewise();
    command
        .args(["trace", "record", "-o", "x.trace", "--", "./x"])
        .stderr(Stdio::piped());
    // In a script's background interrupts are ignored, and so they would be by what is started here.
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let child = command.spawn().unwrap();
    while !bench.path("ended").exists() || has_children(child.id()) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    // It may have ended by itself.
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
    child.wait_with_output().unwrap()
}

/// What was recorded is not lost to impatience, and nothing hidden is left behind unsaid.
#[test]
fn an_interrupt_while_the_trace_is_made_keeps_the_recording() {
    let bench = new_bench();
    let (source, program) = (bench.path("x.c"), bench.path("x"));
    fs::write(
        &source,
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n\
         for (int i = 0; i < 8000000; i++) free(malloc(i % 100));\nfclose(fopen(\"ended\", \"w\")); }\n",
    )
    .unwrap();
    let built = Command::new("cc")
        .args(["-O0", "-w", "-fno-builtin", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.unwrap().success());
    // On a busy machine the trace may be complete before the interrupt is sent: then sooner.
    let output = (0..6)
        .map(|attempt| interrupted_recording(&bench, 20 >> attempt))
        .find(|_| !bench.path("x.trace").exists())
        .expect("an interrupt while the trace is made");
    assert_eq!(output.status.signal(), Some(2), "{}", errors(&output));
    let said = errors(&output);
    let kept = bench
        .names()
        .into_iter()
        .find(|name| name.starts_with(".pagewise-recording"))
        .unwrap();
    assert!(
        said.contains(&kept) && said.contains("trace convert"),
        "{said}"
    );
    let output = bench.run(&["convert", &kept, "-o", "x.trace"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(text(&bench.run(&["stat", "x.trace"])).contains("8,000,0"));
}

/// C++'s new is seen where it is used, and exceptions pass.
#[test]
fn new_is_counted_where_it_is_called() {
    let bench = new_bench();
    let source = bench.path("x.cpp");
    fs::write(
        &source,
        "#include <cstdio>\n#include <new>\nstruct alignas(128) Wide { char c[256]; };\n\
         __attribute__((noinline)) int *make() { return new int[100]; }\n\
         int main() { for (int i = 0; i < 50; i++) delete[] make();\n\
         delete new Wide; delete new (std::nothrow) Wide;\n\
         volatile size_t huge = 1ull << 60;\n\
         for (int i = 0; i < 3; i++) try { delete[] new char[huge]; } catch (std::bad_alloc &) { puts(\"caught\"); }\n\
         if (new (std::nothrow) char[huge]) return 1;\n\
         delete[] make(); }\n",
    )
    .unwrap();
    let program = bench.path("x");
    let built = Command::new("c++")
        .args(["-std=c++17", "-g", "-O0", "-w", "-o"])
        .args([&program, &source])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return; // no C++ compiler
    }
    let output = bench.record(&[], &[program.to_str().unwrap()]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(text(&output), "caught\ncaught\ncaught\n");
    let figures = bench.stat("x.trace");
    let of = |name: &str| {
        let sites = figures["sites"].as_array().unwrap().iter();
        let found = sites.filter(|site| site["description"].as_str().unwrap().starts_with(name));
        found
            .map(|site| {
                (
                    site["allocations"].as_f64().unwrap(),
                    site["frees"].as_f64().unwrap(),
                )
            })
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    assert_eq!(of("make() (x.cpp:4)"), (51.0, 51.0));
    assert_eq!(of("main (x.cpp:6)"), (2.0, 2.0));
    assert_eq!(of("operator new"), (0.0, 0.0));
}

#[test]
fn a_sample_estimates_the_whole() {
    let bench = new_bench();
    bench.record_program(&["--sample", "20000"], "threads");
    let figures = bench.stat("x.trace");
    // 8 x 5000 blocks of 14,001 bytes, 8 x 2000 of 14,002 and 5000 of 14,003.
    let estimate = figures["allocated_bytes"].as_f64().unwrap();
    assert!((estimate / 854.1e6 - 1.0).abs() < 0.03, "{estimate}");
    assert_eq!(figures["properties"]["sample-bytes"], "20000");
}

/// A block for which one record stands for thousands has lived no longer for that, nor a large one for its size.
#[test]
fn a_lifetime_is_what_was_allocated_meanwhile() {
    let bench = new_bench();
    for head in ["", "property sample-bytes 100000\n"] {
        let events = "allocate 1 0 64 0\nfree 1\nallocate 2 0 5000000 0\nfree 2\n";
        bench.trace_named("brief", &format!("{head}{events}"));
        let said = text(&bench.run(&["stat", "brief.trace"]));
        assert!(said.contains("to 1 kB 100.0 %"), "{said}");
    }
}

/// Whether blocks die by frees is seen in the trace where it does not say so.
#[test]
fn a_trace_with_frees_is_simulated_by_them() {
    let bench = new_bench();
    let mut lines = String::new();
    for object in 1..=3000 {
        lines.push_str(&format!("allocate {object} 0 1000 0\n"));
    }
    for object in 1..=3000 {
        lines.push_str(&format!("free {object}\n"));
    }
    bench.trace_named("x", &lines);
    let said = text(&bench.run(&["simulate", "--once", "--heap", "2000000", "x.trace"]));
    assert!(
        said.contains("6,000") && said.contains("No event is impossible"),
        "{said}"
    );
    bench.trace_named("x", &format!("property sample-bytes 100000\n{lines}"));
    let output = bench.run(&["simulate", "--once", "x.trace"]);
    assert!(
        errors(&output).contains("is a sample"),
        "{}",
        errors(&output)
    );
}

#[test]
fn programs_that_cannot_be_recorded_are_refused() {
    let bench = new_bench();
    let output = bench.record(&[], &[common::static_program().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        errors(&output).contains("statically linked"),
        "{}",
        errors(&output)
    );
    assert!(bench.names().is_empty(), "{:?}", bench.names());
}

#[test]
fn an_unwritable_target_is_said_before_anything_runs() {
    let bench = new_bench();
    for target in [
        "/nonexistent/x.trace",
        "/proc/x.trace",
        "-",
        "/tmp",
        "/dev/null",
    ] {
        let output = bench
            .pagewise()
            .args(["trace", "record", "-o", target, "--", "touch"])
            .arg(bench.path("ran"))
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(125),
            "{target}: {}",
            errors(&output)
        );
    }
    assert!(bench.names().is_empty());
}

#[test]
fn an_older_trace_stays_until_the_new_one_is_complete() {
    let bench = new_bench();
    fs::write(bench.path("x.trace"), "older").unwrap();
    let mut child = bench
        .pagewise()
        .args(["trace", "record", "-o", "x.trace", "--", "sleep", "5"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read(bench.path("x.trace")).unwrap(), b"older");
    // What was recorded until then is in a folder beside it.
    let kept = bench
        .names()
        .into_iter()
        .find(|name| name.starts_with(".pagewise-recording"));
    let kept = kept.unwrap();
    // It becomes traces alone; other forms are made of those.
    let next = format!(
        "pagewise trace convert {kept} -o x.trace; then pagewise trace convert x.trace -o x.pb.gz"
    );
    bench.refused(&["convert", &kept, "-o", "x.pb.gz"], &next);
    let output = bench.run(&["convert", &kept, "-o", "again.trace"]);
    assert!(output.status.success(), "{}", errors(&output));
    let shown = text(&bench.run(&["show", "--properties", "again.trace"]));
    assert!(shown.contains("command: sleep 5"), "{shown}");
}

/// Of a folder that somebody else has filled nothing is waited for, and what is left out is said.
#[test]
fn what_is_no_recording_in_a_recordings_folder_is_left_out() {
    let bench = new_bench();
    let script = "cp -r \"$PWD\"/.pagewise-recording-* kept";
    let output = bench.record(&["--quiet"], &["sh", "-c", script]);
    assert!(output.status.success(), "{}", errors(&output));
    let kept = bench.path("kept");
    fs::create_dir(kept.join("1.0")).unwrap();
    fs::write(kept.join("2.0"), "damaged").unwrap();
    nix::unistd::mkfifo(&kept.join("3.0"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let output = bench.run(&["convert", "kept", "-o", "again.trace"]);
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("left out") && said.contains("kept/2.0"),
        "{said}"
    );
    assert!(bench.path("again.trace").exists(), "{said}");
}

#[test]
fn a_folder_may_have_a_name_that_is_no_text() {
    let bench = new_bench();
    let folder = bench.path(".").join(OsStr::from_bytes(b"a\xff b"));
    fs::create_dir(&folder).unwrap();
    let mut command = bench.pagewise();
    command.args(["trace", "record", "-o"]);
    command.arg(folder.join("x.trace")).args(["--", "ls"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(folder.join("x.trace").exists(), "{}", errors(&output));
}

#[test]
fn a_folder_that_cannot_be_recorded_into_is_told_why() {
    let bench = new_bench();
    fs::create_dir(bench.path("a,b")).unwrap();
    bench.refused(
        &["record", "-o", "a,b/x.trace", "--", "true"],
        "the folder's name has a comma",
    );
}

/// A program of the test's own, compiled as `NAME` in its folder.
fn built(bench: &Bench, name: &str, source: &str, flags: &[&str]) -> bool {
    let file = bench.path(&format!("{name}.c"));
    fs::write(&file, source).unwrap();
    let built = Command::new("cc")
        .args(["-O0", "-g", "-w", "-D_GNU_SOURCE", "-fno-builtin", "-o"])
        .args([&bench.path(name), &file])
        .args(flags)
        .output();
    built.unwrap().status.success()
}

/// The function and file of each site that allocated so many blocks of a size.
fn sites_of(bench: &Bench) -> Vec<String> {
    let figures = bench.stat("x.trace");
    let sites = figures["sites"].as_array().unwrap().iter();
    sites
        .map(|site| {
            format!(
                "{} {}",
                site["description"].as_str().unwrap(),
                site["allocations"]
            )
        })
        .collect()
}

/// After dlclose another library is loaded where the first one was, and has its own name and lines.
#[test]
fn a_library_in_the_place_of_another_is_told_from_it() {
    let bench = new_bench();
    for name in ["alpha", "beta"] {
        let source = format!(
            "#include <stdlib.h>\nvoid *of_{name:_<5}(int size) {{\nvoid *p = malloc(size);\nreturn p;\n}}\n"
        );
        assert!(built(
            &bench,
            &format!("{name}.so"),
            &source,
            &["-shared", "-fPIC"]
        ));
    }
    let source = "#include <dlfcn.h>\n#include <stdlib.h>\nstatic void *use(char *path, char *name, int times) {\n\
         void *library = dlopen(path, RTLD_NOW); void *(*make)(int) = dlsym(library, name);\n\
         for (int i = 0; i < times; i++) free(make(100));\ndlclose(library);\nreturn make; }\n\
         int main(void) { void *a = use(\"./alpha.so\", \"of_alpha\", 300), *b = use(\"./beta.so\", \"of_beta_\", 200);\n\
         use(\"./alpha.so\", \"of_alpha\", 50); return a != b; }\n";
    assert!(built(&bench, "x", source, &[]));
    for options in [&[][..], &["--stacks"]] {
        let output = bench.record(options, &["./x"]);
        assert!(
            output.status.success(),
            "not loaded in its place: {}",
            errors(&output)
        );
        let found = sites_of(&bench).join("\n");
        let count = |start: &str| {
            let of_it = found.lines().filter(|line| line.starts_with(start));
            let counts = of_it.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
            counts.sum::<f64>()
        };
        assert_eq!(
            (count("of_alpha"), count("of_beta_")),
            (350.0, 200.0),
            "{found}"
        );
        assert!(
            found.contains("of_beta_ (beta.so.c:3)") || !options.is_empty(),
            "{found}"
        );
    }
}

/// They end as plain, and why recording ended is not blamed on the disk.
#[test]
fn restricted_programs_are_recorded_and_the_true_reason_is_said() {
    let bench = new_bench();
    let source = fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../core/test/environment/recorded_restricted.c"),
    )
    .unwrap();
    assert!(built(&bench, "x", &source, &["-pthread"]));
    for how in ["strict", "few-allowed"] {
        let output = bench.record(&[], &["./x", how]);
        assert!(output.status.success(), "{how}: {}", errors(&output));
        assert!(text(&output).ends_with("done\n"), "{how}");
        assert!(!errors(&output).contains("dropped"), "{}", errors(&output));
        check_expectations(&bench, &output);
    }
    for (how, reason) in [
        ("strict-long", "the program entered seccomp's strict mode"),
        (
            "few-allowed-long",
            "a seccomp filter of the program denies rt_sigprocmask",
        ),
    ] {
        let output = bench.record(&[], &["./x", how]);
        assert!(output.status.success(), "{how}: {}", errors(&output));
        let said = errors(&output);
        assert!(
            said.contains(reason) && said.contains(" events were dropped"),
            "{said}"
        );
        let shown = bench.run(&["stat", "x.trace"]);
        let said = errors(&shown);
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn programs_of_a_sanitizer_are_refused_with_its_name() {
    let bench = new_bench();
    let source = "int main(void) { return 0; }\n";
    for (option, name) in [
        ("address", "AddressSanitizer"),
        ("thread", "ThreadSanitizer"),
    ] {
        if built(&bench, "x", source, &[&format!("-fsanitize={option}")]) {
            bench.refused(&["record", "-o", "x.trace", "--", "./x"], name);
            assert!(!bench.path("x.trace").exists());
        }
    }
}

/// Also what the other processes lost, that are too small for a trace of their own.
#[test]
fn what_other_processes_lost_is_said() {
    let bench = new_bench();
    let line = "ulimit -f 64; ./x; true";
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 300000; i++) free(malloc(50)); }\n";
    assert!(built(&bench, "x", source, &[]));
    let output = bench.record(&[], &["sh", "-c", line]);
    assert!(output.status.success(), "{}", errors(&output));
    let said = errors(&output);
    assert!(
        said.contains("1 other recording ended early")
            && said.contains(" events were dropped elsewhere")
            || said.contains("1 recording could not be begun"),
        "{said}"
    );
}

#[test]
fn without_room_to_begin_there_is_no_trace_and_that_is_said() {
    let bench = new_bench();
    fs::write(bench.path("x.trace"), "an earlier one").unwrap();
    let mut command = Command::new("sh");
    let line =
        "ulimit -f 1 && exec \"$0\" trace record --quiet -o x.trace -- \"$1\" every-function";
    let output = command
        .args(["-c", line, env!("CARGO_BIN_EXE_pagewise")])
        .arg(allocating_program())
        .env("PAGEWISE_RECORD_LIBRARY", recorder())
        .current_dir(bench.path("."))
        .output()
        .unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("left no recording: cannot write below"),
        "{said}"
    );
    assert!(said.contains("x.trace is as it was before"), "{said}");
    assert_eq!(fs::read(bench.path("x.trace")).unwrap(), b"an earlier one");
    assert_eq!(bench.names(), ["x.trace"]);
}

#[test]
fn traces_of_earlier_recordings_are_named() {
    let bench = new_bench();
    bench.record_program(&[], "every-function");
    for name in ["x.trace.123", "x.trace.123.0", "x.trace.old", "y.trace.1"] {
        fs::copy(bench.path("x.trace"), bench.path(name)).unwrap();
    }
    fs::write(bench.path("x.trace.7"), "a log that was rotated").unwrap();
    let said = errors(&bench.record_program(&[], "every-function"));
    assert!(
        said.contains("2 traces of earlier recordings still there (x.trace.123)"),
        "{said}"
    );
}

/// Names with spaces and line ends, started through the loader, from a folder that is left.
#[test]
fn names_that_mean_nothing_elsewhere_are_found() {
    let bench = new_bench();
    fs::create_dir(bench.path("a b\nc")).unwrap();
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
         void make(void) { free(malloc(24007)); }\nint main(void) { chdir(\"/\"); make(); }\n";
    assert!(built(&bench, "a b\nc/x y", source, &[]));
    for start in ["exec './x y'", "exec /lib64/ld-linux-x86-64.so.2 './x y'"] {
        if start.contains("/ld-") && !std::path::Path::new("/lib64/ld-linux-x86-64.so.2").exists() {
            continue;
        }
        let output = bench.record(&[], &["sh", "-c", &format!("cd 'a b\nc'; {start}")]);
        assert!(output.status.success(), "{}", errors(&output));
        let found = sites_of(&bench).join("\n");
        assert!(found.contains("make (x y.c:3)"), "{start}: {found}");
    }
}

// --- looking at traces ---------------------------------------------------------

/// One survivor on each of 100 pages, and everything else freed.
fn sparse_trace(bench: &Bench) {
    sparse_trace_of(bench, 100);
}

fn sparse_trace_of(bench: &Bench, pages: u64) {
    sparse_trace_with(bench, pages, 128);
}

/// Survivors may be smaller than the places that they are at.
fn sparse_trace_with(bench: &Bench, pages: u64, survivor: u64) {
    let mut lines = vec!["pagewise-trace 1 addresses".to_owned()];
    let mut object = 0;
    for page in 0..pages {
        for place in 0..32 {
            object += 1;
            let site = u64::from(place == 0);
            let address = 0x10_0000 + page * 4096 + place * 128;
            let size = if site == 1 { survivor } else { 128 };
            lines.push(format!("allocate {object} {site} {size} 0 {address:#x}"));
        }
        lines.push(format!("time {}", (page + 1) * 1_000_000));
    }
    lines.extend(
        (1..=object)
            .filter(|object| object % 32 != 1)
            .map(|object| format!("free {object}")),
    );
    for (site, symbol) in ["brief", "survivor"].iter().enumerate() {
        lines.push(format!("site {site} type=- depth=- class=128"));
        lines.push(format!(
            "frame 0x1000 symbol={symbol} file=- line=0 module=/bin/x build=-"
        ));
    }
    fs::write(bench.path("sparse.txt"), lines.join("\n")).unwrap();
    let output = bench.run(&["convert", "sparse.txt", "-o", "sparse.trace"]);
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn stat_names_who_pins_pages() {
    let bench = new_bench();
    sparse_trace(&bench);
    let output = bench.run(&["stat", "--at", "end", "--json", "f.json", "sparse.trace"]);
    let figures = read_json(&bench.path("f.json"));
    assert_eq!(figures["pages"]["sparse_pages"], 100);
    assert_eq!(figures["pages"]["held_bytes"], 100 * 4096);
    assert_eq!(figures["peak_live_bytes"], 3200.0 * 128.0);
    let survivor = figures["sites"]
        .as_array()
        .unwrap()
        .iter()
        .find(|site| site["site"] == 1)
        .unwrap();
    assert_eq!(survivor["pinned_bytes"], 100.0 * (4096.0 - 128.0));
    assert_eq!(survivor["live_bytes"], 12800.0);
    let shown = text(&output);
    assert!(
        shown.contains("410 kB held by 12.8 kB of live blocks"),
        "{shown}"
    );
    assert!(shown.contains("survivor (x)"), "{shown}");
    // The worst moment is the same: after the last free.
    let output = bench.run(&["stat", "--at", "pinned", "sparse.trace"]);
    assert!(
        text(&output).contains("after event 6,300"),
        "{}",
        text(&output)
    );
}

#[test]
fn show_goes_where_it_is_told() {
    let bench = new_bench();
    sparse_trace(&bench);
    let output = bench.run(&[
        "show",
        "--from",
        "3199",
        "--count",
        "2",
        "--sites",
        "sparse.trace",
    ]);
    let shown = text(&output);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[1..],
        [
            "allocate 3200 0 128 0 0x163f80",
            "time 100000000",
            "free 2",
            "# site 0: brief (x), class 128"
        ]
    );
    assert!(text(&bench.run(&["show", "--from", "999999999", "sparse.trace"])).is_empty());
}

#[test]
fn text_and_back_is_the_same() {
    let bench = new_bench();
    sparse_trace(&bench);
    bench.run(&["convert", "sparse.trace", "-o", "a.txt"]);
    bench.run(&["convert", "a.txt", "-o", "b.trace"]);
    bench.run(&["convert", "b.trace", "-o", "b.txt"]);
    bench.run(&["convert", "b.trace", "-o", "c.trace"]);
    assert_eq!(
        fs::read(bench.path("a.txt")).unwrap(),
        fs::read(bench.path("b.txt")).unwrap()
    );
    assert_eq!(
        fs::read(bench.path("b.trace")).unwrap(),
        fs::read(bench.path("c.trace")).unwrap()
    );
}

#[test]
fn csv_has_a_line_for_each_site() {
    let bench = new_bench();
    sparse_trace(&bench);
    bench.run(&["convert", "--at", "end", "sparse.trace", "-o", "x.csv"]);
    let csv = fs::read_to_string(bench.path("x.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[2].starts_with("1,,survivor,,0,/bin/x,0x1000,,128,100,12800,0,,100,12800,396800"),
        "{csv}"
    );
}

/// A spreadsheet would run them. Numbers stay numbers.
#[test]
fn names_that_are_formulas_are_text_in_csv() {
    let bench = new_bench();
    let trace = "pagewise-trace 1 addresses\n\
                 allocate 1 0 128 0 0x100000\n\
                 site 0 type=@type depth=- class=128\n\
                 frame 0x1000 symbol==HYPERLINK(\"http://x\",1) file=+1.c line=7 module=-1+1 build=-\n";
    fs::write(bench.path("formulas.txt"), trace).unwrap();
    let output = bench.run(&["convert", "formulas.txt", "-o", "formulas.trace"]);
    assert!(output.status.success(), "{}", errors(&output));
    bench.run(&["convert", "--at", "end", "formulas.trace", "-o", "x.csv"]);
    let csv = fs::read_to_string(bench.path("x.csv")).unwrap();
    let line = csv.lines().nth(1).unwrap();
    assert_eq!(
        line,
        "0,\"'@type\",\"'=HYPERLINK(\"\"http://x\"\",1)\",\"'+1.c\",7,\"'-1+1\",0x1000,,128,1,128,0,,1,128,3968"
    );
}

/// Go's own reader, where it is installed.
#[test]
fn pprof_reads_the_profile() {
    let bench = new_bench();
    sparse_trace(&bench);
    bench.run(&["convert", "--at", "end", "sparse.trace", "-o", "x.pb.gz"]);
    let bytes = fs::read(bench.path("x.pb.gz")).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    let output = Command::new("go")
        .args(["tool", "pprof", "-sample_index=pinned_space", "-raw"])
        .arg(bench.path("x.pb.gz"))
        .output();
    let Ok(output) = output else {
        return;
    };
    let shown = text(&output);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(
        shown.contains("inuse_space/bytes[dflt]") || shown.contains("pinned_space/bytes"),
        "{shown}"
    );
    assert!(
        shown.contains("100      12800        100      12800     396800"),
        "{shown}"
    );
    assert!(shown.contains("survivor"), "{shown}");
}

#[test]
fn damaged_foreign_and_cut_off_files_are_named() {
    let bench = new_bench();
    sparse_trace(&bench);
    let bytes = fs::read(bench.path("sparse.trace")).unwrap();
    fs::write(bench.path("cut.trace"), &bytes[..bytes.len() - 100]).unwrap();
    let output = bench.run(&["stat", "cut.trace"]);
    assert!(output.status.success());
    assert!(
        errors(&output).contains("was cut off at byte"),
        "{}",
        errors(&output)
    );

    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    fs::write(bench.path("damaged.trace"), damaged).unwrap();
    fs::write(bench.path("foreign.trace"), "#!/bin/sh\nexit 0\n").unwrap();
    fs::write(bench.path("bad.txt"), "pagewise-trace 1\nfree 1\n").unwrap();
    for (name, said) in [
        ("damaged.trace", "is damaged at byte "),
        ("foreign.trace", "this is not a trace"),
        ("missing.trace", "No such file"),
        (
            "bad.txt",
            "line 2: an event cannot be written: there is no object 1 yet",
        ),
    ] {
        let output = bench.run(&["convert", name, "-o", "out.trace"]);
        assert_eq!(output.status.code(), Some(125), "{name}");
        let errors = errors(&output);
        assert!(
            errors.contains(said) && errors.contains("try: "),
            "{errors}"
        );
        let is_there = bench.path(name).exists();
        assert_eq!(
            errors.contains("the file is unchanged"),
            is_there,
            "{errors}"
        );
        assert!(!bench.path("out.trace").exists());
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let bench = new_bench();
    sparse_trace(&bench);
    let pagewise = env!("CARGO_BIN_EXE_pagewise");
    for words in [
        "show sparse.trace",
        "convert sparse.trace -o -",
        "convert sparse.txt --to binary -o -",
    ] {
        let line =
            format!("'{pagewise}' trace {words} | (exec <&-; sleep 0.3); echo ${{PIPESTATUS[0]}}");
        let output = Command::new("bash")
            .args(["-c", &line])
            .current_dir(bench.path("."))
            .output()
            .unwrap();
        let shown = text(&output);
        assert_eq!(
            shown.lines().last(),
            Some("0"),
            "{words}: {shown} {}",
            errors(&output)
        );
        assert!(output.stderr.is_empty(), "{}", errors(&output));
    }
}

#[test]
fn a_result_without_room_is_no_fault_of_the_trace() {
    let bench = new_bench();
    sparse_trace(&bench);
    for words in [
        &["convert", "sparse.txt", "--to", "binary", "-o", "/dev/full"][..],
        &[
            "convert",
            "sparse.trace",
            "--to",
            "binary",
            "-o",
            "/dev/full",
        ],
        &["convert", "sparse.trace", "--to", "text", "-o", "/dev/full"],
        &["convert", "sparse.trace", "--to", "csv", "-o", "/dev/full"],
        &[
            "convert",
            "sparse.trace",
            "--to",
            "pprof",
            "-o",
            "/dev/full",
        ],
        &["report", "--html", "/dev/full", "sparse.trace"],
        &["stat", "--json", "/dev/full", "sparse.trace"],
    ] {
        bench.refused(words, "cannot write /dev/full: No space left");
    }
    // What can be told is told.
    let output = bench.run(&["stat", "--json", "/dev/full", "sparse.trace"]);
    assert!(text(&output).contains("6,300"), "{}", text(&output));
    assert!(errors(&output).contains("the figures are on standard output"));
}

#[test]
fn standard_output_without_room_is_no_fault_of_the_trace() {
    let bench = new_bench();
    sparse_trace(&bench);
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for words in [
        &["show", "sparse.trace"][..],
        &["stat", "sparse.trace"],
        &["stat", "--json", "-", "sparse.trace"],
        &["convert", "sparse.trace", "--to", "csv", "-o", "-"],
    ] {
        let mut command = bench.pagewise();
        command.arg("trace").args(words).stdout(full());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}");
        let said = errors(&output);
        assert!(
            said.contains("cannot write to standard output: No space left"),
            "{said}"
        );
        assert!(said.contains("try: df -h"), "{said}");
    }
}

/// The recording is kept, and what to type is said.
#[test]
fn a_trace_without_room_says_so_once() {
    let bench = new_bench();
    let script = "touch begun; until [ -e go ]; do sleep 0.05; done";
    let mut command = bench.pagewise();
    command.args(["trace", "record", "-o", "x.trace", "--", "sh", "-c", script]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    while !bench.path("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // The command, which was started before, has none.
    let limit = libc::rlimit {
        rlim_cur: 200,
        rlim_max: 200,
    };
    let (pid, none) = (child.id() as i32, std::ptr::null_mut());
    // SAFETY: the limit is valid for the call.
    let result = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, none) };
    assert_eq!(result, 0);
    fs::write(bench.path("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert_eq!(said.matches("File too large").count(), 1, "{said}");
    assert!(said.contains("try: ulimit -f unlimited"), "{said}");
    assert!(said.contains("what was recorded is kept"), "{said}");
    assert!(!bench.path("x.trace").exists());
}

/// The error comes while the trace is still being read.
#[test]
fn a_large_result_without_room_is_no_fault_of_the_trace_either() {
    let bench = new_bench();
    let mut random = fastrand::Rng::with_seed(1);
    let mut lines = vec!["pagewise-trace 1 addresses".to_owned()];
    lines.extend((1..=200_000).map(|object| {
        let (size, address) = (random.u32(..), random.u64(..));
        format!("allocate {object} 0 {size} 0 {address:#x}")
    }));
    bench.convert("large", &lines.join("\n"));
    assert!(fs::metadata(bench.path("large.trace")).unwrap().len() > 1 << 20);
    for words in [
        ["convert", "large.txt", "--to", "binary", "-o", "/dev/full"],
        [
            "convert",
            "large.trace",
            "--to",
            "binary",
            "-o",
            "/dev/full",
        ],
        ["convert", "large.trace", "--to", "text", "-o", "/dev/full"],
    ] {
        bench.refused(&words, "cannot write /dev/full: No space left");
    }
}

#[test]
fn a_pipe_stays_a_pipe() {
    let bench = new_bench();
    sparse_trace(&bench);
    let line = format!(
        "mkfifo p; cat p > copy.txt & '{}' trace convert sparse.trace --to text -o p; wait; test -p p",
        env!("CARGO_BIN_EXE_pagewise")
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(bench.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    bench.run(&["convert", "sparse.trace", "-o", "plain.txt"]);
    assert_eq!(
        fs::read(bench.path("copy.txt")).unwrap(),
        fs::read(bench.path("plain.txt")).unwrap()
    );
    bench.refused(&["record", "-o", "p", "--", "true"], "p is no file");
}

#[test]
fn results_overwrite_neither_what_is_read_nor_each_other() {
    let bench = new_bench();
    sparse_trace(&bench);
    fs::write(bench.path("r.json"), "{}").unwrap();
    let simulate = [
        "simulate",
        "--readings",
        "r.json",
        "--json",
        "./r.json",
        "sparse.trace",
    ];
    bench.refused(&simulate, "r.json is the trace itself, or read with it");
    assert_eq!(fs::read(bench.path("r.json")).unwrap(), b"{}");
    bench.refused(
        &["replay", "--json", "x", "--plot", "./x", "sparse.trace"],
        "two results would go to",
    );
}

#[test]
fn a_terminal_gets_no_commands_out_of_a_trace() {
    let bench = new_bench();
    let mut lines = String::from(
        "pagewise-trace 1 addresses\nproperty command a%1B[2Jb%0Ac\nproperty x%1By z%1B\n",
    );
    for object in 1..=100 {
        lines.push_str(&format!("allocate {object} 0 16 0 {:#x}\n", object * 4096));
    }
    lines.push_str("free 1\nsite 0 type=- depth=- class=16\n");
    lines.push_str("frame 0x10 symbol=f%1B[31m file=- line=0 module=/x build=-\n");
    bench.convert("hostile", &lines);
    for words in [
        &["stat", "hostile.trace"][..],
        &["stat", "--split", "hostile.trace"],
        &["show", "--sites", "hostile.trace"],
        &["show", "--properties", "hostile.trace"],
        &["report", "hostile.trace"],
    ] {
        let shown = text(&bench.run(words));
        assert!(shown.contains('\u{fffd}'), "{words:?}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{words:?}: {shown}");
    }
}

#[test]
fn a_collectors_trace_has_no_live_bytes() {
    let bench = new_bench();
    let lines = "pagewise-trace 1\nallocate 1 0 16 0\nallocate 2 0 16 0\nassign 1 0 2\nadd-root 1 0\njump 3 0\n";
    fs::write(bench.path("j.txt"), lines).unwrap();
    bench.run(&["convert", "j.txt", "-o", "j.trace"]);
    let output = bench.run(&["stat", "j.trace"]);
    let shown = text(&output);
    assert!(shown.contains("live      not known"), "{shown}");
    assert!(
        shown.contains("1 assignments") && !shown.contains("pins"),
        "{shown}"
    );
    assert_eq!(bench.stat("j.trace")["peak_live_bytes"], Value::Null);
}

/// The survivors would fit on 4 pages and hold 100.
#[test]
fn the_report_says_who_pins_and_what_grouping_frees() {
    let bench = new_bench();
    sparse_trace(&bench);
    let shown = text(&bench.run(&["report", "sparse.trace"]));
    assert!(
        shown.contains("pinned   397 kB (97 %) by few survivors: 100 pages"),
        "{shown}"
    );
    assert!(
        shown.contains("With its blocks elsewhere, 389 kB of the 410 kB (95 %) could go back"),
        "{shown}"
    );
    let answer = shown.replace('\n', " ");
    assert!(
        answer.contains(
            "In a model of an allocator with size classes, most would be freed by keeping the blocks of survivor (x) on \
             pages of their own: 393 kB of 410 kB (96 %)"
        ),
        "{shown}"
    );
    let first = shown.lines().next().unwrap();
    assert!(
        first.starts_with("survivor (x) pins most: its 100 live blocks hold 397 kB"),
        "{shown}"
    );
    let output = bench.run(&["report", "--html", "x.html", "sparse.trace"]);
    assert!(output.status.success() && output.stdout.is_empty());
    let html = fs::read_to_string(bench.path("x.html")).unwrap();
    assert!(
        html.contains("id=\"chart\"")
            && html.contains("survivor (x)")
            && html.ends_with("</html>\n")
    );
}

/// Survivors of a size of their own lie beside each other in an allocator with size classes.
#[test]
fn the_report_says_that_another_allocator_is_the_answer() {
    let bench = new_bench();
    let told = |survivor| {
        sparse_trace_with(&bench, 100, survivor);
        text(&bench.run(&["report", "sparse.trace"]))
    };
    let shown = told(48);
    let second = shown
        .lines()
        .find(|line| line.starts_with("A model of an allocator with size classes"));
    let second = second.unwrap_or_else(|| panic!("{shown}"));
    assert!(
        second.contains("where the program's holds 410 kB: try another one"),
        "{shown}"
    );
    let shown = told(128);
    assert!(!shown.contains("try another one"), "{shown}");
}

/// A leak is not what is allocated most.
#[test]
fn what_is_live_at_the_end_comes_first_where_that_is_asked_for() {
    let bench = new_bench();
    sparse_trace(&bench);
    let first = |words: &[&str]| {
        let shown = text(&bench.run(words));
        let rows = shown
            .lines()
            .skip_while(|line| !line.contains("allocations"));
        rows.skip(1)
            .find(|line| line.contains("(x)"))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(first(&["stat", "sparse.trace"]).contains("brief"));
    assert!(first(&["stat", "--at", "end", "sparse.trace"]).contains("survivor"));
}

/// One block in 32 survives, of whatever site: no site is to blame. Elsewhere the blocks of one would lie as they do here.
#[test]
fn the_report_says_when_grouping_would_not_help() {
    let bench = new_bench();
    let mut random = fastrand::Rng::with_seed(1);
    let mut lines = vec!["pagewise-trace 1 addresses".to_owned()];
    for object in 1..=20_000_u64 {
        let (site, address) = (random.u8(..4), 0x10_0000 + object * 128);
        lines.push(format!("allocate {object} {site} 128 0 {address:#x}"));
    }
    let dead = (1..=20_000).filter(|_| random.u8(..32) > 0);
    lines.extend(dead.map(|object| format!("free {object}")));
    fs::write(bench.path("x.txt"), lines.join("\n")).unwrap();
    bench.run(&["convert", "x.txt", "-o", "x.trace"]);
    let shown = text(&bench.run(&["report", "x.trace"]));
    let answer = shown.replace('\n', " ");
    assert!(
        answer.contains("there grouping by call site would not help"),
        "{shown}"
    );
    assert!(
        answer.contains("less than 2 % of the pages or fewer than 16 could go back"),
        "{shown}"
    );
    assert!(!shown.contains(" yes "), "{shown}");
}

/// Seven of eight pages could go: nothing that anybody would miss.
#[test]
fn the_report_calls_a_few_pages_no_help() {
    let bench = new_bench();
    sparse_trace_of(&bench, 8);
    let shown = text(&bench.run(&["report", "sparse.trace"]));
    assert!(
        shown.contains("survivor (x) pins most: its 8 live blocks"),
        "{shown}"
    );
    let answer = shown.replace('\n', " ");
    assert!(answer.contains("fewer than 16 could go back"), "{shown}");
    assert!(answer.contains("call site would not help"), "{shown}");
    assert!(!shown.contains(" yes "), "{shown}");
}

#[test]
fn a_report_needs_addresses() {
    let bench = new_bench();
    fs::write(
        bench.path("x.txt"),
        "pagewise-trace 1\nallocate 1 0 16 0\nfree 1\n",
    )
    .unwrap();
    bench.run(&["convert", "x.txt", "-o", "x.trace"]);
    let output = bench.run(&["report", "--html", "x.html", "x.trace"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        errors(&output).contains("it has no addresses"),
        "{}",
        errors(&output)
    );
    bench.refused(
        &["stat", "--at", "pinned", "x.trace"],
        "it has no addresses",
    );
    assert_eq!(bench.names(), ["x.trace", "x.txt"]);
}
