//! `pagewise doctor`: what this machine allows, why it matters, and what to type to allow more.

mod files;
mod finding;
mod large_pages;
mod limits;
mod machine;
mod memory;
mod probes;
mod summary;

use std::io;

use anstyle::AnsiColor;
use anyhow::Result;
use serde::Serialize;

use crate::commandline::DoctorArguments;
use crate::ending::Ending;
use crate::report::json::{Destination, SCHEMA, publish};
use crate::report::style;
use files::Files;
use finding::{Finding, State};

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    works: bool,
    summary: &'a [String],
    findings: &'a [Finding],
}

pub fn doctor(arguments: &DoctorArguments) -> Result<Ending> {
    let destination = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let findings = examine(&Files::below(&arguments.root));
    let summary = summary::lines(&findings);
    let figures = Report {
        schema: SCHEMA,
        works: summary::works(&findings),
        summary: &summary,
        findings: &findings,
    };
    let shown = match arguments.all {
        true => text(&findings),
        false => summary.join("\n") + "\n",
    };
    publish(&shown, destination, &figures)?;
    let is_bad = findings.iter().any(|finding| finding.state == State::Bad);
    Ok(Ending::Exit(u8::from(is_bad)))
}

fn examine(files: &Files) -> Vec<Finding> {
    let mut findings = probes::library(files);
    findings.extend(machine::findings(files));
    findings.extend(probes::findings());
    findings.extend(large_pages::findings(files));
    findings.extend(memory::findings(files));
    findings.extend(limits::findings(files));
    findings
}

fn text(findings: &[Finding]) -> String {
    let has_colour = style::allows_colour(&io::stdout());
    let width = findings.iter().map(|f| f.name.len()).max().unwrap_or(0);
    let lines = findings.iter().map(|one| line(one, width, has_colour));
    lines.collect()
}

fn line(finding: &Finding, width: usize, has_colour: bool) -> String {
    let mark = mark(finding.state, has_colour);
    let mut text = format!(
        "{mark} {:width$}  {} ({})\n",
        finding.name, finding.found, finding.why
    );
    if let Some(command) = &finding.command {
        let indent = " ".repeat(width + 10);
        text.push_str(&format!("{indent}$ {command}\n"));
    }
    text
}

fn mark(state: State, has_colour: bool) -> String {
    let (word, colour) = match state {
        State::Good => ("good   ", AnsiColor::Green),
        State::Limited => ("limited", AnsiColor::Yellow),
        State::Bad => ("bad    ", AnsiColor::Red),
        State::Note => ("note   ", AnsiColor::BrightBlack),
    };
    if !has_colour {
        return word.into();
    }
    let style = colour.on_default();
    format!("{style}{word}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::files::tests::fake;
    use super::*;

    #[test]
    fn a_machine_without_anything_is_examined_all_the_same() {
        let (_root, files) = fake(&[]);
        let findings = examine(&files);
        assert!(findings.len() > 10);
        assert!(
            findings
                .iter()
                .all(|f| !f.found.is_empty() && !f.why.is_empty())
        );
    }

    #[test]
    fn the_command_stands_below_its_finding() {
        let finding = Finding::new("x", State::Limited, "off", "why").command("echo 1");
        assert_eq!(
            line(&finding, 3, false),
            "limited x    off (why)\n             $ echo 1\n"
        );
        assert!(mark(State::Good, true).contains('\u{1b}'));
    }
}
