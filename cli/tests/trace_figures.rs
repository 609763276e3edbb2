//! `pagewise trace diff`, and what reports and profiles hand to other tools.
#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::io::Read;

use common::bench::Bench;
use common::{errors, read_json, text};
use serde_json::Value;

/// Allocations of some sizes at one place: its function, where that is, and the blocks that stay.
struct Place<'a> {
    symbol: &'a str,
    offset: u64,
    sizes: &'a [u64],
    is_freed: bool,
}

fn place<'a>(symbol: &'a str, offset: u64, sizes: &'a [u64]) -> Place<'a> {
    Place {
        symbol,
        offset,
        sizes,
        is_freed: false,
    }
}

/// NAME.trace of a program with these places, each block on a page of its own.
fn recording(bench: &Bench, name: &str, properties: &str, build: &str, places: &[Place]) {
    let mut lines = format!("pagewise-trace 1 addresses\n{properties}");
    let (mut sites, mut frees, mut object) = (String::new(), String::new(), 0);
    for (site, place) in places.iter().enumerate() {
        for size in place.sizes {
            object += 1;
            let address = object * 0x1_0000;
            let _ = writeln!(lines, "allocate {object} {site} {size} 0 {address:#x}");
            if place.is_freed {
                let _ = writeln!(frees, "free {object}");
            }
        }
        let (symbol, offset) = (place.symbol, place.offset);
        let _ = writeln!(
            sites,
            "site {site} type=- depth=- class=4096\n\
             frame {offset:#x} symbol={symbol} file=- line=0 module=/bin/server build={build}"
        );
    }
    bench.convert(name, &(lines + &frees + &sites));
}

const SERVER: &str = "property command /bin/server%20-p%2080\nproperty program /bin/server\n";

/// A cache that grew, a place that is new, one that is gone, one that is as it was.
fn two_recordings(bench: &Bench, properties: [&str; 2], builds: [&str; 2]) {
    let before = [
        place("cache", 0x10, &[1000, 1000]),
        place("old", 0x20, &[500]),
        place("same", 0x30, &[64]),
    ];
    let after = [
        place("same", 0x30, &[64]),
        place("cache", 0x10, &[1000; 5]),
        place("fresh", 0x40, &[200, 200]),
    ];
    recording(bench, "a", properties[0], builds[0], &before);
    recording(bench, "b", properties[1], builds[1], &after);
}

fn difference(bench: &Bench, words: &[&str]) -> Value {
    let output = bench.run(&[&["diff", "--json", "d.json"], words].concat());
    assert!(output.status.success(), "{}", errors(&output));
    read_json(&bench.path("d.json"))
}

#[test]
fn a_diff_says_what_each_place_holds_more_or_less() {
    let bench = Bench::new();
    two_recordings(&bench, [SERVER; 2], ["aa"; 2]);
    let output = bench.run(&["diff", "a.trace", "b.trace"]);
    assert!(output.stderr.is_empty(), "{}", errors(&output));
    let shown = text(&output);
    assert!(
        shown.contains(
            "live at peak: 5.46 kB in B, 2.56 kB in A, +2.90 kB. The largest change is at cache (server): +3.00 kB."
        ),
        "{shown}"
    );
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("live at peak   "))
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 3, "what is as it was is not listed: {shown}");
    assert_eq!(rows[0][..6], ["+3.00", "kB", "2.00", "kB", "5.00", "kB"]);
    assert!(
        rows[1].ends_with(&["vanished", "old", "(server)"]),
        "{shown}"
    );
    assert!(rows[2].ends_with(&["new", "fresh", "(server)"]), "{shown}");

    let found = difference(&bench, &["a.trace", "b.trace"]);
    assert_eq!(found["changes"][0]["allocations"], 3.0);
    assert_eq!(found["changes"][1]["state"], "vanished");
    assert_eq!(found["changes"][1]["live_bytes"], -500.0);
    assert_eq!(found["changes"][2]["state"], "new");
    // Each block lies alone on a page of 4096 bytes.
    assert_eq!(found["changes"][2]["pinned_bytes"], 2.0 * (4096.0 - 200.0));
    assert_eq!((&found["same"], &found["places"]), (&1.into(), &4.into()));
    assert_eq!(found["warnings"].as_array().unwrap().len(), 0);
}

