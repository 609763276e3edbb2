//! Texts of others on a terminal.

/// Names in a trace may hold anything: line ends, what a terminal takes for commands, and what turns the order of letters around.
/// Each such character becomes one that shows where it was.
pub fn plain(text: &str) -> String {
    text.replace(
        |letter: char| letter.is_control() || turns_around(letter),
        "\u{fffd}",
    )
}

/// Marks, embeddings, overrides and isolates of the Unicode bidirectional algorithm.
fn turns_around(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
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
        assert_eq!(plain("ok\u{202e}c.lived"), "ok\u{fffd}c.lived");
    }
}
