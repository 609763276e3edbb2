//! `pagewise trace record --listen`: profiles of what is being recorded, and a recording that does not notice.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::bench::Bench;
use common::copies::skipped;
use common::{errors, own_file, read_json, recorder, text};
use prost::Message;
use trace_analysis::pprof::Profile;

const HEAP: &str = "/debug/pprof/heap";

fn new_bench() -> Bench {
    Bench::new().with("PAGEWISE_RECORD_LIBRARY", recorder())
}

/// Compiles tests/programs/NAME.c.
fn built(name: &str, flags: &[&str]) -> PathBuf {
    let own = own_file(name);
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let built = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls"])
        .args(["-pthread", "-o"])
        .args([&own, &source])
        .args(flags)
        .status();
    assert!(built.unwrap().success());
    own
}

/// Does what it is told line by line, and answers each with a line.
fn obedient() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let path = PROGRAM.get_or_init(|| built("obedient", &[]));
    path.to_str().unwrap()
}

/// A program that is being recorded, and can be told what to do.
struct Recording {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Recording {
    fn start(bench: &Bench, options: &[&str], command: &[&str]) -> Self {
        let mut child = bench
            .pagewise()
            .args([
                "trace",
                "record",
                "--listen",
                "127.0.0.1:0",
                "-o",
                "x.trace",
            ])
            .args(options)
            .arg("--")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        // What it says at the end fits into the pipe.
        let said = child.stderr.as_mut().unwrap();
        while !line.ends_with('\n') {
            let mut letter = [0];
            said.read_exact(&mut letter).unwrap();
            line.push(letter[0] as char);
        }
        let address = line.split("http://").nth(1).expect(&line);
        let address = address.split('/').next().unwrap().parse().unwrap();
        Self {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            address,
        }
    }

    fn of_program(bench: &Bench, options: &[&str]) -> Self {
        let mut recording = Self::start(bench, options, &[obedient()]);
        recording.read();
        recording
    }

