//! Whether what one trace teaches can be said of another: their sites must be told apart alike, and be of one program.

use std::path::Path;

use trace_format::Properties;

use crate::failure::Failure;

/// How a trace tells its sites apart, in words for users.
pub fn manner(properties: &Properties) -> &'static str {
    let site = properties.get("site").unwrap_or_default();
    match properties.get("runtime") {
        Some("jvm") => "the objects of a JVM",
        _ if !site.starts_with("stack") => "recorded without --stacks",
        _ if properties.get("stacks") == Some("unwind-tables") => "recorded with --stacks",
        _ => "recorded with stacks by frame pointers",
    }
}

/// Are the sites of both told apart in the same way?
pub fn are_alike(one: &Properties, other: &Properties) -> bool {
    manner(one) == manner(other)
}

/// Of traces whose sites cannot be the same.
pub fn check(training: (&Path, &Properties), testing: (&Path, &Properties)) -> Result<(), Failure> {
    if are_alike(training.1, testing.1) {
        return Ok(());
    }
    let (one, other) = (manner(training.1), manner(testing.1));
    let (train, test) = (training.0.display(), testing.0.display());
    Err(Failure::new(
        format!("what {train} teaches cannot be said of {test}: the first is {one}, the second {other}"),
        format!("two recordings of one program, made alike; pagewise trace show --properties {train} says how it was made"),
    )
    .kept("nothing was changed"))
}

/// Traces of different programs have no site in common.
pub fn check_known(known: usize, training: &Path, testing: &Path) -> Result<(), Failure> {
    if known > 0 {
        return Ok(());
    }
    Err(Failure::new(
        format!(
            "{} and {} have no call site in common",
            training.display(),
            testing.display()
        ),
        "--train with a trace of the same build of the same program",
    )
    .kept("nothing was changed"))
}
