//! The page of `trace report --html`: what the text says, memory over time, and flame graphs.

use anyhow::Result;
use serde::Serialize;
use trace_analysis::analysis::{Analysis, Moment, Point};
use trace_analysis::flame::{Flame, Kind, Node};

use crate::report::page::document::{Document, FLAME, PLOT, Table, escaped, push};
use crate::report::page::{Chart, Line, push_chart};

const TITLE: &str = "Which call sites pin my pages?";
const KINDS: [Kind; 4] = [Kind::Pinned, Kind::Live, Kind::Peak, Kind::Allocated];

/// What the text of the report says, and what is drawn.
pub struct Page<'a> {
    pub answer: Vec<String>,
    pub head: &'a [(&'static str, String)],
    pub places: Table<'a>,
    pub temporary: Option<Table<'a>>,
    pub next: &'a [String],
    pub at: Moment,
    pub found: &'a Analysis,
}

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    chart: Chart<'a>,
    flame: FlameData,
}

#[derive(Serialize)]
struct FlameData {
    kinds: Vec<KindData>,
    root: Node,
}

#[derive(Serialize)]
struct KindData {
    name: Kind,
    title: String,
}

pub fn html(page: &Page, flame: &Flame) -> Result<String> {
    let has_time = page.found.seconds > 0.0;
    let lines = lines(page, has_time);
    let kinds = kinds(page.at);
    let data = Data {
        chart: Chart {
            lines: &lines,
            across: if has_time { "seconds" } else { "events" },
            named: "what",
        },
        flame: FlameData {
            root: flame.tree(&kinds),
            kinds: kinds.iter().map(|&kind| described(kind, page.at)).collect(),
        },
    };
    let mut body = String::new();
    for sentence in &page.answer {
        push(
            &mut body,
            format_args!("<p><strong>{}</strong></p>\n", escaped(sentence)),
        );
    }
    body.push_str("<dl>\n");
    for (name, value) in page.head {
        push(
            &mut body,
            format_args!("<dt>{name}</dt><dd>{}</dd>\n", escaped(value)),
        );
    }
    body.push_str("</dl>\n");
    push_flame(&mut body);
    push_chart(
        &mut body,
        "Memory over time",
        "Live bytes, and bytes of the pages that they hold, over time.",
    );
    page.places.push(&mut body);
    if let Some(temporary) = &page.temporary {
        temporary.push(&mut body);
    }
    push(
        &mut body,
        format_args!("<pre>{}</pre>\n", escaped(&page.next.join("\n"))),
    );
    let document = Document {
        title: TITLE,
        body,
        parts: &[PLOT, FLAME],
    };
    Ok(document.html(&data)?)
}

/// At the peak, what is live is what was live at the peak.
fn kinds(at: Moment) -> Vec<Kind> {
    let is_other = |kind: &Kind| at != Moment::Peak || *kind != Kind::Live;
    KINDS.into_iter().filter(is_other).collect()
}

fn described(kind: Kind, at: Moment) -> KindData {
    let moment = match at {
        Moment::Peak => "when most was live",
        Moment::Pinned => "when most of the held pages was free",
        Moment::End => "at the end",
    };
    KindData {
        name: kind,
        title: match kind {
            Kind::Pinned => format!("pinned, {moment}"),
            Kind::Live => format!("live, {moment}"),
            Kind::Peak => "live, when most was".into(),
            Kind::Allocated => "allocated, in all".into(),
        },
    }
}

/// Live bytes over time, and bytes of held pages where they were followed.
fn lines(page: &Page, has_time: bool) -> Vec<Line> {
    let mut lines = vec![line("live", page.found, has_time, |point| point.live_bytes)];
    if page.at == Moment::Pinned {
        lines.push(line("held pages", page.found, has_time, |point| {
            point.held_bytes
        }));
    }
    lines
}

/// A figure of a trace over time, or over its events.
pub fn line(name: &str, found: &Analysis, has_time: bool, value: fn(&Point) -> f64) -> Line {
    let corners: Vec<(f64, u64)> = found
        .curve
        .iter()
        .map(|point| match has_time {
            true => (point.seconds, value(point) as u64),
            false => (point.event as f64, value(point) as u64),
        })
        .collect();
    Line::through(name, 1, true, &corners)
}

fn push_flame(body: &mut String) {
    body.push_str(
        "<section aria-labelledby=\"stacks\"><h2 id=\"stacks\">By call</h2>\n\
         <p class=\"quiet\">The wider a call, the more bytes are of it and of what it calls below. Choose a call to \
         enlarge it; with the keyboard: arrows, Enter, and Escape to return.</p>\n\
         <form id=\"flame-form\"><fieldset id=\"flame-kinds\"><legend class=\"quiet\">Bytes:</legend></fieldset>\n\
         <label>Search <input type=\"search\" id=\"flame-search\" autocomplete=\"off\"></label>\n\
         <button type=\"button\" id=\"flame-reset\">All calls</button></form>\n\
         <output id=\"flame-found\"></output>\n\
         <p id=\"flame-read\"></p>\n<div id=\"flame\"></div>\n\
         <noscript><p>Without scripts there is no graph; the table below has the largest places.</p></noscript>\n</section>\n",
    );
}