#[test]
fn a_diff_is_sorted_by_what_is_asked_for() {
    let bench = Bench::new();
    let brief = Place {
        is_freed: true,
        ..place("brief", 0x10, &[16; 9])
    };
    recording(&bench, "a", SERVER, "aa", &[place("large", 0x20, &[100])]);
    recording(
        &bench,
        "b",
        SERVER,
        "aa",
        &[brief, place("large", 0x20, &[300])],
    );
    for (by, at, first) in [
        ("live", "end", "large"),
        ("allocated", "end", "large"),
        ("number", "end", "brief"),
        ("pinned", "peak", "brief"),
    ] {
        let found = difference(&bench, &["--by", by, "--at", at, "a.trace", "b.trace"]);
        let place = found["changes"][0]["place"].as_str().unwrap();
        assert!(place.starts_with(first), "{by}: {place}");
    }
}

/// What was built anew has other offsets: functions tell.
#[test]
fn a_diff_of_two_builds_matches_functions() {
    let bench = Bench::new();
    let properties = [
        "property command ./server-1\nproperty program /bin/server-1\n",
        SERVER,
    ];
    recording(&bench, "a", SERVER, "aa", &[place("f", 0x10, &[100, 30])]);
    let moved = [place("f", 0x99, &[100]), place("f", 0xa9, &[50])];
    recording(&bench, "b", SERVER, "bb", &moved);
    let found = difference(&bench, &["a.trace", "b.trace"]);
    assert_eq!(found["changes"].as_array().unwrap().len(), 1);
    assert_eq!(found["changes"][0]["live_bytes"], 20.0);
    assert_eq!(found["changes"][0]["state"], Value::Null);
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("built anew"), "{warnings}");
    assert!(!warnings.contains("other programs"), "{warnings}");

    recording(&bench, "b", properties[0], "bb", &moved);
    let warnings = difference(&bench, &["a.trace", "b.trace"])["warnings"].to_string();
    assert!(
        warnings.contains("other programs, server and server-1"),
        "{warnings}"
    );
}

#[test]
fn a_diff_warns_where_recordings_are_not_alike() {
    let bench = Bench::new();
    let sample = format!("{SERVER}property sample-bytes 1000\n");
    let stacks = format!("{SERVER}property site stack\nproperty stacks unwind-tables\n");
    two_recordings(&bench, [SERVER, &sample], ["aa"; 2]);
    let output = bench.run(&["diff", "a.trace", "b.trace"]);
    assert!(
        errors(&output).contains("A has every allocation, B is a sample of one in 1,000 bytes"),
        "{}",
        errors(&output)
    );
    assert!(!text(&output).contains("pins"), "{}", text(&output));
    bench.refused(
        &["diff", "--by", "pinned", "a.trace", "b.trace"],
        "one of the two traces does not tell which pages are held",
    );
    two_recordings(&bench, [SERVER, &stacks], ["aa"; 2]);
    let output = bench.run(&["diff", "a.trace", "b.trace"]);
    assert!(
        errors(&output).contains("without their callers"),
        "{}",
        errors(&output)
    );
    assert!(
        text(&output).contains("cache (server)"),
        "{}",
        text(&output)
    );
    recording(&bench, "b", SERVER, "aa", &[place("x", 0x77, &[1])]);
    let output = bench.run(&["diff", "a.trace", "b.trace"]);
    assert!(
        errors(&output).contains("the two have no place in common"),
        "{}",
        errors(&output)
    );
}

