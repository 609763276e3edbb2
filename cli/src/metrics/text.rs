//! The figures as text: OpenMetrics 1.0, or the older form of Prometheus, which other tools read as well.
//!
//! The two differ in how a counter and the version are declared. What else OpenMetrics has are comments to the older form.

use std::fmt::Write;

use super::totals::{Pair, Sums, Totals};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    OpenMetrics,
    Prometheus,
}

struct Family {
    name: &'static str,
    is_counter: bool,
    unit: &'static str,
    help: &'static str,
    value: fn(&Sums) -> Option<u64>,
}

const fn gauge(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    value: fn(&Sums) -> Option<u64>,
) -> Family {
    Family {
        name,
        is_counter: false,
        unit,
        help,
        value,
    }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    value: fn(&Sums) -> Option<u64>,
) -> Family {
    Family {
        name,
        is_counter: true,
        unit: "",
        help,
        value,
    }
}

/// An interface: docs/reference/command-line.md has the table.
const FAMILIES: [Family; 10] = [
    gauge(
        "pagewise_processes",
        "",
        "Processes under Pagewise.",
        |sums| Some(sums.processes),
    ),
    gauge(
        "pagewise_physical_bytes",
        "bytes",
        "Physical memory: anonymous pages, pages of files, snapshots, pages of the hugetlb pool.",
        |sums| Some(sums.physical_bytes),
    ),
    gauge(
        "pagewise_saved_bytes",
        "bytes",
        "What blocks would take more if they shared no pages. Not known of a fork's child.",
        |sums| sums.saved_bytes,
    ),
    gauge(
        "pagewise_shared_bytes",
        "bytes",
        "Blocks that are mapped onto snapshots, in full.",
        |sums| sums.shared_bytes,
    ),
    gauge(
        "pagewise_snapshot_bytes",
        "bytes",
        "Pages that copies share, counted once.",
        |sums| sums.snapshot_bytes,
    ),
    gauge(
        "pagewise_warm_bytes",
        "bytes",
        "Free pages kept for the next block.",
        |sums| sums.warm_bytes,
    ),
    gauge(
        "pagewise_live_bytes",
        "bytes",
        "Blocks in use, shared ones in full.",
        |sums| sums.live_bytes,
    ),
    counter(
        "pagewise_collections",
        "Garbage collections that Pagewise saw.",
        |sums| sums.collections,
    ),
    counter(
        "pagewise_collections_asked",
        "Garbage collections that Pagewise asked for.",
        |sums| sums.collections_asked,
    ),
    counter(
        "pagewise_page_faults",
        "Page faults, those that read from a disk included.",
        |sums| Some(sums.page_faults),
    ),
];

impl Form {
    /// Which of the two an Accept header wants; the older one where it names neither.
    pub fn wanted(accept: &str) -> Self {
        let best = |of: fn(&str, &str) -> bool| {
            let ranges = accept.split(',').map(Range::of);
            let weights = ranges.filter(|range| of(range.kind, range.version));
            weights.map(|range| range.weight).fold(0.0, f32::max)
        };
        let open = best(|kind, version| {
            kind.eq_ignore_ascii_case("application/openmetrics-text") && is_first(version)
        });
        let plain = best(|kind, _| kind.eq_ignore_ascii_case("text/plain"));
        match open > 0.0 && open >= plain {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

fn is_first(version: &str) -> bool {
    version.is_empty() || version.starts_with("1.")
}

/// One of an Accept header's.
struct Range<'a> {
    kind: &'a str,
    version: &'a str,
    weight: f32,
}

impl<'a> Range<'a> {
    fn of(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self {
            kind: parts.next().unwrap_or_default(),
            version: "",
            weight: 1.0,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => range.weight = value.trim().parse().unwrap_or(0.0),
                "version" => range.version = value.trim().trim_matches('"'),
                _ => {}
            }
        }
        range
    }
}

pub fn of(totals: &Totals, form: Form) -> String {
    let mut text = version(form);
    for family in &FAMILIES {
        let sample = match family.is_counter {
            true => format!("{}_total", family.name),
            false => family.name.to_owned(),
        };
        let (declared, kind) = match (family.is_counter, form) {
            (true, Form::OpenMetrics) => (family.name, "counter"),
            (true, Form::Prometheus) => (sample.as_str(), "counter"),
            (false, _) => (family.name, "gauge"),
        };
        declare(&mut text, declared, kind, family.unit, family.help);
        for (pair, sums) in totals.pairs() {
            if let Some(value) = (family.value)(sums) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{sample}{} {value}", labels(pair));
            }
        }
    }
    text + "# EOF\n"
}

fn version(form: Form) -> String {
    let mut text = String::new();
    let (name, kind) = match form {
        Form::OpenMetrics => ("pagewise_build", "info"),
        Form::Prometheus => ("pagewise_build_info", "gauge"),
    };
    declare(&mut text, name, kind, "", "The version of this command.");
    let number = env!("CARGO_PKG_VERSION");
    text + &format!("pagewise_build_info{{version=\"{number}\"}} 1\n")
}

fn declare(text: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    text.push_str(&format!("# TYPE {name} {kind}\n"));
    if !unit.is_empty() {
        text.push_str(&format!("# UNIT {name} {unit}\n"));
    }
    text.push_str(&format!("# HELP {name} {help}\n"));
}

fn labels(pair: &Pair) -> String {
    let (name, policy) = (escaped(&pair.name), escaped(&pair.policy));
    format!("{{name=\"{name}\",policy=\"{policy}\"}}")
}

fn escaped(label: &str) -> String {
    let escaped = label.replace('\\', "\\\\").replace('"', "\\\"");
    escaped.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::metrics::totals::tests::row;

    fn text(form: Form) -> String {
        let mut totals = Totals::default();
        totals.take(&[row(1, "a\"b\\c\nd")], Instant::now());
        of(&totals, form)
    }

    #[test]
    fn both_forms_declare_what_they_hold() {
        let open = text(Form::OpenMetrics);
        let labels = "{name=\"a\\\"b\\\\c\u{fffd}d\",policy=\"auto\"}";
        for line in [
            "# TYPE pagewise_build info",
            "# TYPE pagewise_physical_bytes gauge",
            "# UNIT pagewise_physical_bytes bytes",
            "# TYPE pagewise_page_faults counter",
            &format!("pagewise_page_faults_total{labels} 100"),
            &format!("pagewise_saved_bytes{labels} 5000000"),
        ] {
            assert!(open.lines().any(|one| one == line), "{line}: {open}");
        }
        assert!(open.ends_with("\n# EOF\n"));
        let older = text(Form::Prometheus);
        assert!(older.contains("# TYPE pagewise_page_faults_total counter\n"));
        assert!(older.contains("# TYPE pagewise_build_info gauge\n"));
        for family in &FAMILIES {
            assert!(family.name.ends_with(family.unit), "{}", family.name);
        }
    }

    #[test]
    fn the_reader_says_what_it_reads() {
        let wanted = Form::wanted;
        for accept in [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.3",
            "text/plain, Application/OpenMetrics-Text; version=\"1.0.0\"",
        ] {
            assert_eq!(wanted(accept), Form::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=nan",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0.2,text/plain;q=0.3",
            ",;=,;q=",
        ] {
            assert_eq!(wanted(accept), Form::Prometheus, "{accept}");
        }
    }
}
