//! `pagewise metrics`: figures for Prometheus, and a server that nobody can hang.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::copies::{BLOCK, COPIES, Copies, skipped};
use common::{errors, output, pagewise, text};
use serde_json::Value;

const OPEN_METRICS: &str = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut command = pagewise();
        command
            .args(["metrics", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped());
        // A test suite in the background of a shell has the signal ignored, and so would the server.
        // SAFETY: signal is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).expect(&line);
        let address = address.split('/').next().unwrap().parse().unwrap();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    }

    /// Sends these bytes and returns all that comes back.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may have answered, and closed, before it has read all.
        let _ = stream.write_all(bytes);
        answer(stream)
    }

    fn get(&self, path: &str, header: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n").as_bytes())
    }

    /// Returns the exit code, and how long it took.
    fn end(&mut self, signal: i32) -> (Option<i32>, Duration) {
        let begin = Instant::now();
        // SAFETY: it was started above.
        unsafe { libc::kill(self.child.id() as i32, signal) };
        (self.child.wait().unwrap().code(), begin.elapsed())
    }
}

impl Drop for Server {
    /// Of a test that failed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// Of the program of this name, where there is such a sample.
fn sample(text: &str, metric: &str, name: &str) -> Option<u64> {
    let start = format!("{metric}{{name=\"{name}\",policy=\"share\"}} ");
    let mut found = text.lines().filter_map(|line| line.strip_prefix(&start));
    found.next().map(|value| value.parse().unwrap())
}

#[test]
fn figures_of_a_process_that_shares_are_served() {
    let Some(mut copies) = Copies::start() else {
        return;
    };
    let mut server = Server::start();
    let first = server.get("/metrics", OPEN_METRICS);
    copies.write();
    // Younger figures than these are not asked for.
    std::thread::sleep(Duration::from_millis(300));
    let second = server.get("/metrics?x=1", OPEN_METRICS);
    let older = server.get("/metrics", "Accept: text/html");
    let name = copies.name.clone();
    copies.end();
    std::thread::sleep(Duration::from_millis(300));
    let ended = server.get("/metrics", OPEN_METRICS);
    assert_eq!(server.end(libc::SIGTERM).0, Some(0));

    let value = |text: &str, metric: &str| {
        let found = sample(text, &format!("pagewise_{metric}"), &name);
        found.unwrap_or_else(|| panic!("{metric} of {name} in {text}"))
    };
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    let kind = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(first.contains(kind), "{first}");
    assert!(first.contains("# UNIT pagewise_saved_bytes bytes\n"));
    assert!(first.contains("# TYPE pagewise_page_faults counter\n"));
    assert!(first.ends_with("# EOF\n"), "{first}");
    assert_eq!(value(&first, "processes"), 1);
    assert!(value(&first, "live_bytes") >= (COPIES + 1) * BLOCK);
    assert!(value(&first, "physical_bytes") > BLOCK);
    assert!(value(&first, "shared_bytes") > COPIES * BLOCK);
    // A block's ends may lie on pages that are not shared.
    assert!(value(&first, "snapshot_bytes") > BLOCK - BLOCK / 16);
    let saved = value(&first, "saved_bytes");
    assert!(saved.abs_diff(COPIES * BLOCK) < BLOCK / 16, "{saved}");
    assert!(value(&second, "saved_bytes") < saved - BLOCK / 2);
    let faults = [&first, &second, &ended].map(|text| value(text, "page_faults_total"));
    assert!(faults[0] > 0 && faults[0] < faults[1], "{faults:?}");
    // What was counted stays counted; what is there no more is not shown.
    assert!(faults[1] <= faults[2], "{faults:?}");
    assert_eq!(value(&ended, "processes"), 0);
    assert_eq!(sample(&ended, "pagewise_saved_bytes", &name), None);

    assert!(older.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert!(older.contains("# TYPE pagewise_page_faults_total counter\n"));
    assert!(!first.contains("/tmp/"), "no command lines: {first}");
}

#[test]
fn other_requests_have_their_answers() {
    let mut server = Server::start();
    let status = |answer: &str| answer.split("\r\n").next().unwrap().to_owned();
    let root = server.get("/", "A: b");
    assert_eq!(status(&root), "HTTP/1.1 200 OK");
    assert!(root.contains("/metrics has figures"), "{root}");
    let head = server.send(b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(status(&head), "HTTP/1.1 200 OK");
    assert!(head.contains("Content-Length: ") && head.ends_with("\r\n\r\n"));
    let other = server.get("/favicon.ico", "A: b");
    assert_eq!(status(&other), "HTTP/1.1 404 Not Found");
    let posted = server.send(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(status(&posted), "HTTP/1.1 405 Method Not Allowed");
    assert!(posted.contains("Allow: GET, HEAD\r\n"));
    assert_eq!(server.end(libc::SIGINT).0, Some(0));
}

#[test]
fn bad_requests_are_refused_and_harm_nobody() {
    let mut server = Server::start();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    for (bytes, expected) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01"[..], "HTTP/1.1 400 "),
        (b"\0\0\0\0\r\n\r\n", "HTTP/1.1 400 "),
        (b"GET\r\n\r\n", "HTTP/1.1 400 "),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400 "),
        (headers.as_bytes(), "HTTP/1.1 431 "),
    ] {
        let found = server.send(bytes);
        assert!(found.starts_with(expected), "{found:?}");
    }
    // So long that its end meets a closed connection: the answer may be lost, the server is not.
    let found = server.send(long.as_bytes());
    assert!(
        found.is_empty() || found.starts_with("HTTP/1.1 431 "),
        "{found:?}"
    );

    // One that says nothing, one that stops, one that goes on by a byte at a time, one that does not read.
    let silent = server.connect();
    let mut half = server.connect();
    half.write_all(b"GET /metrics HT").unwrap();
    let mut unread = server.connect();
    unread.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut slow = server.connect();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(15) {
        if slow.write_all(b"a").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let waited = begin.elapsed();
    assert!(waited < Duration::from_secs(10), "closed after {waited:?}");
    for stream in [silent, half] {
        let found = answer(stream);
        assert!(found.starts_with("HTTP/1.1 408 "), "{found:?}");
    }
    let good = server.get("/metrics", OPEN_METRICS);
    assert!(good.ends_with("# EOF\n"), "{good}");

    // More at a time than are served: some are sent away, and when they have gone it is as before.
    let crowd: Vec<TcpStream> = (0..80).map(|_| server.connect()).collect();
    let refused = answer(server.connect());
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused:?}");
    drop(crowd);
    let begin = Instant::now();
    while !server.get("/metrics", OPEN_METRICS).ends_with("# EOF\n") {
        assert!(begin.elapsed() < Duration::from_secs(10), "still crowded");
        std::thread::sleep(Duration::from_millis(20));
    }

    // The end does not wait for those that say nothing.
    let _silent = server.connect();
    let (code, took) = server.end(libc::SIGINT);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn an_address_that_cannot_be_had_is_an_error_that_says_what_to_type() {
    let server = Server::start();
    let taken = server.address.to_string();
    for (address, what, next) in [
        (taken.as_str(), "is in use", "--listen 127.0.0.1:"),
        ("8000", "not '8000'", "--listen 127.0.0.1:8000"),
        ("localhost", "not 'localhost'", "--listen 127.0.0.1:19797"),
        (
            "203.0.113.7:1",
            "has no address 203.0.113.7",
            "--listen 127.0.0.1:1",
        ),
    ] {
        let found = output(&["metrics", "--listen", address]);
        assert_eq!(found.status.code(), Some(125), "{address}");
        let said = errors(&found);
        assert!(said.contains(what), "{said}");
        assert!(
            said.contains(&format!("try: pagewise metrics {next}")),
            "{said}"
        );
    }
}

#[test]
fn once_prints_what_is_there_and_ends() {
    let Some(copies) = Copies::start() else {
        return;
    };
    let found = text(&output(&["metrics", "--once"]));
    let saved = sample(&found, "pagewise_saved_bytes", &copies.name);
    copies.end();
    assert!(saved.unwrap() > 2 * BLOCK, "{found}");
    assert!(found.ends_with("# EOF\n"), "{found}");
    let both = output(&["metrics", "--once", "--listen", "127.0.0.1:0"]);
    assert_eq!(both.status.code(), Some(125));
}

fn dashboard() -> Value {
    let path = "../contrib/grafana/pagewise.json";
    common::read_json(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
}

/// What the dashboard asks for, panels before variables.
fn expressions(of: &Value) -> Vec<String> {
    let of_panel = |panel: &Value| {
        let targets = panel["targets"].as_array().unwrap().clone();
        targets.into_iter().map(|target| target["expr"].clone())
    };
    let panels = of["panels"].as_array().unwrap().iter().flat_map(of_panel);
    let variables = of["templating"]["list"].as_array().unwrap();
    let variables = variables.iter().filter(|one| one["type"] == "query");
    let variables = variables.map(|one| one["query"]["query"].clone());
    let all = panels.chain(variables);
    all.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The words of these texts that begin as our metrics do.
fn metrics_in<'a>(texts: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let words = texts.into_iter().flat_map(|text| text.split(is_other));
    let ours = words.filter(|word| word.starts_with("pagewise_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_shows_what_is_served() {
    let served = text(&output(&["metrics", "--once"]));
    let declared = served
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let declared: Vec<String> = declared.map(str::to_owned).collect();
    let asked = metrics_in(&expressions(&dashboard()));
    assert_eq!(asked, metrics_in(&declared));
}

#[test]
fn the_reference_names_what_is_served() {
    let served = text(&output(&["metrics", "--once"]));
    let declared = served
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let declared: Vec<String> = declared.map(str::to_owned).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/command-line.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## metrics\n").nth(1).expect("a section");
    let section = section.split("\n## ").next().unwrap().to_owned();
    assert_eq!(metrics_in([&section]), metrics_in(&declared));
}

/// Something to scrape, where there is a prometheus. Debian's is large: `make test-metrics` installs it.
fn copies_for_prometheus() -> Option<Copies> {
    let has = |name: &str| {
        let found = Command::new(name).arg("--version").output();
        found.is_ok_and(|found| found.status.success())
    };
    if !has("prometheus") || !has("promtool") {
        skipped("there is no prometheus (make test-metrics installs it)");
        return None;
    }
    Copies::start()
}

#[test]
fn promtool_finds_nothing_to_say() {
    let Some(copies) = copies_for_prometheus() else {
        return;
    };
    let served = output(&["metrics", "--once"]).stdout;
    copies.end();
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    tool.stdin.take().unwrap().write_all(&served).unwrap();
    let found = tool.wait_with_output().unwrap();
    assert!(found.status.success(), "{}", errors(&found));
    assert_eq!(text(&found) + &errors(&found), "");
}

/// A real one, with its storage in a folder of its own.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Prometheus {
    fn scraping(target: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let configuration: PathBuf = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: pagewise, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        std::fs::write(&configuration, text).unwrap();
        // One that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            folder,
        }
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let answer = answer(stream);
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    /// The samples of an expression.
    fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02x}"))
            .collect();
        let found = self.ask(&format!("/api/v1/query?query={encoded}"));
        let Some(found) = found else {
            return Vec::new();
        };
        // Before it is ready it says so in words.
        assert_eq!(found["status"], "success", "{expression}: {found}");
        found["data"]["result"].as_array().unwrap().clone()
    }

    fn wait_for(&self, expression: &str) -> f64 {
        let begin = Instant::now();
        loop {
            if let Some(found) = self.query(expression).first() {
                return found["value"][1].as_str().unwrap().parse().unwrap();
            }
            let log = || std::fs::read_to_string(self.folder.path().join("log"));
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "no {expression}: {log:?}",
                log = log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_scrapes_what_the_dashboard_asks_for() {
    let Some(copies) = copies_for_prometheus() else {
        return;
    };
    let mut server = Server::start();
    let prometheus = Prometheus::scraping(server.address);
    let saved = format!("pagewise_saved_bytes{{name=\"{}\"}}", copies.name);
    let saved = prometheus.wait_for(&saved);
    assert!(
        (saved - (COPIES * BLOCK) as f64).abs() < BLOCK as f64 / 16.0,
        "{saved}"
    );
    assert_eq!(prometheus.wait_for("up{job=\"pagewise\"}"), 1.0);
    // OpenMetrics alone tells units.
    let kept = prometheus
        .ask("/api/v1/targets/metadata?metric=pagewise_saved_bytes")
        .unwrap();
    assert_eq!(kept["data"][0]["type"], "gauge", "{kept}");
    assert_eq!(kept["data"][0]["unit"], "bytes", "{kept}");
    let kept = prometheus
        .ask("/api/v1/targets/metadata?metric=pagewise_page_faults")
        .unwrap();
    assert_eq!(kept["data"][0]["type"], "counter", "{kept}");
    for expression in expressions(&dashboard()) {
        // What Grafana puts in; label_values is its own.
        let expression = expression
            .replace("$__rate_interval", "1m")
            .replace("$instance", ".*")
            .replace("$name", ".*");
        let expression = match expression.strip_prefix("label_values(") {
            Some(rest) => rest.rsplit_once(',').unwrap().0.to_owned(),
            None => expression,
        };
        prometheus.wait_for(&expression);
    }
    copies.end();
    assert_eq!(server.end(libc::SIGTERM).0, Some(0));
}