/// The data of a page, which its scripts draw.
fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_of_a_diff_says_what_the_text_says() {
    let bench = Bench::new();
    two_recordings(&bench, [SERVER; 2], ["aa", "bb"]);
    let output = bench.run(&["diff", "--html", "d.html", "a.trace", "b.trace"]);
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{}",
        errors(&output)
    );
    let html = fs::read_to_string(bench.path("d.html")).unwrap();
    for said in [
        "live at peak: 5.46 kB in B, 2.56 kB in A, +2.90 kB.",
        "built anew between the two",
        "<dt>A</dt><dd>a.trace: /bin/server -p 80;",
        "3 of 3 places that differ, by live at peak",
        "<td>+3.00 kB</td><td>2.00 kB</td><td>5.00 kB</td>",
        "<td>vanished</td><td>old (server)</td>",
    ] {
        assert!(html.contains(said), "{said}: {html}");
    }
    let lines = &data(&html)["lines"];
    let highest = |line: &Value| {
        let bytes = line["bytes"].as_array().unwrap().iter();
        bytes.filter_map(Value::as_u64).max()
    };
    assert_eq!(
        (&lines[0]["name"], highest(&lines[0])),
        (&"A".into(), Some(2564))
    );
    assert_eq!(
        (&lines[1]["name"], highest(&lines[1])),
        (&"B".into(), Some(5464))
    );

    let same = bench.run(&["diff", "--html", "d.html", "a.trace", "a.trace"]);
    assert!(same.status.success(), "{}", errors(&same));
    let html = fs::read_to_string(bench.path("d.html")).unwrap();
    assert!(html.contains("the same in B as in A") && !html.contains("<table"));
    bench.refused(
        &["diff", "--html", "b.trace", "a.trace", "b.trace"],
        "is the trace itself, or read with it",
    );
}

/// What only places without ends can be compared by has no live bytes to draw.
#[test]
fn a_diff_of_collected_traces_has_a_page_without_a_chart() {
    let bench = Bench::new();
    bench.trace_named("a", "allocate 1 0 16 0\nadd-root 1 0\n");
    bench.trace_named("b", "allocate 1 0 24 0\nadd-root 1 0\n");
    let output = bench.run(&["diff", "--html", "d.html", "a.trace", "b.trace"]);
    assert!(output.status.success(), "{}", errors(&output));
    let html = fs::read_to_string(bench.path("d.html")).unwrap();
    assert!(html.contains("allocated: 24.0 bytes in B") && !html.contains("id=\"chart\""));
}

#[test]
fn a_diff_that_cannot_be_made_leaves_nothing() {
    let bench = Bench::new();
    two_recordings(&bench, [SERVER; 2], ["aa"; 2]);
    bench.refused(&["diff", "a.trace", "none.trace"], "cannot read none.trace");
    bench.refused(
        &["diff", "--json", "b.trace", "a.trace", "b.trace"],
        "is the trace itself, or read with it",
    );
    let same = text(&bench.run(&["diff", "a.trace", "a.trace"]));
    assert!(same.contains("the same in B as in A"), "{same}");
}

// --- for other tools ---------------------------------------------------------------

/// One survivor on each of 100 pages, and everything else freed: at the peak nothing is pinned, later nearly all.
fn sparse(bench: &Bench) {
    let mut lines = String::from("pagewise-trace 1 addresses\n");
    for object in 0..3200_u64 {
        let (site, address) = (u64::from(object % 32 == 0), 0x10_0000 + object * 128);
        let _ = writeln!(lines, "allocate {} {site} 128 0 {address:#x}", object + 1);
    }
    for object in (0..3200).filter(|object| object % 32 > 0) {
        let _ = writeln!(lines, "free {}", object + 1);
    }
    for (site, symbol) in ["brief", "keep"].iter().enumerate() {
        let _ = writeln!(
            lines,
            "site {site} type=- depth=- class=128\n\
             frame 0x10 symbol={symbol} file=- line=0 module=/bin/x build=-\n\
             frame 0x20 symbol=main file=- line=0 module=/bin/x build=-"
        );
    }
    bench.convert("sparse", &lines);
}

