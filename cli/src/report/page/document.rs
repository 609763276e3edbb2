//! A page around its body: one HTML file with its styles, its data, and the scripts and libraries that draw it.

use std::fmt::Write;

use serde::Serialize;

const STYLE: &str = include_str!("page.css");

/// A drawing library, as its package has it, and our script that uses it.
pub struct Part {
    libraries: &'static [Library],
    script: &'static str,
}

struct Library {
    name: &'static str,
    script: &'static str,
    style: &'static str,
    licence: &'static str,
}

pub const PLOT: Part = Part {
    libraries: &[Library {
        name: "uPlot",
        script: include_str!("uplot/uPlot.iife.min.js"),
        style: include_str!("uplot/uPlot.min.css"),
        licence: include_str!("uplot/LICENSE"),
    }],
    script: include_str!("page.js"),
};

pub const FLAME: Part = Part {
    libraries: &[
        Library {
            name: "D3",
            script: include_str!("d3/d3.min.js"),
            style: "",
            licence: include_str!("d3/LICENSE"),
        },
        Library {
            name: "d3-flame-graph",
            script: include_str!("d3-flame-graph/d3-flamegraph.umd.min.js"),
            style: "",
            licence: include_str!("d3-flame-graph/LICENSE"),
        },
    ],
    script: include_str!("flame.js"),
};

pub struct Document<'a> {
    pub title: &'a str,
    /// HTML, escaped where it must be.
    pub body: String,
    pub parts: &'a [Part],
}

impl Document<'_> {
    /// The scripts find `data` in the page.
    pub fn html(&self, data: &impl Serialize) -> Result<String, serde_json::Error> {
        let data = in_script(&serde_json::to_string(data)?);
        let title = escaped(self.title);
        let libraries = || self.parts.iter().flat_map(|part| part.libraries);
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n"
        );
        for style in libraries().map(|library| library.style).chain([STYLE]) {
            push(&mut page, format_args!("<style>\n{style}</style>\n"));
        }
        push(
            &mut page,
            format_args!("</head>\n<body>\n<main>\n<h1>{title}</h1>\n{}", self.body),
        );
        page.push_str("</main>\n<footer class=\"quiet\">");
        for library in libraries() {
            push(
                &mut page,
                format_args!(
                    "<details><summary>Licence of {}, which draws</summary><pre>{}</pre></details>\n",
                    library.name,
                    escaped(library.licence)
                ),
            );
        }
        push(
            &mut page,
            format_args!(
                "</footer>\n<script type=\"application/json\" id=\"data\">{data}</script>\n"
            ),
        );
        for part in self.parts {
            let scripts = part.libraries.iter().map(|library| library.script);
            for script in scripts.chain([part.script]) {
                push(&mut page, format_args!("<script>\n{script}</script>\n"));
            }
        }
        page.push_str("</body>\n</html>\n");
        Ok(page)
    }
}

/// A section with a table whose last column is a place in a program.
pub struct Table<'a> {
    /// Of the section, by which scripts and links know it.
    pub id: &'a str,
    pub title: &'a str,
    pub columns: &'a [&'a str],
    pub rows: Vec<Vec<String>>,
    pub note: &'a str,
}

impl Table<'_> {
    pub fn push(&self, page: &mut String) {
        let (id, title) = (self.id, escaped(self.title));
        push(
            page,
            format_args!(
                "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2>\n\
                 <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {title}\">\
                 <table class=\"places\">\n<thead><tr>"
            ),
        );
        for column in self.columns {
            // An empty heading is no heading to those who hear the page.
            match column.is_empty() {
                true => page.push_str("<td></td>"),
                false => push(
                    page,
                    format_args!("<th scope=\"col\">{}</th>", escaped(column)),
                ),
            }
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            page.push_str("<tr>");
            for cell in row {
                push(page, format_args!("<td>{}</td>", escaped(cell)));
            }
            page.push_str("</tr>\n");
        }
        push(
            page,
            format_args!(
                "</tbody></table></div>\n<p class=\"quiet\">{}</p>\n</section>\n",
                escaped(self.note)
            ),
        );
    }
}

pub fn push(page: &mut String, text: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = page.write_fmt(text);
}

/// For text and for values of attributes, in double quotes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// JSON in which no end tag, comment or start tag of a script can stand.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
