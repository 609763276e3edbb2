//! An error as the user meets it: what is wrong, what was kept safe, what to type next.

use std::fmt;

/// Pagewise itself could not do what it was asked for.
pub const EXIT_PAGEWISE: u8 = 125;
/// The command exists and cannot be executed.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub const EXIT_NOT_FOUND: u8 = 127;

#[derive(Debug)]
pub struct Failure {
    pub what: String,
    pub kept: String,
    pub next: String,
    pub exit: u8,
}

impl Failure {
    pub fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            kept: "nothing was run and nothing was changed".into(),
            next: next.into(),
            exit: EXIT_PAGEWISE,
        }
    }

    pub fn kept(self, kept: impl Into<String>) -> Self {
        Self {
            kept: kept.into(),
            ..self
        }
    }

    pub fn exit(self, exit: u8) -> Self {
        Self { exit, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}\n  try: {}", self.what, self.kept, self.next)
    }
}

impl std::error::Error for Failure {}