const PINNED: u64 = 100 * (4096 - 128);

#[test]
fn folded_stacks_add_up_to_what_the_report_says() {
    let bench = Bench::new();
    sparse(&bench);
    let folded = |kind| text(&bench.run(&["report", "--folded", kind, "sparse.trace"]));
    assert_eq!(folded("pinned"), format!("main;keep {PINNED}\n"));
    assert_eq!(folded("live"), "main;keep 12800\n");
    for kind in ["peak", "allocated"] {
        assert_eq!(
            folded(kind),
            "main;brief 396800\nmain;keep 12800\n",
            "{kind}"
        );
    }
    let at_peak = bench.run(&["report", "--folded", "live", "--at", "peak", "sparse.trace"]);
    assert_eq!(text(&at_peak), folded("peak"));
    assert!(
        text(&bench.run(&[
            "report",
            "--folded",
            "pinned",
            "--at",
            "peak",
            "sparse.trace"
        ]))
        .is_empty()
    );
}

#[test]
fn folded_stacks_are_refused_where_the_trace_has_none() {
    let bench = Bench::new();
    bench.trace_named("plain", "allocate 1 0 16 0\nallocate 2 0 50 0\nfree 1\n");
    let folded = |kind| text(&bench.run(&["report", "--folded", kind, "plain.trace"]));
    assert_eq!(folded("live"), "site 0 66\n");
    assert_eq!(folded("allocated"), "site 0 66\n");
    bench.refused(
        &["report", "--folded", "pinned", "plain.trace"],
        "it has no addresses",
    );
    bench.trace_named("collected", "allocate 1 0 16 0\nadd-root 1 0\n");
    bench.refused(
        &["report", "--folded", "peak", "collected.trace"],
        "does not tell what was live",
    );
    let allocated = bench.run(&["report", "--folded", "allocated", "collected.trace"]);
    assert_eq!(text(&allocated), "site 0 16\n");
}

