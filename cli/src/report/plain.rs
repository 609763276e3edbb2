//! Texts of others on a terminal.

/// Names in a trace may hold anything: line ends, and what a terminal takes for commands. Each control character becomes one that
/// shows where it was.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_commands() {
        assert_eq!(plain("f (é.c:1)"), "f (é.c:1)");
        assert_eq!(
            plain("\u{1b}[2J\nx\u{9b}1m"),
            "\u{fffd}[2J\u{fffd}x\u{fffd}1m"
        );
    }
}
