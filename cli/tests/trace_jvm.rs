//! `pagewise trace record --jvm` and `pagewise trace simulate`, with real JVMs and with programs that pretend to be some. The
//! agent is what `make jvm` builds.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::bench::Bench;
use common::{errors, read_json, text};
use metis::heap::{HeapOptions, NoGroups, Simulator};
use serde_json::Value;
use trace_format::{Event, TraceReader};

fn agent() -> PathBuf {
    let built =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/lib/pagewise-jvm-recorder.jar");
    assert!(built.is_file(), "there is no {}: make jvm", built.display());
    built
}

/// The Java that is recorded: `make test-java-21` names another one.
fn java() -> &'static str {
    static JAVA: OnceLock<String> = OnceLock::new();
    JAVA.get_or_init(|| std::env::var("PAGEWISE_TEST_JAVA").unwrap_or_else(|_| "java".into()))
}

/// A folder with the compiled program.
fn classes() -> &'static str {
    static FOLDER: OnceLock<String> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("classes");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/Objects.java");
        let status = Command::new("javac")
            .args(["--release", "17", "-d"])
            .args([&folder, &source])
            .status();
        assert!(status.expect("javac: make jvm installs it").success());
        folder.to_str().unwrap().to_owned()
    })
}

fn new_bench() -> Bench {
    Bench::new().with("PAGEWISE_JVM_RECORDER", &agent())
}

impl Bench {
    fn record_jvm(&self, options: &[&str], command: &[&str]) -> Output {
        self.record(&[&["--jvm"], options].concat(), command)
    }

    fn record_program(&self, options: &[&str], arguments: &[&str]) -> Output {
        let mut command = vec![java(), "-cp", classes(), "Objects"];
        command.extend(arguments);
        let mut all = vec!["--heap", "1g"];
        all.extend(options);
        self.record_jvm(&all, &command)
    }

    fn simulate(&self, words: &[&str]) -> Value {
        let output = self
            .pagewise()
            .args(["trace", "simulate", "--json", "out.json"])
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        read_json(&self.path("out.json"))
    }

