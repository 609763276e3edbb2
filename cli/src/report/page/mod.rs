//! The page of `--report`: one HTML file that needs nothing else, no network either. What it says is in the page itself;
//! its script draws the chart alone, by uPlot.

pub mod document;
mod machine;

use serde::Serialize;

use self::document::{Document, PLOT, escaped, push};
use super::{csv, units};
use crate::measure::curve::Curve;

/// Corners of a line; more are no wider than a pixel.
const MOST_POINTS: usize = 2000;

pub struct Page {
    pub title: String,
    /// What was found, a paragraph each.
    pub answer: Vec<String>,
    pub lines: Vec<Line>,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    pub savings: Vec<Saving>,
    pub command: String,
}

/// Memory over time of one run.
#[derive(Serialize)]
pub struct Line {
    pub name: String,
    /// The name in the CSV file.
    cell: String,
    pub run: usize,
    /// Others of the same name are drawn faintly.
    pub is_main: bool,
    seconds: Vec<f64>,
    bytes: Vec<u64>,
}

/// Where saved bytes came from, under one configuration.
pub struct Saving {
    pub configuration: String,
    pub what: String,
    pub bytes: u64,
}

/// What the chart is drawn from.
#[derive(Serialize)]
pub struct Chart<'a> {
    pub lines: &'a [Line],
    /// What the lines go over: `seconds` or `events`.
    pub across: &'a str,
    /// What a line's name says, in the head of the CSV file.
    pub named: &'a str,
}

/// The chart's place in a page; its script looks for it there.
pub fn push_chart(page: &mut String, title: &str, label: &str) {
    let hint = "Point at the chart to read it; drag to enlarge, double-click to return.";
    let (title, label) = (escaped(title), escaped(label));
    push(
        page,
        format_args!(
            "<section aria-labelledby=\"over-time\"><h2 id=\"over-time\">{title}</h2>\n\
             <div id=\"chart\" role=\"img\" aria-label=\"{label}\"></div>\n\
             <output id=\"readout\" data-hint=\"{hint}\">{hint}</output>\n\
             <fieldset id=\"legend\"><legend class=\"quiet\">Shown:</legend></fieldset>\n\
             <button type=\"button\" id=\"download\">Download as CSV</button>\n</section>\n"
        ),
    );
}

impl Line {
    pub fn of(name: &str, run: usize, is_main: bool, curve: &Curve) -> Self {
        Self::through(name, run, is_main, &curve.corners())
    }

    /// Through points of time (or another number) and bytes.
    pub fn through(name: &str, run: usize, is_main: bool, corners: &[(f64, u64)]) -> Self {
        let corners = thinned(corners);
        Self {
            name: name.into(),
            cell: csv::cell(name),
            run,
            is_main,
            seconds: corners
                .iter()
                .map(|one| (one.0 * 1e6).round() / 1e6)
                .collect(),
            bytes: corners.iter().map(|one| one.1).collect(),
        }
    }
}

/// Of each stretch its lowest and its highest corner stay, so that no peak is lost.
fn thinned(corners: &[(f64, u64)]) -> Vec<(f64, u64)> {
    if corners.len() <= MOST_POINTS {
        return corners.to_vec();
    }
    let stretch = corners.len().div_ceil(MOST_POINTS / 2);
    let ends = |part: &[(f64, u64)]| {
        let low = part.iter().copied().min_by_key(|one| one.1);
        let high = part.iter().copied().max_by_key(|one| one.1);
        let mut both: Vec<(f64, u64)> = low.into_iter().chain(high).collect();
        both.sort_by(|one, other| one.0.total_cmp(&other.0));
        both.dedup();
        both
    };
    corners.chunks(stretch).flat_map(ends).collect()
}

impl Page {
    pub fn html(&self) -> Result<String, serde_json::Error> {
        let chart = Chart {
            lines: &self.lines,
            across: "seconds",
            named: "configuration",
        };
        let mut body = String::new();
        for paragraph in &self.answer {
            push(&mut body, format_args!("<p>{}</p>\n", escaped(paragraph)));
        }
        let label = format!(
            "Physical memory over time. The table below has the figures. {}",
            self.answer.first().map_or("", String::as_str)
        );
        push_chart(&mut body, "Physical memory over time", &label);
        self.push_table(&mut body);
        self.push_savings(&mut body);
        self.push_machine(&mut body);
        Document {
            title: &self.title,
            body,
            parts: &[PLOT],
        }
        .html(&chart)
    }

