//! Code that a program makes while it runs: functions of Python and of other languages with perf maps, beside native ones.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::bench::Bench;
use common::copies::skipped;
use common::{errors, own_file, recorder, text};

fn new_bench() -> Bench {
    Bench::new().with("PAGEWISE_RECORD_LIBRARY", recorder())
}

/// programs/jit.c, compiled as distributions do. None: this processor is not that whose code it makes.
fn jit() -> Option<&'static str> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if !cfg!(target_arch = "x86_64") {
        skipped("code for x86-64 only");
        return None;
    }
    let built = PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/jit.c");
        let own = own_file("jit");
        let status = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
            .args(["-O1", "-g", "-w", "-fno-builtin", "-fomit-frame-pointer"])
            .args(["-fno-optimize-sibling-calls", "-o"])
            .args([&own, &source])
            .status();
        assert!(status.expect("a C compiler").success());
        own
    });
    built.to_str()
}

/// Its calls, outermost first, with what they allocated: `trace report --folded`.
fn folded(bench: &Bench, trace: &str) -> Vec<String> {
    let output = bench.run(&["report", "--folded", "allocated", trace]);
    assert!(output.status.success(), "{}", errors(&output));
    text(&output).lines().map(str::to_owned).collect()
}

/// The stack below `main` in which so many bytes were allocated.
fn stack_of(lines: &[String], bytes: u64) -> String {
    let ending = format!(" {bytes}");
    let found = lines.iter().find_map(|line| line.strip_suffix(&ending));
    let stack = found.unwrap_or_else(|| panic!("{bytes}: {lines:#?}"));
    assert!(stack.starts_with("_start;"), "{stack}");
    stack.split(";main;").nth(1).unwrap_or(stack).to_owned()
}

/// Removes what the program, whose number is its first line, has left in /tmp.
fn clean_up(output: &Output) -> String {
    let process = text(output).lines().next().unwrap().to_owned();
    let map = format!("/tmp/perf-{process}.map");
    let _ = fs::remove_file(format!("{map}.other"));
    let _ = fs::remove_file(&map);
    map
}

/// Of the trampoline's caller, and of the script's.
const FROM_TRAMPOLINE: &str = "native;render (b.js);between;native;Class.method (a.py);innermost";
/// Behind a frame pointer no code is read: a trampoline there is left by the frame pointer too, which hides its caller.
const FROM_SCRIPT: &str = "Class.method (a.py);between;native;render (b.js);innermost";

#[test]
fn stacks_lead_through_generated_code_to_the_start() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let output = bench.record(&["--stacks"], &[program, "plain"]);
    let map = clean_up(&output);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(!errors(&output).contains(&map), "{}", errors(&output));
    let lines = folded(&bench, "x.trace");
    assert_eq!(stack_of(&lines, 1000), FROM_TRAMPOLINE);
    assert_eq!(stack_of(&lines, 2000), FROM_SCRIPT);
    assert_eq!(stack_of(&lines, 3000), "native;stub");

    let stat = text(&bench.run(&["stat", "x.trace"]));
    assert!(stat.contains("Class.method (a.py)"), "{stat}");
    assert!(stat.contains("render (b.js:12)"), "{stat}");
    assert!(stat.contains("stub ([jit])"), "{stat}");
    let shown = text(&bench.run(&["show", "--properties", "x.trace"]));
    assert!(shown.contains("perf-map: 3"), "{shown}");
}

/// In an address of its own each time, and yet the same places.
#[test]
fn diff_matches_generated_code_by_its_functions() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    for name in ["a", "b"] {
        clean_up(&bench.record(&["--stacks"], &[program, "plain"]));
        fs::rename(bench.path("x.trace"), bench.path(name)).unwrap();
    }
    let said = text(&bench.run(&["diff", "--by", "allocated", "a", "b"]));
    assert!(
        !said.contains("new") && !said.contains("vanished"),
        "{said}"
    );
}

