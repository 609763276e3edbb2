//! `pagewise doctor`: what this machine allows, why it matters, and what to type to allow more.

mod large_pages;
mod limits;
mod machine;
mod memory;
mod probes;

use std::io;
use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use anyhow::Result;
use serde::Serialize;

use crate::Ending;
use crate::commandline::DoctorArguments;
use crate::report::json::{Destination, SCHEMA, publish};
use crate::report::style;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub state: State,
    /// What was found, in a few words.
    pub found: String,
    pub why: &'static str,
    /// What an administrator would type to change it.
    pub command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As good as it gets.
    Good,
    /// Pagewise works, with less effect or poorer figures.
    Limited,
    /// Something does not work.
    Bad,
    /// Said for information.
    Note,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    findings: &'a [Finding],
}

impl Finding {
    pub fn new(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        why: &'static str,
    ) -> Self {
        Self {
            name,
            state,
            found: found.into(),
            why,
            command: None,
        }
    }

    pub fn command(self, command: impl Into<String>) -> Self {
        Self {
            command: Some(command.into()),
            ..self
        }
    }
}

pub fn doctor(arguments: &DoctorArguments) -> Result<Ending> {
    let destination = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let findings = examine(&Files::below(&arguments.root));
    let figures = Report {
        schema: SCHEMA,
        findings: &findings,
    };
    publish(&text(&findings), destination, &figures)?;
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

/// The files of /proc and /sys, or of a folder that stands for them in tests.
pub struct Files {
    root: PathBuf,
}

impl Files {
    pub fn below(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Is this the machine itself, or a folder that stands for another one?
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn text(&self, path: &str) -> Option<String> {
        let path = self.root.join(path.trim_start_matches('/'));
        Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The chosen word of "always [madvise] never".
    pub fn choice(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A machine made of these files.
    pub fn fake(contents: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let root = tempfile::tempdir().expect("folder");
        for (path, text) in contents {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("file");
        }
        let files = Files::below(root.path());
        (root, files)
    }

    pub fn state_of(findings: &[Finding], name: &str) -> State {
        find(findings, name).state
    }

    pub fn find<'a>(findings: &'a [Finding], name: &str) -> &'a Finding {
        findings
            .iter()
            .find(|finding| finding.name == name)
            .unwrap_or_else(|| panic!("no finding {name}"))
    }

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
