//! The two variables through which the library is reached: LD_PRELOAD and PAGEWISE_OPTIONS.

use std::env::{self, VarError};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::library::Library;
use crate::failure::Failure;

/// PAGEWISE_OPTIONS as the caller has it; empty where it is not set. What is no text holds no option that is known.
pub fn inherited_options() -> Result<String, Failure> {
    match env::var("PAGEWISE_OPTIONS") {
        Ok(options) => Ok(options),
        Err(VarError::NotPresent) => Ok(String::new()),
        Err(VarError::NotUnicode(options)) => Err(Failure::new(
            format!("PAGEWISE_OPTIONS is no UTF-8: {}", options.display()),
            "unset PAGEWISE_OPTIONS, or names and values of docs/reference/options.md",
        )),
    }
}

/// LD_PRELOAD with the library at `path` before what is there already; another copy of it is replaced, as is
/// what cannot be there beside it.
pub fn preload_list(library: &Library, path: Option<&Path>, existing: Option<&OsStr>) -> OsString {
    let existing = existing.unwrap_or_default().as_bytes();
    let mut parts: Vec<&[u8]> = path.iter().map(|p| p.as_os_str().as_bytes()).collect();
    parts.extend(
        existing
            .split(|byte| b" :\t".contains(byte))
            .filter(|part| !part.is_empty())
            .filter(|part| {
                !library
                    .replaces
                    .iter()
                    .any(|name| part.ends_with(name.as_bytes()))
            }),
    );
    OsString::from_vec(parts.join(&b':'))
}

/// Joins option strings, without the spaces that the library would not understand. Of two values for one name the later
/// one stays, in the later place.
pub fn merge_options(strings: &[&str]) -> String {
    let all: Vec<(&str, Option<&str>)> = strings.iter().flat_map(|one| pairs(one)).collect();
    let is_last = |index: usize| {
        let name = all[index].0;
        !all[index + 1..].iter().any(|(later, _)| *later == name)
    };
    let text = |(name, value): &(&str, Option<&str>)| match value {
        Some(value) => format!("{name}={value}"),
        None => (*name).to_owned(),
    };
    (0..all.len())
        .filter(|&index| is_last(index))
        .map(|index| text(&all[index]))
        .collect::<Vec<_>>()
        .join(",")
}

/// The value of one option, the last one where there are several.
pub fn option_value<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    pairs(options).filter(|(one, _)| *one == name).last()?.1
}

/// Names and values of an option string.
pub fn pairs(options: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let items = options
        .split(',')
        .map(str::trim)
        .filter(|one| !one.is_empty());
    items.map(|item| match item.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (item, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::library::PRELOAD;

    fn list(library: Option<&str>, existing: Option<&str>) -> String {
        preload_list(&PRELOAD, library.map(Path::new), existing.map(OsStr::new))
            .into_string()
            .expect("text")
    }

    #[test]
    fn ours_comes_first() {
        let ours = "/l/libpagewise-preload.so";
        assert_eq!(list(Some(ours), None), ours);
        assert_eq!(
            list(Some(ours), Some("a.so b.so")),
            format!("{ours}:a.so:b.so")
        );
    }

    #[test]
    fn an_inherited_one_is_replaced() {
        let inherited = Some("/old/libpagewise-preload.so:/x.so");
        assert_eq!(list(None, inherited), "/x.so");
        assert_eq!(list(Some("/n.so"), inherited), "/n.so:/x.so");
        let other = Some("/old/libpagewise-general.so /x.so");
        assert_eq!(list(Some("/n.so"), other), "/n.so:/x.so");
    }

    #[test]
    fn later_options_win() {
        let merged = merge_options(&["policy=share,verbose=1", "threshold=8K", "policy=auto,"]);
        assert_eq!(merged, "verbose=1,threshold=8K,policy=auto");
        assert_eq!(merge_options(&["", " a = 1 ", "a=2"]), "a=2");
    }

    #[test]
    fn finds_a_value() {
        assert_eq!(
            option_value("policy=plain, policy = huge", "policy"),
            Some("huge")
        );
        assert_eq!(option_value("policy", "policy"), None);
        assert_eq!(option_value("", "policy"), None);
    }
}
