//! `pagewise trace replay` and `group`: traces whose figures are known, and hostile ones.
#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use common::bench::Bench;
use common::{errors, libraries, read_json, text};
use serde_json::Value;

const MB: u64 = 1_000_000;

const LIBRARIES: [(&str, &str); 2] = [
    ("PAGEWISE_LIBRARY", "libpagewise-preload.so"),
    ("PAGEWISE_GENERAL_LIBRARY", "libpagewise-general.so"),
];

fn built(file: &str) -> Option<PathBuf> {
    Some(libraries().join(file)).filter(|path| path.exists())
}

/// With the libraries as they were built, if they were.
fn new_bench() -> Bench {
    let found = LIBRARIES
        .iter()
        .filter_map(|(variable, file)| Some((*variable, built(file)?)));
    found.fold(Bench::new(), |bench, (variable, path)| {
        bench.with(variable, &path)
    })
}

impl Bench {
    /// x.trace of these lines.
    fn trace(&self, lines: &str) {
        self.trace_named("x", lines);
    }

    /// The figures of x.trace in the C library's allocator.
    fn replay(&self, options: &[&str]) -> (Output, Value) {
        let words = [
            "replay",
            "--allocator",
            "glibc",
            "--json",
            "x.json",
            "x.trace",
        ];
        let output = self.run(&[&words[..], options].concat());
        assert!(output.status.success(), "{}", errors(&output));
        let figures = read_json(&self.path("x.json"));
        (output, figures["allocators"][0].clone())
    }
}

/// `count` blocks, of which every other one is freed at the end.
fn blocks(count: u64, size: u64) -> String {
    let mut lines = String::new();
    for object in 1..=count {
        writeln!(lines, "allocate {object} 0 {size} 0").unwrap();
    }
    for object in (1..=count).step_by(2) {
        writeln!(lines, "free {object}").unwrap();
    }
    lines
}

fn number(figures: &Value, name: &str) -> u64 {
    figures[name].as_u64().unwrap()
}

// --- what is measured -------------------------------------------------------------

#[test]
fn a_trace_is_never_written_over_by_its_own_figures() {
    let bench = new_bench();
    bench.trace(&blocks(10, 100));
    let before = fs::read(bench.path("x.trace")).unwrap();
    std::os::unix::fs::symlink(bench.path("x.trace"), bench.path("y.trace")).unwrap();
    for words in [
        &["report", "--html", "x.trace", "x.trace"][..],
        &["report", "--html", "./y.trace", "x.trace"],
        &["stat", "--json", "x.trace", "x.trace"],
        &["convert", "x.trace", "-o", "x.trace"],
        &["replay", "--plot", "x.trace", "x.trace"],
        &["group", "--json", "x.trace", "x.trace"],
        &["simulate", "--json", "x.trace", "x.trace"],
    ] {
        let output = bench.run(words);
        assert_eq!(output.status.code(), Some(125), "{words:?}");
        assert!(errors(&output).contains("is the trace itself"), "{words:?}");
        assert_eq!(
            fs::read(bench.path("x.trace")).unwrap(),
            before,
            "{words:?}"
        );
    }
}

#[test]
fn resident_memory_is_the_blocks_and_little_more() {
    let bench = new_bench();
    bench.trace(&blocks(2000, 10_000));
    let (output, figures) = bench.replay(&["--samples", "50"]);
    assert_eq!(number(&figures, "peak_live_bytes"), 20 * MB);
    let peak = number(&figures, "peak_resident_bytes");
    assert!((20 * MB..21 * MB).contains(&peak), "{peak}");
    let curve = figures["curve"].as_array().unwrap();
    assert!(curve.len() >= 50 && curve.len() <= 53, "{}", curve.len());
    // Half of the blocks are freed, one by one between others: glibc keeps their pages.
    let last = curve.last().unwrap();
    assert_eq!(number(last, "live_bytes"), 10 * MB);
    assert!(number(last, "resident_bytes") > 15 * MB);
    assert!(
        text(&output).contains("20.0 MB at the peak"),
        "{}",
        text(&output)
    );
}