/// The page's data, which its scripts draw.
#[test]
fn the_page_has_the_flame_graph_of_each_kind() {
    let bench = Bench::new();
    sparse(&bench);
    for (at, kinds, values) in [
        (
            "pinned",
            "pinned live peak allocated",
            vec![PINNED, 12_800, 409_600, 409_600],
        ),
        ("peak", "pinned peak allocated", vec![0, 409_600, 409_600]),
    ] {
        let output = bench.run(&["report", "--html", "x.html", "--at", at, "sparse.trace"]);
        assert!(output.status.success(), "{}", errors(&output));
        let html = fs::read_to_string(bench.path("x.html")).unwrap();
        let flame = &data(&html)["flame"];
        let names: Vec<&str> = flame["kinds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| kind["name"].as_str().unwrap())
            .collect();
        assert_eq!(names.join(" "), kinds);
        assert_eq!(flame["root"]["v"], serde_json::json!(values));
        assert_eq!(flame["root"]["c"][0]["n"], "main");
        for licence in [
            "Permission is hereby granted",
            "Mike Bostock",
            "Apache License",
        ] {
            assert!(html.contains(licence), "{licence}");
        }
    }
}

/// The last value of each sample is what is pinned.
fn profile(bench: &Bench, words: &[&str]) -> Vec<u8> {
    let output = bench.run(&[&["convert", "sparse.trace", "-o", "x.pb.gz"], words].concat());
    assert!(output.status.success(), "{}", errors(&output));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(bench.path("x.pb.gz")).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// As protocol buffers have a number.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Most is live before anything is freed, when no page is sparse: each figure is of the moment when it matters.
#[test]
fn a_profile_has_pinned_bytes_unless_another_moment_is_asked_for() {
    let bench = Bench::new();
    sparse(&bench);
    let has = |bytes: &[u8], values: &[u64]| {
        let packed: Vec<u8> = values.iter().flat_map(|&value| varint(value)).collect();
        bytes.windows(packed.len()).any(|window| window == packed)
    };
    // Allocations, their bytes, what was live of them at the peak, and what is pinned by them at worst.
    let kept = [100, 12_800, 100, 12_800, PINNED];
    let freed = [3100, 396_800, 3100, 396_800, 0];
    let bytes = profile(&bench, &[]);
    assert!(has(&bytes, &kept) && has(&bytes, &freed));
    let said = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        said.contains("inuse: when most was live, after event 3200; pinned: when most of the held pages was free, after event 6300"),
        "{said}"
    );
    let bytes = profile(&bench, &["--at", "peak"]);
    assert!(has(&bytes, &[100, 12_800, 100, 12_800, 0]));
}

/// Temporary: freed by its own thread, which allocated nothing since. Neither what another thread frees nor a realloc is.
#[test]
fn temporary_allocations_are_told_by_place() {
    let bench = Bench::new();
    let events = "allocate 1 0 16 0\nfree 1\nallocate 2 0 16 0\nallocate 3 1 16 1\nthread 0\nfree 2\n\
                  allocate 4 1 16 0\nthread 1\nfree 4\nallocate 5 0 16 0\nallocate 6 0 16 0\nthread 0\nfree 5\n";
    let stat = |head: &str| {
        bench.convert("t", &format!("pagewise-trace 1\n{head}{events}"));
        let output = bench.run(&["stat", "--json", "t.json", "t.trace"]);
        assert!(output.status.success(), "{}", errors(&output));
        (text(&output), read_json(&bench.path("t.json")))
    };
    let (shown, figures) = stat("property frees by-thread\n");
    assert!(
        shown.contains("temporary 33 % of allocations are freed before their thread makes another"),
        "{shown}"
    );
    assert_eq!(figures["temporary_allocations"], 2.0);
    let sites = figures["sites"].as_array().unwrap();
    let of = |number: u64| sites.iter().find(|site| site["site"] == number).unwrap();
    assert_eq!(of(0)["temporary_allocations"], 2.0);
    assert_eq!(of(1)["temporary_allocations"], 0.0);
    for head in ["", "property frees by-thread\nproperty sample-bytes 1000\n"] {
        let (shown, figures) = stat(head);
        assert!(!shown.contains("temporary"), "{shown}");
        assert_eq!(figures["temporary_allocations"], Value::Null);
    }
}

/// Whom to ask for a buffer that is kept: the place with most of them first, and nothing where there are next to none.
#[test]
fn the_report_lists_temporary_allocations() {
    let bench = Bench::new();
    let report = |temporary: u64| {
        let mut lines = String::from("pagewise-trace 1 addresses\nproperty frees by-thread\n");
        let mut object = 0;
        let mut allocate = |lines: &mut String, site: u64, is_freed: bool| {
            object += 1;
            let address = 0x10_0000 + object * 128;
            let _ = writeln!(lines, "allocate {object} {site} 100 0 {address:#x}");
            if is_freed {
                let _ = writeln!(lines, "free {object}");
            }
        };
        for number in 0..1000 {
            allocate(&mut lines, 0, false);
            if number < temporary {
                allocate(&mut lines, 1, true);
            }
            if number < temporary / 2 {
                allocate(&mut lines, 2, true);
                allocate(&mut lines, 2, false);
            }
        }
        lines.push_str(&sites(&["keep", "format", "render"]));
        bench.convert("t", &lines);
        let shown = text(&bench.run(&["report", "t.trace"]));
        bench.run(&["report", "--html", "t.html", "t.trace"]);
        (shown, fs::read_to_string(bench.path("t.html")).unwrap())
    };
    let (shown, html) = report(200);
    assert!(
        shown.contains("300 of 1,400 allocations (21 %) are temporary"),
        "{shown}"
    );
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .skip_while(|line| !line.contains("of its own"))
        .skip(1)
        .take(3)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let cells = |row: &str| row.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows[0], cells("200 67 % 100 % 100 bytes format (x)"));
    assert_eq!(rows[1], cells("100 33 % 50 % 100 bytes render (x)"));
    assert!(rows[2].is_empty(), "{shown}");
    assert!(html.contains("Temporary allocations</h2>"));
    assert!(html.contains("<td>200</td><td>67 %</td><td>100 %</td>"));
    let (shown, html) = report(4);
    assert!(
        !shown.contains("temporary") && !html.contains("Temporary"),
        "{shown}"
    );
}