    /// The program's next line.
    fn read(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn order(&mut self, line: &str) -> String {
        writeln!(self.orders.as_mut().unwrap(), "{line}").unwrap();
        self.read()
    }

    fn get(&self, path: &str) -> Answer {
        get(self.address, "GET", path).expect("an answer")
    }

    /// Of what has happened by now: figures may be a quarter of a second old.
    fn profile(&self, path: &str) -> Figures {
        std::thread::sleep(Duration::from_millis(260));
        let answer = self.get(path);
        assert!(answer.head.starts_with("HTTP/1.1 200 "), "{answer:?}");
        Figures::of(&answer.body)
    }

    /// Without further orders.
    fn end(&mut self) -> (ExitStatus, String) {
        drop(self.orders.take());
        let mut rest = String::new();
        self.answers.read_to_string(&mut rest).unwrap();
        let mut said = String::new();
        let errors = self.child.stderr.as_mut().unwrap();
        errors.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Recording {
    /// Of a test that failed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// None: nobody is there, or not to the end.
fn get(address: SocketAddr, method: &str, path: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let body = bytes.split_off(end);
    let length = head.split("Content-Length: ").nth(1)?;
    let length: usize = length.split("\r\n").next()?.parse().unwrap();
    (method == "HEAD" || body.len() == length).then_some(Answer { head, body })
}

/// What a profile says.
#[derive(Debug)]
struct Figures {
    profile: Profile,
}

impl Figures {
    fn of(packed: &[u8]) -> Self {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut bytes)
            .unwrap();
        let profile = Profile::decode(&*bytes).unwrap();
        Self { profile }
    }

    fn text(&self, number: i64) -> &str {
        &self.profile.string_table[number as usize]
    }

    fn shown(&self) -> &str {
        self.text(self.profile.default_sample_type)
    }

    fn column(&self, kind: &str) -> usize {
        let mut types = self.profile.sample_type.iter();
        types
            .position(|one| self.text(one.kind) == kind)
            .expect(kind)
    }

    fn sum(&self, kind: &str) -> i64 {
        let column = self.column(kind);
        let samples = self.profile.sample.iter();
        samples.map(|sample| sample.value[column]).sum()
    }

    /// Of the places whose stack has this function.
    fn under(&self, kind: &str, function: &str) -> i64 {
        let column = self.column(kind);
        let is_there = |location: &u64| {
            let location = &self.profile.location[*location as usize - 1];
            location.line.iter().any(|line| {
                let found = &self.profile.function[line.function_id as usize - 1];
                self.text(found.name) == function
            })
        };
        let samples = self.profile.sample.iter();
        samples
            .filter(|sample| sample.location_id.iter().any(is_there))
            .map(|sample| sample.value[column])
            .sum()
    }

    fn allocations(&self) -> (i64, i64) {
        (self.sum("alloc_objects"), self.sum("alloc_space"))
    }

    fn in_use(&self) -> (i64, i64) {
        (self.sum("inuse_objects"), self.sum("inuse_space"))
    }
}

/// Allocations and bytes of the trace, and those that were live at its end.
fn traced(bench: &Bench) -> [(i64, i64); 2] {
    let words = ["stat", "--at", "end", "--split", "--top", "100000"];
    let output = bench.run(&[&words[..], &["--json", "x.json", "x.trace"]].concat());
    assert!(output.status.success(), "{}", errors(&output));
    let found = read_json(&bench.path("x.json"));
    let sum = |name: &str| {
        let sites = found["sites"].as_array().unwrap().iter();
        sites
            .map(|site| site[name].as_f64().expect(name))
            .sum::<f64>() as i64
    };
    [
        (sum("allocations"), sum("allocated_bytes")),
        (sum("live_objects"), sum("live_bytes")),
    ]
}

#[test]
fn a_program_is_profiled_while_it_runs() {
    let bench = new_bench();
    let mut recording = Recording::of_program(&bench, &["--stacks"]);
    let before = recording.profile(HEAP);
    assert_eq!(before.under("alloc_objects", "keep"), 0);
    assert_eq!(recording.order("allocate 500"), "allocate 500: done");
    let first = recording.profile(HEAP);
    assert_eq!(first.under("inuse_space", "keep"), 500 * 100);
    assert_eq!(first.under("alloc_space", "use_shortly"), 500 * 1000);
    assert_eq!(first.under("inuse_space", "use_shortly"), 0);
    assert_eq!(first.under("inuse_objects", "main"), 500);
    recording.order("allocate 7");
    recording.order("free 100");
    let second = recording.profile("/debug/pprof/allocs?gc=1&debug=0");
    assert_eq!(second.under("inuse_objects", "keep"), 407);
    assert_eq!(second.under("alloc_objects", "keep"), 507);

    assert_eq!(first.shown(), "inuse_space");
    assert_eq!(second.shown(), "alloc_space");
    let types: Vec<&str> = first
        .profile
        .sample_type
        .iter()
        .map(|one| first.text(one.kind))
        .collect();
    let expected = "alloc_objects alloc_space inuse_objects inuse_space pinned_space";
    assert_eq!(types.join(" "), expected);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let age = now.as_secs() as i64 - first.profile.time_nanos / 1_000_000_000;
    assert!((0..3600).contains(&age), "{age}");
    assert_eq!(first.profile.duration_nanos, 0);

    let (status, said) = recording.end();
    assert_eq!(status.code(), Some(3));
    assert!(said.contains("x.trace: "), "{said}");
    let [allocated, live] = traced(&bench);
    assert_eq!(second.allocations(), allocated);
    assert_eq!(second.in_use(), live);
    assert_eq!(bench.names(), ["x.json", "x.trace"]);
}

/// Whoever asks, as often as they like: the trace, the output and the end are as they are without.
#[test]
fn the_recording_does_not_notice_who_asks() {
    let bench = new_bench();
    let mut recording = Recording::of_program(&bench, &["--stacks"]);
    let address = recording.address;
    // One that says nothing, and stays.
    let silent = TcpStream::connect(address).unwrap();
    let askers: Vec<_> = (0..4)
        .map(|asker| {
            std::thread::spawn(move || {
                let path = ["/debug/pprof/heap", "/debug/pprof/allocs"][asker % 2];
                let (mut whole, mut before) = (0, 0);
                while let Some(answer) = get(address, "GET", path) {
                    if answer.head.starts_with("HTTP/1.1 200 ") {
                        let figures = Figures::of(&answer.body);
                        let allocated = figures.under("alloc_objects", "churn");
                        assert!(allocated >= before, "{before} and then {allocated}");
                        assert!(figures.under("inuse_objects", "churn") <= allocated);
                        (whole, before) = (whole + 1, allocated);
                    } else {
                        assert!(answer.head.starts_with("HTTP/1.1 503 "), "{answer:?}");
                        assert!(answer.text().contains("has ended"), "{answer:?}");
                    }
                }
                whole
            })
        })
        .collect();
    let said = recording.order("threads 4");
    assert_eq!(said, "threads 4: done");
    let last = recording.profile(HEAP);
    let (status, _) = recording.end();
    assert_eq!(status.code(), Some(3));
    for asker in askers {
        assert!(asker.join().unwrap() > 0, "answers to each");
    }
    drop(silent);
    let [allocated, live] = traced(&bench);
    assert_eq!(last.allocations(), allocated);
    assert_eq!(last.in_use(), live);
    assert!(last.under("alloc_objects", "churn") >= 4 * 20_000);
}

#[test]
fn each_process_and_its_last_program_can_be_asked_for() {
    let bench = new_bench();
    let mut recording = Recording::of_program(&bench, &[]);
    recording.order("allocate 10");
    let said = recording.order("fork");
    let child = said.strip_prefix("fork: ").expect(&said).to_owned();
    let own = recording.profile(HEAP);
    assert_eq!(own.under("alloc_objects", "keep"), 10);
    let path = format!("{HEAP}?pid={child}");
    let of_child = recording.profile(&path);
    assert_eq!(of_child.under("alloc_objects", "keep"), 33);

    for (pid, what) in [
        ("1", "Process 1 is not in this recording."),
        ("x", "'x' is no process."),
        ("-5", "Process -5 is not in this recording."),
    ] {
        let answer = recording.get(&format!("{HEAP}?pid={pid}"));
        let status = if pid == "x" { 400 } else { 404 };
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.head.starts_with(&expected), "{answer:?}");
        let said = answer.text();
        assert!(said.starts_with(what), "{said}");
        assert!(said.contains(&format!("{child}  obedient\n")), "{said}");
        assert!(said.contains(", the command's\n"), "{said}");
        assert!(
            said.contains("\ntry: go tool pprof 'http://127.0.0.1:"),
            "{said}"
        );
    }

    let said = recording.order(&format!("execute {}", obedient()));
    assert_eq!(said, "ready");
    recording.order("allocate 5");
    let after = recording.profile(HEAP);
    assert_eq!(after.under("alloc_objects", "keep"), 5);
    assert_eq!(recording.end().0.code(), Some(3));
}

#[test]
fn other_requests_are_told_what_there_is() {
    let bench = new_bench();
    let mut recording = Recording::of_program(&bench, &[]);
    for path in ["/", "/debug/pprof/"] {
        let index = recording.get(path);
        assert!(index.head.starts_with("HTTP/1.1 200 "), "{index:?}");
        assert!(
            index.text().contains("obedient, the command's"),
            "{index:?}"
        );
        assert!(
            !index.text().contains("/tmp"),
            "no command lines: {index:?}"
        );
    }
    let other = recording.get("/debug/pprof/profile?seconds=30");
    assert!(other.head.starts_with("HTTP/1.1 404 "), "{other:?}");
    assert!(other.text().contains("/debug/pprof/heap and"), "{other:?}");
    let delta = recording.get("/debug/pprof/heap?seconds=30");
    assert!(delta.head.starts_with("HTTP/1.1 400 "), "{delta:?}");
    assert!(
        delta.text().contains("'seconds=30' is not known"),
        "{delta:?}"
    );
    let head = get(recording.address, "HEAD", HEAP).unwrap();
    assert!(head.head.starts_with("HTTP/1.1 200 ") && head.body.is_empty());
    assert!(
        head.head
            .contains("Content-Type: application/octet-stream\r\n")
    );
    let posted = get(recording.address, "POST", HEAP).unwrap();
    assert!(posted.head.starts_with("HTTP/1.1 405 "), "{posted:?}");
    assert_eq!(recording.end().0.code(), Some(3));
}

/// The program waits in a library's constructor, before the recorder has begun.
#[test]
fn before_anything_is_recorded_there_is_nothing_to_have() {
    let bench = new_bench();
    let holding = built("holding", &["-shared", "-fPIC"]);
    let gate = bench.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let holding = common::preloadable(&holding, &bench.path("."));
    let bench = bench.with("LD_PRELOAD", &holding).with("HOLD_AT", &gate);
    let mut recording = Recording::start(&bench, &[], &[obedient()]);
    // It has been opened when the program waits.
    let mut opened = fs::OpenOptions::new().write(true).open(&gate).unwrap();
    let answer = recording.get(HEAP);
    assert!(answer.head.starts_with("HTTP/1.1 503 "), "{answer:?}");
    assert!(answer.text().contains("ask again"), "{answer:?}");
    let index = recording.get("/");
    assert!(
        index.text().contains("No process has recorded"),
        "{index:?}"
    );
    opened.write_all(b"x").unwrap();
    assert_eq!(recording.read(), "ready");
    recording.profile(HEAP);
    assert_eq!(recording.end().0.code(), Some(3));
}

/// Runtimes go on telling names while a program runs.
#[test]
fn generated_code_has_the_names_that_are_known_by_then() {
    if !cfg!(target_arch = "x86_64") {
        skipped("code for x86-64 only");
        return;
    }
    let bench = new_bench();
    let mut recording = Recording::of_program(&bench, &[]);
    recording.order("generate");
    let before = recording.profile(HEAP);
    let said = recording.order("name");
    let after = recording.profile(HEAP);
    let map = said.strip_prefix("name: ").expect(&said);
    let left = fs::remove_file(map);
    assert_eq!(before.under("inuse_space", "made_here"), 0);
    assert_eq!(after.under("inuse_space", "made_here"), 77);
    assert!(left.is_ok(), "asking removes nothing");
    assert_eq!(recording.end().0.code(), Some(3));
}

#[test]
fn signals_reach_the_program_as_ever() {
    let bench = new_bench();
    let mut recording = Recording::of_program(&bench, &[]);
    recording.order("allocate 10");
    recording.profile(HEAP);
    // SAFETY: it was started above.
    unsafe { libc::kill(recording.child.id() as i32, libc::SIGTERM) };
    let status = recording.child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    assert!(bench.path("x.trace").exists());
}

#[test]
fn an_address_that_cannot_be_had_is_said_before_anything_runs() {
    let bench = new_bench();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (address, what, next) in [
        (taken.as_str(), "is in use", "--listen 127.0.0.1:"),
        ("6071", "not '6071'", "--listen 127.0.0.1:6071 -o FILE"),
        ("::1", "not '::1'", "--listen [::1]:6070 -o FILE"),
    ] {
        let words = ["--listen", address];
        let output = bench.record(&words, &["touch", "started"]);
        assert_eq!(output.status.code(), Some(125), "{address}");
        let said = errors(&output);
        assert!(said.contains(what), "{said}");
        let next = format!("try: pagewise trace record {next}");
        assert!(said.contains(&next), "{said}");
        assert!(bench.names().is_empty(), "{:?}", bench.names());
    }
    let output = bench.record(&["--listen", "127.0.0.1:0", "--jvm"], &["java"]);
    assert_eq!(output.status.code(), Some(125));
    let output = bench.record(&["--listen", "127.0.0.1:0", "--quiet"], &["echo", "out"]);
    assert!(output.status.success());
    assert_eq!(
        (text(&output), errors(&output)),
        ("out\n".into(), String::new())
    );
}

/// As Grafana's and Go's readers do it; where there is no go the other tests have to do.
#[test]
fn go_fetches_the_profile() {
    let bench = new_bench();
    let mut recording = Recording::of_program(&bench, &["--stacks"]);
    recording.order("allocate 500");
    let url = format!("http://{}{HEAP}", recording.address);
    let output = Command::new("go")
        .args(["tool", "pprof", "-raw", &url])
        .env("PPROF_TMPDIR", bench.path("."))
        .output();
    if let Ok(output) = output {
        let shown = text(&output);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(shown.contains("inuse_space/bytes[dflt]"), "{shown}");
        assert!(shown.contains("keep"), "{shown}");
    }
    assert_eq!(recording.end().0.code(), Some(3));
}