#[test]
fn the_loaders_own_memory_is_not_the_allocators() {
    let bench = new_bench();
    // A table of 100,000 blocks is 1.6 MB in the loader; their 16 bytes take 32 in glibc.
    bench.trace(&blocks(100_000, 16));
    let (_, figures) = bench.replay(&[]);
    let peak = number(&figures, "peak_resident_bytes");
    assert!((3_200_000..3_500_000).contains(&peak), "{peak}");
    bench.trace("allocate 1 0 100 0\n");
    let (_, figures) = bench.replay(&[]);
    let peak = number(&figures, "peak_resident_bytes");
    assert!(peak < 200_000, "{peak}");
}

#[test]
fn every_installed_allocator_holds_what_is_live() {
    let bench = new_bench();
    bench.trace(&blocks(20_000, 500));
    let output = bench.run(&["replay", "--json", "x.json", "--plot", "x.svg", "x.trace"]);
    assert!(output.status.success(), "{}", errors(&output));
    let figures = read_json(&bench.path("x.json"));
    let picture = fs::read_to_string(bench.path("x.svg")).unwrap();
    for one in figures["allocators"].as_array().unwrap() {
        let name = one["allocator"].as_str().unwrap();
        assert!(text(&output).contains(name), "{name}");
        assert!(picture.contains(&format!("{name}\n")), "{name}");
        assert_eq!(number(one, "peak_live_bytes"), 10 * MB, "{name}");
        let ratio = one["peak_fragmentation"].as_f64().unwrap();
        assert!((1.0..3.0).contains(&ratio), "{name}: {ratio}");
        for sample in one["curve"].as_array().unwrap() {
            assert!(
                number(sample, "resident_bytes") >= number(sample, "live_bytes"),
                "{name}"
            );
        }
    }
    assert!(picture.starts_with("<svg") && picture.contains("resident / live"));
    let are_built = LIBRARIES.iter().all(|(_, file)| built(file).is_some());
    let said = text(&output);
    let are_there = said.contains(" pagewise ") && said.contains(" general ");
    assert_eq!(are_there, are_built, "{said}");
}

/// Doubled again and again to 32 MB: the kernel moves such a block's pages, while a copy would need both places.
#[test]
fn a_realloc_is_a_realloc() {
    let bench = new_bench();
    let mut lines = String::new();
    for object in 1..=10_u64 {
        if object > 1 {
            writeln!(lines, "resized\nfree {}", object - 1).unwrap();
        }
        writeln!(lines, "allocate {object} 0 {} 0", 32_768_u64 << object).unwrap();
    }
    bench.trace(&lines);
    let (_, figures) = bench.replay(&["--samples", "100"]);
    assert_eq!(number(&figures, "peak_live_bytes"), 32_768 << 10);
    for sample in figures["curve"].as_array().unwrap() {
        let (live, resident) = (
            number(sample, "live_bytes"),
            number(sample, "resident_bytes"),
        );
        assert!(
            resident < live + live / 10 + 200_000,
            "{resident} for {live}"
        );
    }
    assert_eq!(
        figures["curve"].as_array().unwrap().len(),
        11,
        "10 operations and the end"
    );
}

#[test]
fn alignment_is_kept() {
    let bench = new_bench();
    let mut lines = String::new();
    for object in 1..=1000 {
        writeln!(lines, "aligned 4096\nallocate {object} 0 16 0").unwrap();
    }
    bench.trace(&lines);
    let (_, figures) = bench.replay(&[]);
    assert!(number(&figures, "peak_resident_bytes") >= 1000 * 4096);
}

