//! Colour, only where a person looks at it.

use std::io::IsTerminal;

/// On a terminal, unless NO_COLOR (no-color.org) or a terminal without colours says otherwise.
pub fn allows_colour(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb
}
