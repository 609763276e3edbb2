//! What the runs read and write: the same input for all, and their outputs to compare.

use std::env;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use nix::sys::statvfs::fstatvfs;

use crate::failure::Failure;
use crate::report::plain::plain;
use crate::tell::tell;
use crate::trial::Streams;

/// Somebody may not know that input is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is shown of a failed run's outputs.
const SHOWN_BYTES: u64 = 2000;
const SHOWN_LINES: usize = 10;

/// Standard input, read once. Nothing when it is a terminal: nobody wants to type it for each run.
pub struct Input {
    file: Option<File>,
}

impl Input {
    pub fn read() -> anyhow::Result<Self> {
        let mut stdin = io::stdin();
        if stdin.is_terminal() {
            return Ok(Self { file: None });
        }
        let unkept = |error| unkept("standard input", &error);
        let mut file = tempfile::tempfile().map_err(unkept)?;
        let (is_read, waits) = mpsc::channel::<()>();
        let reminder = thread::spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                tell("reading standard input, to give it to every run; without input: < /dev/null");
            }
        });
        let result = io::copy(&mut stdin, &mut file);
        drop(is_read);
        // No thread may be left that signals could be delivered to.
        let _ = reminder.join();
        match result {
            Ok(_) => Ok(Self { file: Some(file) }),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(unkept(error).into()),
            Err(error) => Err(anyhow!(error).context("cannot read standard input")),
        }
    }

    fn replay(&self) -> io::Result<Stdio> {
        let Some(file) = &self.file else {
            return Ok(Stdio::null());
        };
        // Runs follow each other, so they may share one position in the file.
        let mut again = file.try_clone()?;
        again.seek(SeekFrom::Start(0))?;
        Ok(again.into())
    }
}

/// What the runs read and write is kept where temporary files are.
pub fn unkept(what: &str, error: &io::Error) -> Failure {
    let folder = env::temp_dir();
    Failure::new(
        format!("cannot keep {what} in {}: {error}", folder.display()),
        format!("df -h {}; or {}", folder.display(), elsewhere()),
    )
}

pub fn elsewhere() -> &'static str {
    "TMPDIR=/a/folder/with/room pagewise compare ..."
}

/// Where one run writes.
pub struct Captured {
    stdout: File,
    stderr: File,
}

impl Captured {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            stdout: tempfile::tempfile()?,
            stderr: tempfile::tempfile()?,
        })
    }

    pub fn streams(&self, input: &Input) -> io::Result<Streams> {
        Ok(Streams {
            stdin: input.replay()?,
            stdout: self.stdout.try_clone()?.into(),
            stderr: self.stderr.try_clone()?.into(),
            are_captured: true,
        })
    }

    /// The ends of what the run wrote.
    pub fn last_words(&self) -> LastWords {
        LastWords {
            errors: last_lines(&self.stderr),
            output: last_lines(&self.stdout),
            lacked_room: [&self.stdout, &self.stderr]
                .into_iter()
                .any(is_on_full_disk),
        }
    }
}

/// The last lines that a run wrote to its standard error and to its standard output.
#[derive(Default)]
pub struct LastWords {
    pub errors: Vec<String>,
    pub output: Vec<String>,
    /// What the run wrote may not all have found a place.
    pub lacked_room: bool,
}

/// Some file systems count no blocks at all.
fn is_on_full_disk(file: &File) -> bool {
    fstatvfs(file).is_ok_and(|disk| disk.blocks() > 0 && disk.blocks_available() == 0)
}

fn last_lines(file: &File) -> Vec<String> {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let start = length.saturating_sub(SHOWN_BYTES);
    let mut bytes = vec![0; (length - start) as usize];
    let got = file.read_at(&mut bytes, start).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..got]);
    let lines: Vec<String> = text.lines().map(plain).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].to_vec()
}

/// The first run's output, to which all others are compared byte for byte.
#[derive(Default)]
pub struct Reference {
    stdout: Option<File>,
}

/// Where two outputs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    pub byte: u64,
    pub line: u64,
}

impl Reference {
    pub fn compare(&mut self, captured: &Captured) -> io::Result<Option<Difference>> {
        match &self.stdout {
            Some(first) => difference(first, &captured.stdout),
            None => {
                self.stdout = Some(captured.stdout.try_clone()?);
                Ok(None)
            }
        }
    }
}

/// Compares two files from their starts.
pub fn difference(one: &File, other: &File) -> io::Result<Option<Difference>> {
    let (mut one, mut other) = (from_start(one)?, from_start(other)?);
    let mut at = Difference { byte: 1, line: 1 };
    loop {
        let (a, b) = (next(&mut one)?, next(&mut other)?);
        match (a, b) {
            (None, None) => return Ok(None),
            (a, b) if a != b => return Ok(Some(at)),
            _ => {}
        }
        at.byte += 1;
        at.line += u64::from(a == Some(b'\n'));
    }
}

fn from_start(file: &File) -> io::Result<BufReader<File>> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

fn next(reader: &mut BufReader<File>) -> io::Result<Option<u8>> {
    reader.bytes().next().transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(text.as_bytes()).expect("text");
        file
    }

    fn compare(one: &str, other: &str) -> Option<Difference> {
        difference(&file(one), &file(other)).expect("readable")
    }

    #[test]
    fn equal_outputs_do_not_differ() {
        assert_eq!(compare("", ""), None);
        assert_eq!(compare("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(
            compare("a\nb\n", "a\nc\n"),
            Some(Difference { byte: 3, line: 2 })
        );
        assert_eq!(compare("ab", "abc"), Some(Difference { byte: 3, line: 1 }));
        assert_eq!(compare("x", ""), Some(Difference { byte: 1, line: 1 }));
    }

    #[test]
    fn only_the_last_lines_are_shown_and_none_that_a_terminal_obeys() {
        let captured = Captured::new().expect("files");
        for number in 0..1000 {
            writeln!(&captured.stderr, "line {number}").expect("text");
        }
        writeln!(&captured.stdout, "\u{1b}[2Jgone").expect("text");
        let shown = captured.last_words();
        let ends = [shown.errors.first(), shown.errors.last()];
        assert_eq!(
            ends.map(|line| line.map_or("", |l| l)),
            ["line 990", "line 999"]
        );
        assert_eq!(shown.output, ["\u{fffd}[2Jgone"]);
    }
}