/// In glibc each thread takes from an arena of its own, which a single thread would not have made.
#[test]
fn threads_allocate_and_free_where_they_did() {
    let bench = new_bench();
    let mut lines = String::from("property frees by-thread\n");
    for object in 1..=4000_u64 {
        writeln!(lines, "allocate {object} 0 100 {}", object % 4).unwrap();
        if object > 100 {
            writeln!(lines, "thread {}\nfree {}", (object + 1) % 4, object - 100).unwrap();
        }
    }
    bench.trace(&lines);
    let (output, many) = bench.replay(&[]);
    assert!(text(&output).contains("in 4 threads"), "{}", text(&output));
    for thread in 1..4 {
        lines = lines
            .replace(&format!(" 100 {thread}\n"), " 100 0\n")
            .replace(&format!("thread {thread}\n"), "thread 0\n");
    }
    bench.trace(&lines);
    let (output, one) = bench.replay(&[]);
    assert!(text(&output).contains("in 1 thread"), "{}", text(&output));
    let peak = |figures| number(figures, "peak_resident_bytes");
    assert!(
        peak(&many) > peak(&one) + 8192,
        "{} {}",
        peak(&many),
        peak(&one)
    );
}

/// A thread that only frees is one: blocks that go to another thread's hands are what allocators differ in.
#[test]
fn a_thread_that_only_frees_is_one() {
    let bench = new_bench();
    let mut lines = String::from("property frees by-thread\n");
    for object in 1..=1000_u64 {
        writeln!(lines, "allocate {object} 0 100 0\nthread 1\nfree {object}").unwrap();
    }
    bench.trace(&lines);
    let (output, _) = bench.replay(&[]);
    assert!(text(&output).contains("in 2 threads"), "{}", text(&output));
}

#[test]
fn more_threads_than_most_share() {
    let bench = new_bench();
    let mut lines = String::new();
    for object in 1..=300_u64 {
        writeln!(lines, "allocate {object} 0 100 {}", object * 1000).unwrap();
    }
    bench.trace(&lines);
    let (output, _) = bench.replay(&[]);
    assert!(text(&output).contains("in 64 threads"), "{}", text(&output));
}

#[test]
fn the_recorded_pace_can_be_kept() {
    let bench = new_bench();
    bench.trace("allocate 1 0 100 0\ntime 2000000000\nallocate 2 0 100 0\n");
    let (_, slow) = bench.replay(&["--pace", "4"]);
    assert!(slow["wall_seconds"].as_f64().unwrap() >= 0.5);
}

