//! What can be wrong with a trace, with the byte at which it is.

use std::io;

use thiserror::Error;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Error)]
pub enum Error {
    #[error("this is not a trace: {0}")]
    Foreign(&'static str),
    #[error("the trace has format version {0}, and only version {known} can be read", known = super::limits::MAJOR)]
    Version(u16),
    #[error("the trace is damaged at byte {offset}: {what}")]
    Damaged { offset: u64, what: String },
    #[error("line {line}: {what}")]
    Text { line: u64, what: String },
    #[error("an event cannot be written: {0}")]
    Invalid(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn damaged(offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged {
            offset,
            what: what.into(),
        }
    }
}
