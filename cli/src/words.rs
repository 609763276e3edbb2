//! Commands as text.

use std::ffi::OsString;

pub fn text_of(words: &[OsString]) -> Vec<String> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    words.iter().map(text).collect()
}

/// Words that a shell takes for these.
pub fn quoted(words: &[String]) -> String {
    let all = words.iter().map(String::as_str);
    shlex::try_join(all).unwrap_or_else(|_| words.join(" "))
}

/// How this command was called, as a shell would take it.
pub fn invocation() -> String {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(own) = words.first_mut() {
        *own = "pagewise".into();
    }
    quoted(&text_of(&words))
}