    fn push_table(&self, page: &mut String) {
        page.push_str(
            "<section aria-labelledby=\"figures\"><h2 id=\"figures\">Figures</h2>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of figures\"><table>\n<thead><tr>",
        );
        for column in &self.columns {
            push(
                page,
                format_args!("<th scope=\"col\">{}</th>", escaped(column)),
            );
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            page.push_str("<tr>");
            for (place, cell) in row.iter().enumerate() {
                let cell = escaped(cell);
                match place {
                    0 => push(page, format_args!("<th scope=\"row\">{cell}</th>")),
                    _ => push(page, format_args!("<td>{cell}</td>")),
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table></div>\n</section>\n");
    }

    fn push_savings(&self, page: &mut String) {
        page.push_str("<section aria-labelledby=\"saved\"><h2 id=\"saved\">Where saved bytes came from</h2>\n");
        let most = self.savings.iter().map(|one| one.bytes).max().unwrap_or(0);
        if most == 0 {
            page.push_str("<p>Nothing was counted as saved.</p>\n</section>\n");
            return;
        }
        page.push_str(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of saved bytes\"><table>\n<thead><tr>\
             <th scope=\"col\">configuration</th><th scope=\"col\">bytes</th><th scope=\"col\">what</th></tr></thead>\n<tbody>\n",
        );
        for one in &self.savings {
            push(
                page,
                format_args!(
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td style=\"text-align:left;white-space:normal\">\
                     <span class=\"bar\" style=\"width:{:.1}rem\"></span> {}</td></tr>\n",
                    escaped(&one.configuration),
                    units::bytes(one.bytes as f64),
                    12.0 * one.bytes as f64 / most as f64,
                    escaped(&one.what)
                ),
            );
        }
        page.push_str(
            "</tbody></table></div>\n<p class=\"quiet\">Sums over the whole run, so they may be more than the peak.</p>\n</section>\n",
        );
    }

    fn push_machine(&self, page: &mut String) {
        page.push_str("<section aria-labelledby=\"how\"><h2 id=\"how\">Command and machine</h2>\n");
        push(
            page,
            format_args!("<pre>{}</pre>\n<dl>\n", escaped(&self.command)),
        );
        for (name, value) in machine::facts() {
            push(
                page,
                format_args!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&value)),
            );
        }
        page.push_str("</dl>\n</section>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn page(text: &str) -> Page {
        let mut curve = Curve::default();
        curve.add(Duration::from_millis(1), 5_000_000);
        curve.add(Duration::from_millis(9), 7_000_000);
        Page {
            title: text.into(),
            answer: vec![text.into()],
            lines: vec![Line::of(text, 1, true, &curve)],
            columns: vec!["", "peak"],
            rows: vec![vec![text.into(), "7.00 MB".into()]],
            savings: vec![Saving {
                configuration: text.into(),
                what: text.into(),
                bytes: 9,
            }],
            command: text.into(),
        }
    }

    #[test]
    fn text_of_a_command_cannot_become_a_script() {
        let hostile = "</script><script>alert(1)</script><!-- \" &amp;";
        let html = page(hostile).html().expect("page");
        assert_eq!(html.matches("<script").count(), 3, "its own");
        assert_eq!(html.matches("</script").count(), 3);
        assert!(!html.contains("<!--") && !html.contains("alert(1)</"));
        let (_, rest) = html.split_once("id=\"data\">").expect("data");
        let json = rest.split_once("</script>").expect("its end").0;
        let data: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(data["lines"][0]["name"], hostile);
        assert_eq!(data["lines"][0]["bytes"][1], 7_000_000);
    }

    #[test]
    fn a_name_is_no_formula_in_the_csv() {
        let lines = page("=1").lines;
        let data = serde_json::to_value(&lines).expect("JSON");
        assert_eq!(data[0]["name"], "=1");
        assert_eq!(data[0]["cell"], "\"'=1\"");
        assert!(
            include_str!("page.js").contains("[line.cell, line.run, seconds, line.bytes[index]]")
        );
    }

    #[test]
    fn a_page_is_one_file_and_keeps_the_licence() {
        let html = page("x").html().expect("page");
        for outside in ["src=", "href=\"http", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("Permission is hereby granted"));
    }

    #[test]
    fn a_long_line_keeps_its_peaks() {
        let mut corners: Vec<(f64, u64)> = (0..100_000).map(|i| (f64::from(i), 5)).collect();
        corners[54_321].1 = 900;
        let thin = thinned(&corners);
        assert!(thin.len() <= MOST_POINTS && thin.contains(&(54_321.0, 900)));
        assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(thinned(&corners[..10]).len(), 10);
    }
}