    /// A program called java that says what it is given to say.
    fn pretend(&self, script: &str) -> String {
        let path = self.path("java");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn nothing_is_left(&self) -> bool {
        let names = self.names();
        !names
            .iter()
            .any(|name| name == "x.trace" || name.starts_with(".pagewise"))
    }
}

fn impossible(figures: &Value) -> u64 {
    [
        "duplicates",
        "nothing",
        "unknown",
        "after_death",
        "roots_not_held",
        "too_large",
    ]
    .iter()
    .map(|kind| figures["impossible"][kind].as_u64().unwrap())
    .sum()
}

/// Living objects of the program's classes, by the simulated collector at the trace's end.
fn living(path: &Path) -> BTreeMap<String, u64> {
    let mut trace = TraceReader::open(path).unwrap();
    let mut heap = Simulator::new(HeapOptions::default(), NoGroups).unwrap();
    let mut last = 0;
    while let Some(batch) = trace.next_batch().unwrap() {
        heap.run(&batch.events).unwrap();
        last = heap.allocations();
    }
    // One that does not fit: the heap is collected for it.
    let large = Event::Allocate {
        object: last + 1,
        site: 0,
        size: heap.heap_bytes(),
        thread: 0,
    };
    heap.run(&[large]).unwrap();
    let mut found = BTreeMap::new();
    for slot in heap.objects().living() {
        let object = &heap.objects()[slot];
        let site = trace.sites().get(object.site).unwrap_or_default();
        if object.id <= last && site.kind.starts_with("Objects$") && !site.kind.ends_with("[]") {
            *found.entry(site.kind.to_owned()).or_default() += 1;
        }
    }
    found
}

#[test]
fn what_lives_is_what_lives_in_a_real_heap() {
    let bench = new_bench();
    let output = bench.record_program(&[], &["busy", "30000"]);
    assert!(output.status.success(), "{}", errors(&output));
    let replayed = bench.simulate(&["--once", "x.trace"]);
    assert_eq!(impossible(&replayed[0]), 0, "{replayed}");
    assert!(replayed[0]["collections"].as_u64().unwrap() > 5);
    let counted = bench.simulate(&["--once", "--collector", "reference-counting", "x.trace"]);
    assert_eq!(impossible(&counted[0]), 0, "{counted}");
    let output = Command::new(java())
        .args([
            "-XX:+UseSerialGC",
            "-cp",
            classes(),
            "Objects",
            "histogram",
            "30000",
        ])
        .output()
        .unwrap();
    let histogram = text(&output);
    let truth = |class: &str| -> u64 {
        let line = histogram
            .lines()
            .find(|line| line.trim_end().ends_with(class));
        let count = line.and_then(|line| line.split_whitespace().nth(1));
        count.map_or(0, |count| count.parse().unwrap())
    };
    let found = living(&bench.path("x.trace"));
    for class in ["Objects$Leaf", "Objects$Tree", "Objects$Link"] {
        let (simulated, real) = (found.get(class).copied().unwrap_or(0), truth(class));
        assert!(real >= 20, "{class}: {histogram}");
        assert_eq!(simulated, real, "{class}");
    }
}

/// The JDK's XSLT compiles stylesheets into such classes: unrecorded, what they held seemed to die in their hands.
#[test]
fn classes_that_are_defined_without_a_name_are_recorded() {
    let bench = new_bench();
    let output = bench.record_program(&["--from", "Objects.unnamed"], &["unnamed", "200"]);
    assert!(output.status.success(), "{}", errors(&output));
    for collector in ["mark-sweep", "reference-counting"] {
        let replayed = bench.simulate(&["--once", "--collector", collector, "x.trace"]);
        assert_eq!(impossible(&replayed[0]), 0, "{collector}: {replayed}");
        assert!(replayed[0]["allocations"].as_u64().unwrap() > 20_000);
    }
    let trace = TraceReader::open(bench.path("x.trace")).unwrap();
    let made_by = |site: u32| {
        trace.sites().get(site).and_then(|site| {
            let frame = site.frames.first()?;
            Some(frame.symbol.to_owned())
        })
    };
    let mut sites = (0..trace.sites().len() as u32).filter_map(made_by);
    assert!(sites.any(|symbol| symbol == "Objects$Unnamed.run"));
}

#[test]
fn sites_have_places_and_types() {
    let bench = new_bench();
    let output = bench.record_program(&[], &["busy", "5000"]);
    assert!(
        errors(&output).contains("reference changes at"),
        "{}",
        errors(&output)
    );
    let trace = TraceReader::open(bench.path("x.trace")).unwrap();
    assert_eq!(trace.properties().get("runtime"), Some("jvm"));
    assert_eq!(trace.properties().get("ended"), Some("exit 0"));
    let sites: Vec<_> = (0..trace.sites().len() as u32)
        .filter_map(|site| trace.sites().get(site))
        .collect();
    let is_there = |kind: &str, symbol: &str| {
        sites.iter().any(|site| {
            let frame = site.frames.first();
            site.kind == kind
                && frame.is_some_and(|frame| {
                    frame.symbol == symbol && frame.file == "Objects.java" && frame.line > 10
                })
        })
    };
    assert!(is_there("Objects$Leaf", "Objects.grow"));
    assert!(is_there("Objects$Leaf[]", "Objects$Link.<init>"));
    assert!(is_there("Objects$Tree", "Objects$Tree.clone"));
}

#[test]
fn threads_are_recorded_together() {
    let bench = new_bench();
    let output = bench.record_program(&[], &["threads"]);
    assert!(output.status.success(), "{}", errors(&output));
    let replayed = bench.simulate(&["--once", "x.trace"]);
    let wrong = impossible(&replayed[0]);
    // Another thread's reference may be told a moment too late.
    assert!(
        wrong * 10_000 <= replayed[0]["events"].as_u64().unwrap(),
        "{replayed}"
    );
    assert!(living(&bench.path("x.trace"))["Objects$Leaf"] >= 1000);
}

/// Opening and closing take a monitor of the JDK's, within which events wait for the recorder's lock: whoever holds that and
/// needs the spool's next window must not need the monitor.
#[test]
fn files_are_opened_and_closed_while_the_spool_goes_on() {
    let bench = new_bench();
    let command = [
        "timeout",
        "--signal=KILL",
        "120",
        java(),
        "-cp",
        classes(),
        "Objects",
        "files",
        "20000",
    ];
    let output = bench.record_jvm(&["--heap", "2g"], &command);
    assert!(output.status.success(), "{}", errors(&output));
    let names = bench.names();
    let name = names.iter().find(|name| name.contains("x.trace"));
    let trace = TraceReader::open(bench.path(name.unwrap())).unwrap();
    // Several windows of 16 MB.
    assert!(trace.event_count() > 5_000_000, "{}", trace.event_count());
}

/// What the agent keeps of one goes to the next: under Epsilon a thousand would fill the heap.
#[test]
fn threads_that_have_ended_leave_room_for_others() {
    let bench = new_bench();
    let command = [java(), "-cp", classes(), "Objects", "ending", "1000"];
    let output = bench.record_jvm(&["--heap", "512m"], &command);
    assert!(output.status.success(), "{}", errors(&output));
    let replayed = bench.simulate(&["--once", "x.trace"]);
    let events = replayed[0]["events"].as_u64().unwrap();
    assert!(impossible(&replayed[0]) * 10_000 <= events, "{replayed}");
    assert_eq!(living(&bench.path("x.trace"))["Objects$Leaf"], 1000);
}

/// More frames than a thread has room for at first.
#[test]
fn deep_stacks_hold_what_their_frames_hold() {
    let bench = new_bench();
    let output = bench.record_program(&["--from", "Objects.deep"], &["deep", "5000"]);
    assert!(output.status.success(), "{}", errors(&output));
    for collector in ["mark-sweep", "reference-counting"] {
        let replayed = bench.simulate(&["--once", "--collector", collector, "x.trace"]);
        assert_eq!(impossible(&replayed[0]), 0, "{collector}: {replayed}");
    }
    let trace = TraceReader::open(bench.path("x.trace")).unwrap();
    assert_eq!(trace.properties().get("left-out-frames"), Some("0"));
    assert_eq!(living(&bench.path("x.trace"))["Objects$Leaf"], 5001);
}

/// The exception may come within the agent, at any of its instructions. The interpreter's frames are the largest.
#[test]
fn what_follows_a_full_stack_is_recorded() {
    let bench = new_bench();
    let command = [
        java(),
        "-Xint",
        "-cp",
        classes(),
        "Objects",
        "overflow",
        "60",
    ];
    let output = bench.record_jvm(&["--heap", "1g"], &command);
    assert!(output.status.success(), "{}", errors(&output));
    let trace = TraceReader::open(bench.path("x.trace")).unwrap();
    assert_eq!(trace.properties().get("stopped"), None);
    assert_eq!(living(&bench.path("x.trace"))["Objects$Leaf"], 1000);
}

#[test]
fn a_larger_stack_of_the_users_own_is_kept() {
    let bench = new_bench();
    let command = [
        java(),
        "-Xss64m",
        "-cp",
        classes(),
        "Objects",
        "deep",
        "40000",
    ];
    let output = bench.record_jvm(&["--heap", "1g"], &command);
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn threads_have_the_names_that_they_have_without() {
    let bench = new_bench();
    let output = bench.record_program(&[], &["name"]);
    assert_eq!(text(&output).trim(), "Thread-0", "{}", errors(&output));
}

#[test]
fn options_of_two_words_are_not_taken_apart() {
    let bench = new_bench();
    let modules = "java.base,java.management";
    let options = ["--limit-modules", modules, "-cp", classes()];
    let command = [&[java()], &options[..], &["Objects", "fail"]].concat();
    let output = bench.record_jvm(&["--heap", "1g"], &command);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    let trace = TraceReader::open(bench.path("x.trace")).unwrap();
    assert!(trace.event_count() > 1000);
}

#[test]
fn recording_starts_where_told() {
    let bench = new_bench();
    let output = bench.record_program(&["--from", "Objects.busy", "--jumps"], &["busy", "2000"]);
    assert!(output.status.success(), "{}", errors(&output));
    let mut trace = TraceReader::open(bench.path("x.trace")).unwrap();
    let batch = trace.next_batch().unwrap().unwrap();
    let jump = batch.events.iter().find_map(|event| match event {
        Event::Jump { site, .. } => Some(*site),
        _ => None,
    });
    let site = jump.expect("a jump");
    let frame = trace.sites().get(site).unwrap();
    assert_eq!(frame.frames[0].symbol, "Objects.busy");
}

#[test]
fn a_start_that_never_comes_is_said() {
    let bench = new_bench();
    let output = bench.record_program(&["--from", "Objects.nothing"], &["busy", "200"]);
    assert!(output.status.success(), "{}", errors(&output));
    let said = errors(&output);
    assert!(
        said.contains("x.trace is empty: Objects.nothing was never called"),
        "{said}"
    );
}

#[test]
fn a_killed_jvm_leaves_its_trace() {
    let bench = new_bench();
    let output = bench.record_program(&[], &["kill"]);
    assert_eq!(output.status.signal(), Some(9), "{}", errors(&output));
    let trace = TraceReader::open(bench.path("x.trace")).unwrap();
    assert_eq!(trace.properties().get("ended"), Some("signal 9"));
    assert!(trace.event_count() > 100_000);
    let replayed = bench.simulate(&["--once", "x.trace"]);
    assert_eq!(impossible(&replayed[0]), 0);
}

#[test]
fn an_exhausted_heap_is_explained() {
    let bench = new_bench();
    let output = bench.record_jvm(
        &["--heap", "512m"],
        &["java", "-cp", classes(), "Objects", "fill"],
    );
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    let said = errors(&output);
    assert!(
        said.contains("heap of 512m was used up") && said.contains("--heap 16g"),
        "{said}"
    );
    let trace = TraceReader::open(bench.path("x.trace")).unwrap();
    assert!(trace.event_count() > 1000);
}

#[test]
fn the_status_passes_through_scripts_too() {
    let bench = new_bench();
    let line = format!("java -cp '{}' Objects fail", classes());
    let output = bench.record_jvm(&["--heap", "1g"], &["sh", "-c", &line]);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    let names = bench.names();
    let traces = names.iter().filter(|name| name.contains("x.trace")).count();
    assert_eq!(traces, 1);
    // A shell that waits has no trace of its own.
    let output = bench.record_jvm(&["--heap", "1g"], &["sh", "-c", &format!("{line}; true")]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("x.trace was not written") && said.contains("x.trace."),
        "{said}"
    );
    let output = bench.record_jvm(&["--quiet"], &["true"]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("no JVM that was recorded"), "{said}");
}

/// The JVM takes its variable apart at white space.
#[test]
fn a_recording_may_lie_in_a_folder_with_spaces_in_its_name() {
    let bench = new_bench();
    fs::create_dir(bench.path("a b")).unwrap();
    let line = format!("java -cp '{}' Objects fail", classes());
    let options = ["--heap", "1g", "--spool", "a b"];
    let output = bench.record_jvm(&options, &["sh", "-c", &line]);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    let names = bench.names();
    let is_there = names.iter().any(|name| name.contains("x.trace"));
    assert!(is_there, "{names:?} {}", errors(&output));
}

#[test]
fn other_collectors_are_refused() {
    let bench = new_bench();
    let output = bench.record_jvm(
        &[],
        &["java", "-XX:+UseG1GC", "-cp", classes(), "Objects", "fail"],
    );
    assert_eq!(output.status.code(), Some(125));
    let said = errors(&output);
    assert!(
        said.contains("-XX:+UseG1GC") && said.contains("nothing was run"),
        "{said}"
    );
    assert!(bench.nothing_is_left());
    let output = bench
        .pagewise()
        .args([
            "trace", "record", "--jvm", "-o", "x.trace", "--", "java", "-version",
        ])
        .env("JAVA_TOOL_OPTIONS", "-Dx=y -XX:+UseZGC")
        .output()
        .unwrap();
    assert!(
        errors(&output).contains("-XX:+UseZGC"),
        "{}",
        errors(&output)
    );
}

#[test]
fn verification_is_refused() {
    let bench = new_bench();
    for option in [
        "-Xverify",
        "-Xverify:all",
        "-Xverify:remote",
        "-XX:+BytecodeVerificationLocal",
    ] {
        let output = bench.record_jvm(&[], &["java", option, "-cp", classes(), "Objects", "fail"]);
        assert_eq!(output.status.code(), Some(125), "{}", errors(&output));
        let said = errors(&output);
        assert!(
            said.contains(&format!("{option} cannot be recorded")) && said.contains("verifier"),
            "{said}"
        );
        assert!(bench.nothing_is_left());
    }
}

/// Where the agent's own options would come to stand is in the file.
#[test]
fn files_of_options_are_refused() {
    let bench = new_bench();
    let line = format!("-cp \"{}\" Objects", classes());
    fs::write(bench.path("options"), &line).unwrap();
    let output = bench.record_jvm(&[], &["java", "-Xmx1g", "@options", "fail"]);
    assert_eq!(output.status.code(), Some(125), "{}", errors(&output));
    let said = errors(&output);
    assert!(
        said.contains("@options cannot be recorded")
            && said.contains("with the words of @options in its place"),
        "{said}"
    );
    assert!(bench.nothing_is_left());
    let output = bench
        .pagewise()
        .args([
            "trace",
            "record",
            "--jvm",
            "-o",
            "x.trace",
            "--",
            "java",
            "-cp",
            classes(),
            "Objects",
            "fail",
        ])
        .env("JDK_JAVA_OPTIONS", "@options")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", errors(&output));
    // After the program's class they are the program's own.
    let output = bench.record_program(&[], &["fail", "@options"]);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
}

/// A script's own options win over the command's, and are not seen before it runs.
#[test]
fn jvms_that_cannot_be_recorded_run_on_and_say_why() {
    let bench = new_bench();
    let cases = [
        ("-XX:-UseEpsilonGC", "its collector moves objects"),
        ("-XX:-UseCompressedOops", "its references take 64 bits"),
        ("-Xmx40g", "its references take 64 bits"),
        ("-Xverify:remote", "it verifies the classes"),
    ];
    for (option, expected) in cases {
        let line = format!("java {option} -cp '{}' Objects fail", classes());
        let output = bench.record_jvm(&["--heap", "1g"], &["sh", "-c", &line]);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(7), "{option}: {said}");
        assert!(
            said.contains(&format!("pagewise: this JVM is not recorded: {expected}"))
                && said.contains("started no JVM that was recorded"),
            "{option}: {said}"
        );
        assert!(bench.nothing_is_left());
    }
}

/// Whatever goes wrong in the agent's start.
#[test]
fn a_jvm_runs_on_without_a_place_for_its_recording() {
    let agent = format!("-javaagent:{}=spool=/nowhere", agent().display());
    let output = Command::new(java())
        .args([
            "-XX:+UnlockExperimentalVMOptions",
            "-XX:+UseEpsilonGC",
            "-Xmx1g",
        ])
        .args([
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:-BytecodeVerificationRemote",
        ])
        .args([&agent, "-cp", classes(), "Objects", "fail"])
        .output()
        .unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(
        said.contains("not recorded: ") && said.contains("/nowhere"),
        "{said}"
    );
}

#[test]
fn other_jvms_are_refused() {
    let bench = new_bench();
    let cases = [
        (
            "echo '    java.version = 1.8.0_292' >&2",
            "Java 1.8.0_292; 17 and 21 are what the agent was tested with",
        ),
        (
            "case \"$*\" in *Epsilon*) echo 'Unrecognized VM option' >&2; exit 1;; esac\n\
             echo '    java.version = 17.0.1' >&2; echo '    java.vm.name = Eclipse OpenJ9 VM' >&2",
            "no Epsilon collector",
        ),
        (
            "echo '    java.version = 17.0.1' >&2; echo java.base@17.0.1",
            "without the module java.instrument",
        ),
        (
            "echo '    java.version = 25-ea' >&2",
            "Java 25-ea; 17 and 21 are",
        ),
        ("echo hello", "does not say what it is, but: hello"),
        ("exit 3", "does not say what it is, but: nothing"),
    ];
    for (script, expected) in cases {
        let java = bench.pretend(script);
        let output = bench.record_jvm(&[], &[&java, "Main"]);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains(expected) && said.contains("openjdk-17"),
            "{said}"
        );
        assert!(bench.nothing_is_left());
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let bench = new_bench();
    let cases: [(&[&str], &str); 6] = [
        (&["--heap", "40g"], "do not reach"),
        (&["--heap", "much"], "not a size"),
        (&["--heap", "100m"], "need more"),
        (&["--from", "main"], "not a class and a method"),
        (&["--stacks"], "cannot be used with"),
        (&["--sample", "100"], "cannot be used with"),
    ];
    for (options, expected) in cases {
        let output = bench.record_jvm(options, &["java", "-version"]);
        assert!(!output.status.success());
        assert!(errors(&output).contains(expected), "{}", errors(&output));
    }
    let output = bench
        .pagewise()
        .args([
            "trace", "record", "--jvm", "-o", "x.trace", "--", "java", "-version",
        ])
        .env("PAGEWISE_JVM_RECORDER", "/nowhere/x.jar")
        .output()
        .unwrap();
    assert!(errors(&output).contains("make jvm"), "{}", errors(&output));
    assert!(bench.nothing_is_left());
}

// ---- The samples of recorded workloads

fn sample(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/metis/samples");
    folder.join(name).to_str().unwrap().to_owned()
}

const WORKLOADS: [&str; 7] = [
    "compiler.compiler",
    "compiler.sunflow",
    "compress",
    "serial",
    "sunflow",
    "xml.transform",
    "xml.validation",
];

#[test]
fn samples_replay_without_an_impossible_event() {
    let bench = new_bench();
    let files: Vec<String> = WORKLOADS
        .iter()
        .flat_map(|name| ["train", "test"].map(|input| sample(&format!("{name}.{input}.trace"))))
        .collect();
    let mut words = vec!["--once", "--strict"];
    words.extend(files.iter().map(String::as_str));
    let replayed = bench.simulate(&words);
    words.extend(["--collector", "reference-counting"]);
    let counted = bench.simulate(&words);
    let all: Vec<&Value> = [&replayed, &counted]
        .iter()
        .flat_map(|one| one.as_array().unwrap())
        .collect();
    assert_eq!(all.len(), 28);
    let properties = bench
        .pagewise()
        .args(["trace", "show", "--properties", &files[0]])
        .output()
        .unwrap();
    assert!(text(&properties).contains("excerpt: the first 20000 of"));
    for one in all {
        assert_eq!(one["events"], 20_000, "{one}");
        assert_eq!(one["stopped"], Value::Null);
        assert!(one["allocations"].as_u64().unwrap() > 1000);
    }
}

#[test]
fn a_simulation_compares_learned_groups_with_its_controls() {
    let bench = new_bench();
    let (train, test) = (
        sample("compress.train.trace"),
        sample("compress.test.trace"),
    );
    let words = [
        "--seeds",
        "2",
        "--repetitions",
        "4",
        "--heap",
        "50000",
        "--train",
        &train,
        &test,
    ];
    let report = bench.simulate(&words);
    let arms: Vec<&str> = report[0]["traces"][0]["arms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arm| arm["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        arms,
        [
            "no-groups",
            "metis",
            "metis-random",
            "metis-elsewhere",
            "metis-elsewhere-random"
        ]
    );
    // Sites have the same numbers by then: what was learned elsewhere is found again.
    let learned = &report[0]["traces"][0]["arms"][3]["runs"][0];
    assert!(learned["sites"].as_u64().unwrap() > 0, "{learned}");
    let output = bench
        .pagewise()
        .args([
            "trace",
            "simulate",
            "--seeds",
            "2",
            "--repetitions",
            "2",
            &test,
        ])
        .output()
        .unwrap();
    assert!(text(&output).contains("metis-random"), "{}", text(&output));
}

#[test]
fn another_reading_of_the_paper_makes_other_figures() {
    let bench = new_bench();
    let test = sample("compress.test.trace");
    fs::write(
        bench.path("readings.json"),
        r#"{"metis": {"activation": {"collections": 2}}, "growth": "when-nothing-fits", "assignments": "all", "roots_at_end": "keep"}"#,
    )
    .unwrap();
    let words = ["--seeds", "1", "--heap", "50000", &test];
    let plain = bench.simulate(&words);
    let mut more = vec!["--readings", "readings.json"];
    more.extend(words);
    let other = bench.simulate(&more);
    assert_eq!(other[0]["options"]["metis"]["activation"]["collections"], 2);
    assert_eq!(other[0]["options"]["metis"]["tuple_limit"], 3, "as ever");
    assert_eq!(other[0]["options"]["heap"]["growth"], "when-nothing-fits");
    assert_eq!(other[0]["options"]["repeat"]["roots_at_end"], "keep");
    assert_ne!(plain[0]["traces"][0]["arms"], other[0]["traces"][0]["arms"]);
}

/// A sentence at the end says what the tables come to.
#[test]
fn a_simulation_ends_with_what_it_found() {
    let bench = new_bench();
    let (train, test) = (sample("sunflow.train.trace"), sample("sunflow.test.trace"));
    let output = bench.run(&["simulate", "--once", &test]);
    assert!(
        text(&output).contains("No event is impossible"),
        "{}",
        text(&output)
    );
    let output = bench.run(&[
        "simulate",
        "--seeds",
        "2",
        "--repetitions",
        "2",
        "--train",
        &train,
        &test,
    ]);
    let said = text(&output);
    let last = said.trim_end().rsplit("\n\n").next().unwrap();
    assert!(
        last.starts_with("None of ") || last.starts_with("Worth it"),
        "{said}"
    );
    assert!(last.contains("metis"), "{said}");
}

#[test]
fn what_one_kind_of_program_teaches_is_not_applied_to_another() {
    let bench = new_bench();
    let native = "property runtime native\nproperty events allocate free\nallocate 1 0 16 0\nfree 1\nsite 0 type=- depth=1 class=16\n";
    bench.trace_named("native", native);
    let java = sample("sunflow.test.trace");
    bench.refused(
        &["simulate", "--train", "native.trace", &java],
        "the first is recorded without --stacks, the second the objects of a JVM",
    );
    // Of two programs for the same kind of machine, too.
    let other = native
        .replace("native", "jvm")
        .replace("type=-", "type=Other");
    bench.trace_named("other", &other);
    bench.refused(
        &["simulate", "--train", "other.trace", &java],
        "no call site in common",
    );
    for words in [["report", &java], ["group", &java], ["replay", &java]] {
        let output = bench.run(&words);
        assert!(
            errors(&output).contains("trace simulate"),
            "{}",
            errors(&output)
        );
    }
}

#[test]
fn a_simulation_says_what_is_wrong_with_its_input() {
    let bench = new_bench();
    fs::write(bench.path("no.trace"), "no trace").unwrap();
    fs::write(
        bench.path("typing.json"),
        r#"{"metis": {"tuple_limits": 3}}"#,
    )
    .unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["--readings", "typing.json", "b"], "tuple_limits"),
        (&["--readings", "missing.json", "b"], "missing.json"),
        (&["no.trace"], "cannot read no.trace"),
        (&["missing.trace"], "missing.trace"),
        (&["--train", "a", "b", "c"], "as many --train"),
        (&["--strict", "b"], "--once"),
    ];
    for (words, expected) in cases {
        let output = bench
            .pagewise()
            .args(["trace", "simulate"])
            .args(words)
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert!(errors(&output).contains(expected), "{}", errors(&output));
    }
}