#[test]
fn frame_pointers_that_lead_anywhere_crash_nothing() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let output = bench.record(&["--stacks"], &[program, "wild"]);
    clean_up(&output);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(text(&output).ends_with("done\n"));
    let lines = folded(&bench, "x.trace");
    assert_eq!(stack_of(&lines, 1000), FROM_TRAMPOLINE);
    // What frame pointers lead to counts where it may be code, and is looked for each time.
    let of_line = |line: &String| -> Vec<u64> {
        let calls = line.split([';', ' ']);
        let addresses = calls.filter_map(|call| call.strip_prefix("0x"));
        addresses
            .map(|digits| u64::from_str_radix(digits, 16).unwrap())
            .collect()
    };
    let addresses: BTreeSet<u64> = lines.iter().flat_map(of_line).collect();
    let (least, most) = (addresses.first().unwrap(), addresses.last().unwrap());
    assert!(
        addresses.len() > 3 && most - least < 1 << 32,
        "{addresses:x?}"
    );
    let of_wild = lines.iter().filter_map(|line| line.rsplit_once(' '));
    let bytes: u64 = of_wild
        .map(|(_, bytes)| bytes.parse::<u64>().unwrap())
        .sum();
    assert!(bytes >= 20_000 * 48, "{bytes}");
}

/// Its stack ends where nobody can tell, and what its outermost call returns to must not be read.
#[test]
fn a_thread_may_begin_on_a_coroutines_stack() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let output = bench.record(&["--stacks"], &[program, "elsewhere"]);
    clean_up(&output);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(text(&output).ends_with("done\n"));
    // Its own stack is known all the same, down to the C library, whose functions have names where its symbols are installed.
    let lines = folded(&bench, "x.trace");
    let is_own = |line: &&String| line.ends_with(";start_elsewhere;innermost 5000");
    let own = lines.iter().find(is_own);
    let starts_in_libc = |line: &String| line.contains("clone") || line.starts_with("libc.so.6+");
    assert!(own.is_some_and(starts_in_libc), "{lines:#?}");
}

/// Only what is certainly on a stack keeps its library loaded.
#[test]
fn libraries_may_be_unloaded_that_frame_pointers_lead_to() {
    let Some(program) = jit() else { return };
    for stacks in ["--stacks=tables", "--stacks=frame-pointers"] {
        let bench = new_bench();
        let output = bench.record(&[stacks], &[program, "unloading"]);
        clean_up(&output);
        assert!(output.status.success(), "{stacks}: {}", errors(&output));
        assert!(text(&output).ends_with("done\n"));
    }
}

/// The unwinder allocates under the lock that a walk of ours would wait for.
#[test]
fn programs_may_register_tables_for_their_code() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let output = bench.record(&["--stacks"], &[program, "registering"]);
    clean_up(&output);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(text(&output).ends_with("done\n"));
}

/// Where the recorder may make no system call, it still finds its way through code that it has met before.
#[test]
fn a_program_in_strict_mode_has_the_same_stacks() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let output = bench.record(&["--stacks"], &[program, "strict"]);
    clean_up(&output);
    assert!(output.status.success(), "{}", errors(&output));
    let lines = folded(&bench, "x.trace");
    assert_eq!(stack_of(&lines, 1000), FROM_TRAMPOLINE);
    assert_eq!(stack_of(&lines, 2000), FROM_SCRIPT);
}

/// /tmp is everybody's, and so are its names.
#[test]
fn maps_that_may_be_anothers_are_not_used() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let mut cases = vec![
        ("symlink", "it is a symbolic link"),
        ("fifo", "it is no plain file"),
        ("linked", "the file has other names"),
        ("huge", "it is larger than 64 MB"),
        // Of a process that had the number before: nothing is wrong.
        ("old", ""),
    ];
    if common::is_root() {
        cases.push(("another's", "it belongs to another user than the process"));
    }
    for (wrong, why) in cases {
        let output = bench.record(&["--stacks"], &[program, "plain", wrong]);
        let map = clean_up(&output);
        let said = errors(&output);
        assert!(output.status.success(), "{wrong}: {said}");
        assert!(said.contains(why), "{wrong}: {said}");
        assert_eq!(said.contains(&map), !why.is_empty(), "{wrong}: {said}");
        let lines = folded(&bench, "x.trace");
        let stack = stack_of(&lines, 3000);
        assert!(stack.starts_with("native;0x"), "{wrong}: {stack}");
        assert!(!lines.concat().contains("render"), "{wrong}");
    }
}

