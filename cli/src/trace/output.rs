//! Files that appear whole or not at all, and standard output that somebody may stop reading.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
pub use crate::report::target::folder_of;
use crate::report::target::{self, Target};

/// Where a result goes.
pub struct Output {
    written: BufWriter<Target>,
    path: PathBuf,
    /// What went wrong first: those that write do not all pass it on.
    error: Option<io::Error>,
}

impl Output {
    /// `-` is standard output.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let target = Target::open(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self {
            written: BufWriter::with_capacity(1 << 20, target),
            path: path.to_owned(),
            error: None,
        })
    }

    /// Puts the file into its place.
    pub fn finish(self) -> Result<(), Failure> {
        let finished = self
            .written
            .into_inner()
            .map_err(|error| error.into_error());
        match finished.and_then(Target::finish) {
            Err(error) if is_end_of_reading(&error) => Ok(()),
            Err(error) => Err(unwritable(&self.path, &error)),
            Ok(()) => Ok(()),
        }
    }

    /// What has kept a result from being written: an error of this file, or else the one that was met.
    pub fn blame(&self, met: anyhow::Error) -> anyhow::Error {
        match &self.error {
            Some(error) if is_end_of_reading(error) => copy_of(error).into(),
            Some(error) => unwritable(&self.path, error).into(),
            None => met,
        }
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
            && self.error.is_none()
        {
            self.error = Some(copy_of(error));
        }
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.written.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.written.flush();
        self.note(result)
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}

fn is_end_of_reading(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    target::unwritable(path, error).kept("what was there before is unchanged")
}

/// Is this what a reader that has seen enough, such as head, leaves behind?
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(of_writing).any(is_end_of_reading)
}

/// An error of standard output's, of which nothing has been said yet.
pub fn of_standard_output(met: anyhow::Error, kept: &str) -> anyhow::Error {
    let error = met.chain().find_map(of_writing);
    match error.filter(|_| !met.is::<Failure>()) {
        Some(error) => target::unwritable(Path::new("-"), error).kept(kept).into(),
        None => met,
    }
}

fn of_writing<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a io::Error> {
    match cause.downcast_ref::<trace_format::Error>() {
        Some(trace_format::Error::Io(error)) => Some(error),
        _ => cause.downcast_ref::<io::Error>(),
    }
}
