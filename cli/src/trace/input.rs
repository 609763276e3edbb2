//! Opening a trace, with errors that say what to do.

use std::fs::File;
use std::io;
use std::path::Path;

use trace_format::{Error, TraceReader};

use crate::failure::Failure;
use crate::report::plain::plain;
use crate::tell::tell;

pub fn open(path: &Path) -> Result<TraceReader<File>, Failure> {
    let trace = TraceReader::open(path).map_err(|error| unreadable(path, &error))?;
    if let Some(offset) = trace.cut_off() {
        tell(&format!(
            "{} was cut off at byte {offset}: what is before it is used",
            path.display()
        ));
    }
    if let Some(reason) = trace.properties().get("stopped") {
        tell(&format!(
            "the recording ended before the program: {}",
            plain(reason)
        ));
    }
    Ok(trace)
}

/// Of a sample only sums are known: not which block lay where, nor what was live with it.
pub fn refuse_sample(
    trace: &TraceReader<File>,
    path: &Path,
    why: &str,
    kept: &str,
) -> Result<(), Failure> {
    if trace.properties().number("sample-bytes").unwrap_or(0) == 0 {
        return Ok(());
    }
    Err(Failure::new(
        format!("{} is a sample: {why}", path.display()),
        "recording it again without --sample",
    )
    .kept(kept))
}

pub fn unreadable(path: &Path, error: &Error) -> Failure {
    let file = path.display();
    let is_there = !matches!(error, Error::Io(why) if why.kind() == io::ErrorKind::NotFound);
    let next = match error {
        Error::Foreign(_) => {
            format!("file {file}; traces are made by pagewise trace record -o FILE -- COMMAND")
        }
        Error::Version(_) => "a newer pagewise".into(),
        Error::Damaged { .. } => format!(
            "recording it again; pagewise trace show --count 100 {file} shows what is before the damage"
        ),
        Error::Text { line, .. } => format!("sed -n {line}p {file}"),
        Error::Invalid(_) => "reporting this as a mistake in pagewise".into(),
        Error::Io(_) if !is_there => newest_beside(path),
        Error::Io(_) => format!("ls -l {file}"),
    };
    let why = plain(&error.to_string());
    let failure = Failure::new(format!("cannot read {file}: {why}"), next);
    if is_there {
        failure.kept("the file is unchanged")
    } else {
        failure
    }
}

fn newest_beside(path: &Path) -> String {
    match path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        Some(folder) => format!("ls -t {}", folder.display()),
        None => "ls -t".into(),
    }
}