#[test]
fn of_a_map_with_rubbish_the_rest_is_used() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let output = bench.record(&["--stacks"], &[program, "plain", "rubbish"]);
    clean_up(&output);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(stack_of(&folded(&bench, "x.trace"), 1000), FROM_TRAMPOLINE);
}

/// Kept with the recording, which becomes a trace later.
#[test]
fn a_kept_recording_has_its_maps() {
    let Some(program) = jit() else { return };
    let bench = new_bench();
    let folder = bench.path("kept");
    fs::create_dir(&folder).unwrap();
    let output = Command::new(program)
        .arg("plain")
        .env(
            "LD_PRELOAD",
            common::preloadable(recorder(), &bench.path(".")),
        )
        .env(
            "PAGEWISE_RECORD",
            format!("spool={},stacks=2", folder.display()),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    // The first one takes the map from /tmp, the second finds it beside the recording.
    for trace in ["first", "second"] {
        let converted = bench.run(&["convert", "kept", "-o", trace, "--to", "binary"]);
        assert!(converted.status.success(), "{}", errors(&converted));
        clean_up(&output);
        assert_eq!(stack_of(&folded(&bench, trace), 1000), FROM_TRAMPOLINE);
    }
}

// --- Python -----------------------------------------------------------------------

/// Pythons that can tell the names of their functions: those in PATH, and pyenv's.
fn pythons() -> Vec<PathBuf> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&folders) {
        candidates.extend((12..20).map(|minor| folder.join(format!("python3.{minor}"))));
    }
    if let Some(home) = std::env::home_dir() {
        let versions = fs::read_dir(home.join(".pyenv/versions"));
        let versions = versions.into_iter().flatten().flatten();
        candidates.extend(versions.map(|version| version.path().join("bin/python3")));
    }
    let probe = "import sys; sys.exit(not (sys.version_info >= (3, 12) and \
                 __import__('sysconfig').get_config_var('PY_HAVE_PERF_TRAMPOLINE')))";
    candidates.retain(|python| {
        let found = Command::new(python).args(["-c", probe]).output();
        found.is_ok_and(|output| output.status.success())
    });
    if candidates.is_empty() {
        skipped("no Python 3.12 or later with perf maps");
    }
    candidates
}

const SCRIPT: &str = "\
import os, sys, threading
print(os.getpid(), flush=True)
kept = []
def leaf(size):
    kept.append(bytearray(size))
class Store:
    def fill(self, size):
        leaf(size)
def pages():
    for size in (20000, 20000):
        leaf(size)
        yield size
def deep(more):
    deep(more - 1) if more else leaf(60000)
def main():
    for _ in range(3): deep(30)
    Store().fill(10000)
    for _ in pages(): pass
    sorted([1], key=lambda one: leaf(30000) or one)
    thread = threading.Thread(target=leaf, args=[40000])
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        leaf(50000)
        os._exit(0)
    os.waitpid(child, 0)
main()
";

/// The script's own functions of one stack, in a row.
fn own(stack: &str) -> String {
    let calls = stack.split(';');
    let own: Vec<&str> = calls
        .filter_map(|call| call.strip_suffix(" (x.py)"))
        .collect();
    own.join(" ")
}

/// By which functions of the script so many bytes came to be, when the script's last one was `leaf`. Native frames between
/// them may differ from call to call.
fn scripts(lines: &[String], bytes: u64) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, sum) in lines.iter().filter_map(|line| line.rsplit_once(' ')) {
        if stack.contains(";leaf (x.py);") {
            *sums.entry(own(stack)).or_default() += sum.parse::<u64>().unwrap_or(0);
        }
    }
    let found = sums.iter().find(|(_, sum)| sum.abs_diff(bytes) < 400);
    let (stack, _) = found.unwrap_or_else(|| panic!("{bytes}: {sums:#?} of {lines:#?}"));
    stack.clone()
}

