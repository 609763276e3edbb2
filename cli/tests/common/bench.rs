//! A folder of a test's own, and `pagewise` at work in it. Tests add what they alone need in an `impl` of theirs.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::{errors, pagewise};

pub struct Bench {
    folder: TempDir,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Bench {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
        }
    }

    /// `pagewise` is started with the variable.
    pub fn with(mut self, variable: &'static str, value: &Path) -> Self {
        self.environment.push((variable, value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Of all files in the folder, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn pagewise(&self) -> Command {
        let mut command = pagewise();
        command.current_dir(self.folder.path());
        for (variable, value) in &self.environment {
            command.env(variable, value);
        }
        command
    }

    /// `pagewise trace WORDS...`
    pub fn run(&self, words: &[&str]) -> Output {
        self.pagewise().arg("trace").args(words).output().unwrap()
    }

    /// `pagewise trace record OPTIONS... -o x.trace -- COMMAND...`
    pub fn record(&self, options: &[&str], command: &[&str]) -> Output {
        let words = [&["record", "-o", "x.trace"], options, &["--"], command];
        self.run(&words.concat())
    }

    /// NAME.trace of these lines of a trace's text form, without addresses.
    pub fn trace_named(&self, name: &str, lines: &str) {
        self.convert(name, &format!("pagewise-trace 1\n{lines}"));
    }

    /// NAME.trace of a trace's whole text form.
    pub fn convert(&self, name: &str, text: &str) {
        fs::write(self.path(&format!("{name}.txt")), text).unwrap();
        let (source, target) = (format!("{name}.txt"), format!("{name}.trace"));
        let output = self.run(&["convert", &source, "-o", &target]);
        assert!(output.status.success(), "{}", errors(&output));
    }

    /// What is wrong is said, and what to do next.
    pub fn refused(&self, words: &[&str], what: &str) {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(125), "{}", super::text(&output));
        assert!(errors(&output).contains(what), "{}", errors(&output));
        assert!(errors(&output).contains("try: "), "{}", errors(&output));
    }
}
