//! What is said beside the results.

use std::io::Write;

/// One line on standard error. That it may be closed is no reason to fail.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "pagewise: {text}");
}