#[test]
fn pythons_functions_stand_beside_native_ones() {
    for python in pythons() {
        let bench = new_bench();
        fs::write(bench.path("x.py"), SCRIPT).unwrap();
        let python = python.to_str().unwrap();
        let output = bench.record(&["--python", "--every-process"], &[python, "x.py"]);
        assert!(output.status.success(), "{}", errors(&output));
        let lines = folded(&bench, "x.trace");
        assert_eq!(scripts(&lines, 10_000), "<module> main Store.fill leaf");
        assert_eq!(scripts(&lines, 40_000), "<module> main pages leaf");
        assert_eq!(
            scripts(&lines, 30_000),
            "<module> main main.<locals>.<lambda> leaf"
        );
        // Deeper than native stacks are walked.
        let deep = format!("<module> main {}leaf", "deep ".repeat(31));
        assert_eq!(scripts(&lines, 180_000), deep);
        let threads = lines.iter().find(|line| line.contains("Thread.run"));
        let thread = threads.unwrap_or_else(|| panic!("{lines:#?}"));
        assert!(!thread.contains("main (x.py)"), "{thread}");
        // From the start to the function that allocates, without the interpreter's steps between Python's functions.
        let chain = "main (x.py);Store.fill (x.py);leaf (x.py);";
        let is_fill =
            |line: &&String| line.contains("Store.fill (") && line.contains(";leaf (x.py);");
        let whole = lines
            .iter()
            .find(is_fill)
            .unwrap_or_else(|| panic!("{lines:#?}"));
        assert!(
            whole.starts_with("_start;") && whole.contains(chain),
            "{whole}"
        );
        // A fork's child has functions that its parent had called.
        let is_child = |name: &&String| name.starts_with("x.trace.");
        let names = bench.names();
        let child = names
            .iter()
            .find(is_child)
            .unwrap_or_else(|| panic!("{names:?}"));
        assert_eq!(
            scripts(&folded(&bench, child), 50_000),
            "<module> main leaf"
        );
        // A place is the script's, not the allocator's.
        let stat = text(&bench.run(&["stat", "x.trace"]));
        assert!(stat.contains("leaf (x.py)"), "{stat}");
        // What Python has written for us is gone.
        let process = text(&output).lines().next().unwrap().to_owned();
        let map = format!("/tmp/perf-{process}.map");
        assert!(!Path::new(&map).exists(), "{map}");
    }
}

#[test]
fn a_map_that_the_user_wanted_stays() {
    for python in pythons() {
        let bench = new_bench().with("PYTHONPERFSUPPORT", Path::new("1"));
        let python = python.to_str().unwrap();
        let script = "import os; print(os.getpid())";
        let output = bench.record(&["--python"], &[python, "-c", script]);
        let map = clean_up_existing(&output);
        assert!(map, "{}", errors(&output));
    }
}

fn clean_up_existing(output: &Output) -> bool {
    let process = text(output).lines().next().unwrap().to_owned();
    fs::remove_file(format!("/tmp/perf-{process}.map")).is_ok()
}

/// Nothing is changed in a program unless that is asked for.
#[test]
fn without_its_option_python_is_left_alone_and_the_option_is_named() {
    for python in pythons() {
        let bench = new_bench();
        let python = python.to_str().unwrap();
        let script =
            "import os, sys; print(os.getpid()); sys.exit('PYTHONPERFSUPPORT' in os.environ)";
        let output = bench.record(&["--stacks"], &[python, "-c", script]);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(!clean_up_existing(&output));
        assert!(errors(&output).contains("--python"), "{}", errors(&output));
        let output = bench.record(&[], &[python, "-c", script]);
        assert!(!errors(&output).contains("--python"), "{}", errors(&output));
    }
}

#[test]
fn it_is_said_where_no_python_tells_its_names() {
    let bench = new_bench();
    let output = bench.record(&["--python"], &["true"]);
    assert!(output.status.success(), "{}", errors(&output));
    let said = errors(&output);
    assert!(said.contains("CPython 3.12 or later"), "{said}");
    let shown = text(&bench.run(&["show", "--properties", "x.trace"]));
    assert!(shown.contains("stacks: unwind-tables"), "{shown}");
    let words = ["record", "-o", "y.trace", "--python", "--jvm", "--", "true"];
    let both = errors(&bench.run(&words));
    assert!(both.contains("cannot be used with"), "{both}");
}
