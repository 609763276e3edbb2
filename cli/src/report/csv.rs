//! Texts in the CSV that we write.

/// Spreadsheets take a cell that begins so for a formula, and run it. The wide forms are taken for the others.
const BEGIN_FORMULAS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// A text as a cell by RFC 4180. Names come from the program that was looked at, and whoever opens the file shall not
/// run its formulas: a single quote before makes them text, as OWASP advises. Numbers are none of this function's.
pub fn cell(text: &str) -> String {
    let escaped = text.replace('"', "\"\"");
    if text.starts_with(BEGIN_FORMULAS) {
        format!("\"'{escaped}\"")
    } else if text.contains([',', ';', '"', '\t', '\n', '\r']) {
        format!("\"{escaped}\"")
    } else {
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_text() {
        for (text, expected) in [
            ("=1+2", "\"'=1+2\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
            ("\n=1", "\"'\n=1\""),
            ("＝1", "\"'＝1\""),
            ("=HYPERLINK(\"x\",1)", "\"'=HYPERLINK(\"\"x\"\",1)\""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }

    #[test]
    fn other_texts_are_as_they_were() {
        for (text, expected) in [
            ("", ""),
            ("operator=", "operator="),
            ("/usr/lib/x-1.so", "/usr/lib/x-1.so"),
            ("'=1", "'=1"),
            ("f(int, int)", "\"f(int, int)\""),
            ("a;=1", "\"a;=1\""),
            ("a\n=1", "\"a\n=1\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
