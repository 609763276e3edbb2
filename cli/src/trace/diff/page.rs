//! The page of `trace diff --html`: what the text says, and live bytes of both recordings over time.

use anyhow::Result;
use trace_analysis::analysis::Analysis;

use crate::report::page::document::{Document, PLOT, Table, escaped, push};
use crate::report::page::{Chart, push_chart};
use crate::trace::report::page::line;

pub struct Page<'a> {
    pub answer: String,
    pub warnings: &'a [String],
    /// The name of each of the two, and what it is of.
    pub heads: [(&'static str, String); 2],
    pub found: [&'a Analysis; 2],
    /// None where nothing differs.
    pub places: Option<Table<'a>>,
}

pub fn html(page: &Page) -> Result<String> {
    let has_time = page.found.iter().all(|found| found.seconds > 0.0);
    let is_live = page.found.iter().all(|found| found.has_ends());
    let lines: Vec<_> = page
        .heads
        .iter()
        .zip(page.found)
        .map(|((name, _), found)| line(name, found, has_time, |point| point.live_bytes))
        .collect();
    let mut body = String::new();
    push(
        &mut body,
        format_args!("<p><strong>{}</strong></p>\n", escaped(&page.answer)),
    );
    for warning in page.warnings {
        push(&mut body, format_args!("<p>{}</p>\n", escaped(warning)));
    }
    body.push_str("<dl>\n");
    for (name, value) in &page.heads {
        push(
            &mut body,
            format_args!("<dt>{name}</dt><dd>{}</dd>\n", escaped(value)),
        );
    }
    body.push_str("</dl>\n");
    if is_live {
        push_chart(
            &mut body,
            "Live bytes over time",
            "Live bytes of both recordings over time.",
        );
    }
    if let Some(places) = &page.places {
        places.push(&mut body);
    }
    let document = Document {
        title: "What do call sites hold more or less?",
        body,
        parts: if is_live { &[PLOT] } else { &[] },
    };
    Ok(document.html(&Chart {
        lines: &lines,
        across: if has_time { "seconds" } else { "events" },
        named: "recording",
    })?)
}
