//! Files that appear whole or not at all, and standard output that somebody may stop reading.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Where a result goes.
pub enum Output {
    Standard(BufWriter<io::Stdout>),
    /// Beside FILE, until it is complete.
    File {
        written: BufWriter<NamedTempFile>,
        path: PathBuf,
    },
}

impl Output {
    /// `-` is standard output.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Standard(BufWriter::new(io::stdout())));
        }
        if path.is_dir() {
            return Err(unwritable(path, &io::Error::other("it is a folder")));
        }
        let written = tempfile::Builder::new()
            .prefix(".pagewise-")
            .permissions(permissions())
            .tempfile_in(folder_of(path))
            .map_err(|error| unwritable(path, &error))?;
        Ok(Self::File {
            written: BufWriter::with_capacity(1 << 20, written),
            path: path.to_owned(),
        })
    }

    /// Puts the file into its place.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Standard(mut out) => match out.flush() {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    Err(unwritable(Path::new("standard output"), &error))
                }
                _ => Ok(()),
            },
            Self::File { written, path } => {
                let failed = |error: &io::Error| unwritable(&path, error);
                let file = written
                    .into_inner()
                    .map_err(|error| failed(error.error()))?;
                file.persist(&path).map_err(|error| failed(&error.error))?;
                Ok(())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::File { written, .. } => written.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File { written, .. } => written.flush(),
        }
    }
}

pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        format!("cannot write {}: {error}", path.display()),
        format!("ls -ld {}; or another FILE", folder_of(path).display()),
    )
    .kept("what was there before is unchanged")
}

/// As any new file's: less what the umask takes.
fn permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

/// Is this what a reader that has seen enough, such as head, leaves behind?
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let in_trace = match cause.downcast_ref::<pagewise_trace::format::Error>() {
            Some(pagewise_trace::format::Error::Io(error)) => Some(error),
            _ => None,
        };
        io.or(in_trace)
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
