//! What was found, and what to do about it.

use serde::Serialize;

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

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn state_of(findings: &[Finding], name: &str) -> State {
        find(findings, name).state
    }

    pub fn find<'a>(findings: &'a [Finding], name: &str) -> &'a Finding {
        findings
            .iter()
            .find(|finding| finding.name == name)
            .unwrap_or_else(|| panic!("no finding {name}"))
    }
}