/// Sites by their number, each a function of one module.
fn sites(functions: &[&str]) -> String {
    let site = |(number, function): (usize, &&str)| {
        format!(
            "site {number} type=- depth=- class=128\n\
             frame 0x10 symbol={function} file=- line=0 module=/bin/x build=-\n"
        )
    };
    functions.iter().enumerate().map(site).collect()
}

/// What lies on pages together goes back together, and no one place's blocks would do it.
#[test]
fn places_that_hold_pages_together_are_named_together() {
    let bench = Bench::new();
    let mut lines = String::from("pagewise-trace 1 addresses\n");
    for page in 0..200_u64 {
        for place in 0..32 {
            let (object, site) = (page * 32 + place + 1, place.min(2));
            let address = 0x10_0000 + page * 4096 + place * 128;
            let _ = writeln!(lines, "allocate {object} {site} 100 0 {address:#x}");
        }
    }
    for object in (1..=6400).filter(|object| (object - 1) % 32 > 1) {
        let _ = writeln!(lines, "free {object}");
    }
    lines.push_str(&sites(&["node", "name", "brief"]));
    bench.convert("t", &lines);
    let shown = text(&bench.run(&["report", "t.trace"])).replace('\n', " ");
    // 200 pages, less six of 4 KB for the 200 blocks of each of the two.
    assert!(
        shown.contains(
            "Blocks of several places lie on the same pages: with those of node (x) and of name (x) elsewhere, 770 kB of \
             819 kB (94 %) could go."
        ),
        "{shown}"
    );
    assert!(!shown.contains("With its blocks elsewhere"), "{shown}");
}

/// Frames of C++'s library on the way from the program to malloc are passed over, and stay in flame graphs.
#[test]
fn a_place_is_the_first_frame_of_the_program() {
    let bench = Bench::new();
    let frames = |symbols: &[&str]| -> String {
        let frame = |symbol: &&str| {
            format!("frame 0x10 symbol={symbol} file=- line=0 module=/bin/x build=-\n")
        };
        symbols.iter().map(frame).collect()
    };
    let lines = format!(
        "pagewise-trace 1 addresses\nallocate 1 0 100 0 0x1000\nallocate 2 1 50 0 0x9000\n\
         site 0 type=- depth=- class=128\n{}site 1 type=- depth=- class=64\n{}",
        frames(&[
            "operator%20new(unsigned%20long)",
            "std::__new_allocator<Node>::allocate(unsigned%20long)",
            "remember",
            "main"
        ]),
        frames(&["operator%20new(unsigned%20long)"])
    );
    bench.convert("t", &lines);
    let described = |at: usize| {
        bench.run(&["stat", "--json", "t.json", "t.trace"]);
        read_json(&bench.path("t.json"))["sites"][at]["description"].clone()
    };
    assert_eq!(described(0), "remember (x)");
    assert_eq!(described(1), "operator new(unsigned long) (x)");
    let shown = text(&bench.run(&["report", "t.trace"]));
    assert!(
        shown.starts_with("operator new(unsigned long) (x) pins most"),
        "{shown}"
    );
    assert!(shown.contains("remember (x) < main"), "{shown}");
    let folded = text(&bench.run(&["report", "--folded", "live", "t.trace"]));
    assert!(
        folded.starts_with("main;remember;std::__new_allocator"),
        "{folded}"
    );
}