/// Operations come one by one as they did, not together whenever memory is looked at.
#[test]
fn between_two_looks_the_pace_is_kept_too() {
    let bench = new_bench();
    let mut lines = String::new();
    for object in 1..=100 {
        let time = object * 20_000_000;
        writeln!(lines, "time {time}\nallocate {object} 0 1000000 0").unwrap();
    }
    bench.trace(&lines);
    let mut child = bench
        .pagewise()
        .args(["trace", "replay", "--allocator", "glibc", "--pace", "1"])
        .args(["--samples", "1", "--json", "x.json", "x.trace"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut looks_between = 0;
    while child.try_wait().unwrap().is_none() {
        let kilobytes = resident_of_child(child.id()).unwrap_or(0);
        looks_between += u32::from((20_000..80_000).contains(&kilobytes));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(looks_between >= 5, "{looks_between}");
}

fn resident_of_child(process: u32) -> Option<u64> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    let child = children.split_ascii_whitespace().next()?;
    let status = fs::read_to_string(format!("/proc/{child}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

// --- what is hostile ----------------------------------------------------------------

#[test]
fn absurd_sizes_are_refused_and_the_rest_goes_on() {
    let bench = new_bench();
    bench.trace(&format!(
        "allocate 1 0 {} 0\nallocate 2 0 {} 0\nallocate 3 0 0 0\nallocate 4 0 1000000 0\n\
         free 1\nresized\nfree 4\nallocate 5 0 {} 0\nfree 2\nfree 3\nfree 5\n",
        u64::MAX,
        1_u64 << 63,
        1_u64 << 50,
    ));
    let (output, figures) = bench.replay(&[]);
    assert_eq!(number(&figures, "refused"), 3);
    assert_eq!(number(&figures, "peak_live_bytes"), MB);
    assert!(
        text(&output).contains("3 allocations refused"),
        "{}",
        text(&output)
    );
    assert_eq!(
        number(
            figures["curve"].as_array().unwrap().last().unwrap(),
            "live_bytes"
        ),
        0
    );
}

#[test]
fn freeing_twice_is_left_out_and_said() {
    let bench = new_bench();
    bench.trace("allocate 1 0 100 0\nfree 1\nfree 1\nallocate 2 0 100 0\nfree 1\nfree 2\n");
    let (output, figures) = bench.replay(&[]);
    assert!(
        errors(&output).contains("2 frees of blocks that were not live"),
        "{}",
        errors(&output)
    );
    assert_eq!(figures["stopped"], Value::Null);
}

#[test]
fn a_resize_that_never_comes_does_no_harm() {
    let bench = new_bench();
    bench.trace("allocate 1 0 100 0\nresized\nfree 1\nallocate 2 0 50 1\nallocate 3 0 50 0\nfree 3\nresized\nfree 2\n");
    let (_, figures) = bench.replay(&[]);
    assert_eq!(figures["stopped"], Value::Null);
}

#[test]
fn more_than_there_is_memory_for_is_refused_before_anything_is_touched() {
    let bench = new_bench();
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .unwrap();
    let bytes = available
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse::<u64>()
        .unwrap()
        * 512;
    bench.trace(&format!(
        "allocate 1 0 {bytes} 0\nallocate 2 0 {bytes} 0\nallocate 3 0 {bytes} 0\n"
    ));
    bench.refused(&["replay", "x.trace"], "this machine has");
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let bench = new_bench();
    bench.trace("");
    bench.refused(&["replay", "x.trace"], "there is nothing to replay");
    bench.trace("allocate 1 0 100 0\nadd-root 1 0\nremove-root 1 0\n");
    bench.refused(&["replay", "x.trace"], "program with a collector");
    bench.trace("property sample-bytes 1000\nallocate 1 0 100 0\nfree 1\n");
    bench.refused(&["replay", "x.trace"], "is a sample");
    bench.refused(&["group", "x.trace"], "is a sample");
    bench.refused(&["replay", "none.trace"], "cannot read none.trace");
    fs::write(bench.path("foreign"), "not a trace at all").unwrap();
    bench.refused(&["replay", "foreign"], "is not a trace");
    bench.trace("allocate 1 0 100 0\n");
    bench.refused(
        &["replay", "--plot", "/nonexistent/x.svg", "x.trace"],
        "cannot write",
    );
    for words in [
        &["replay", "--allocator", "none", "x.trace"][..],
        &["replay", "--pace", "0", "x.trace"],
        &["replay", "--samples", "0", "x.trace"],
    ] {
        assert_eq!(bench.run(words).status.code(), Some(125), "{words:?}");
    }
}

#[test]
fn a_trace_that_was_cut_off_is_replayed_up_to_there_and_a_damaged_one_is_not() {
    let bench = new_bench();
    bench.trace(&blocks(100_000, 32));
    let whole = fs::read(bench.path("x.trace")).unwrap();
    fs::write(bench.path("x.trace"), &whole[..whole.len() * 2 / 3]).unwrap();
    let (output, figures) = bench.replay(&[]);
    assert!(
        errors(&output).contains("was cut off at byte"),
        "{}",
        errors(&output)
    );
    assert!(number(&figures, "peak_live_bytes") > 0);
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    fs::write(bench.path("x.trace"), damaged).unwrap();
    bench.refused(&["replay", "--json", "y.json", "x.trace"], "damaged");
    assert!(!bench.path("y.json").exists());
}

#[test]
fn figures_alone_go_to_standard_output() {
    let bench = new_bench();
    bench.trace(&blocks(100, 100));
    let output = bench.run(&[
        "replay",
        "--allocator",
        "glibc,glibc",
        "--json",
        "-",
        "x.trace",
    ]);
    let figures: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(figures["schema"], 1);
    assert_eq!(
        figures["allocators"].as_array().unwrap().len(),
        1,
        "each once"
    );
}

// --- groups -----------------------------------------------------------------------

/// Batches: site 0 builds what is freed at once when the batch ends; site 1 fills a cache that stays. Where sites do not
/// matter, both do both.
fn batches(do_sites_matter: bool, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut lines = String::new();
    let mut object = 0;
    let mut cache = std::collections::VecDeque::new();
    for _ in 0..25 {
        let mut batch = Vec::new();
        for _ in 0..4000 {
            object += 1;
            let stays = random.u8(..16) == 0;
            let site = if do_sites_matter {
                u8::from(stays)
            } else {
                random.u8(..2)
            };
            writeln!(
                lines,
                "allocate {object} {site} {} 0",
                64 + 16 * random.u8(..2)
            )
            .unwrap();
            if stays {
                cache.push_back(object)
            } else {
                batch.push(object)
            }
        }
        let stale = cache.len().saturating_sub(2500);
        for object in batch.into_iter().chain(cache.drain(..stale)) {
            writeln!(lines, "free {object}").unwrap();
        }
    }
    for site in ["builds", "caches"] {
        let number = u8::from(site == "caches");
        writeln!(lines, "site {number} type=- depth=- class=-").unwrap();
        writeln!(
            lines,
            "frame 0x1 symbol={site} file=- line=0 module=/bin/x build=-"
        )
        .unwrap();
    }
    lines
}

#[test]
fn sites_that_tell_are_grouped_and_others_are_left_alone() {
    let bench = new_bench();
    for (name, matter) in [("x", true), ("y", false)] {
        bench.trace_named(name, &batches(matter, 1));
        bench.trace_named(&format!("{name}-other"), &batches(matter, 2));
    }
    let arms = |name: &str| {
        let (trace, other) = (format!("{name}.trace"), format!("{name}-other.trace"));
        let output = bench.run(&[
            "group", "--json", "s.json", "--seeds", "3", "--train", &other, &trace,
        ]);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(
            errors(&output).contains("2 of 2 sites are known")
                || errors(&output).contains("2 of 2 sites of")
        );
        (
            text(&output),
            read_json(&bench.path("s.json"))["outcome"].clone(),
        )
    };
    let (shown, outcome) = arms("x");
    assert!(
        outcome["arms"][0]["ratio"].as_f64().unwrap() < 0.85,
        "{shown}"
    );
    assert!(
        shown.contains("The profile predicts that groups by"),
        "{shown}"
    );
    let (shown, outcome) = arms("y");
    assert_eq!(outcome["arms"][0]["ratio"], 1.0, "{shown}");
    let said = shown.replace('\n', " ");
    assert!(
        said.contains("predicts no gain, and there is none in the model:"),
        "{shown}"
    );
    // Without another trace: one half teaches, the other tests.
    let shown = text(&bench.run(&["group", "--purge", "pages", "x.trace"]));
    assert!(
        shown.contains("the first half of x.trace, tested on its second"),
        "{shown}"
    );
}

#[test]
fn training_that_teaches_nothing_is_refused() {
    let bench = new_bench();
    bench.trace_named("x", &batches(true, 1));
    bench.trace_named(
        "stranger",
        "allocate 1 0 8 0\nfree 1\nsite 0 type=else depth=- class=-\n",
    );
    bench.refused(
        &["group", "--train", "stranger.trace", "x.trace"],
        "no call site in common",
    );
    bench.trace_named(
        "kept",
        "allocate 1 0 8 0\nallocate 2 0 8 0\nsite 0 type=kept depth=- class=-\n",
    );
    bench.refused(
        &["group", "kept.trace"],
        "the first half of kept.trace, which would be learned from, has no frees",
    );
    bench.refused(
        &["group", "--train", "kept.trace", "kept.trace"],
        "kept.trace has no frees",
    );
}
