//! A process under the real library that holds copies of one block, which share its pages.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::{compiled, libraries, run_sharing};

/// Of the block, and of each of its copies.
pub const BLOCK: u64 = 16 << 20;
pub const COPIES: u64 = 3;

pub struct Copies {
    /// By which its process is known, of at most fifteen letters: no other has it.
    pub name: String,
    child: Child,
    answers: BufReader<ChildStdout>,
    _folder: TempDir,
}

/// Says so where the library has not been built.
fn library() -> Option<PathBuf> {
    let path = libraries().join("libpagewise-preload.so");
    if !path.exists() {
        skipped("build/lib/libpagewise-preload.so has not been built (make core)");
        return None;
    }
    Some(path)
}

/// For those who read the log: what a test prints by println! is shown of failed tests alone.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

impl Copies {
    /// Ready to be looked at; whatever module copies, since pages of unknown programs are not shared else. None: there is no library.
    pub fn start() -> Option<Self> {
        let library = library()?;
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("copies{}x{number}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(&name);
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        std::fs::copy(PROGRAM.get_or_init(|| compiled("copies", &[])), &program).unwrap();
        let mut child = run_sharing("modules=all")
            .arg(&program)
            .env("PAGEWISE_LIBRARY", library)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut copies = Self {
            name,
            child,
            answers,
            _folder: folder,
        };
        copies.wait_for("ready");
        Some(copies)
    }

    /// To every page of one copy, which shares no more.
    pub fn write(&mut self) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(b"write\n").unwrap();
        self.wait_for("written");
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word);
    }

    pub fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Copies {
    /// Of a test that failed.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
