//! One honest sentence about what was saved and why, from the statistics blocks.

use super::units;
use crate::policy::Policy;
use crate::statistics_block::Statistics;

/// Less than this is not worth a word beside something larger.
const WORTH_SAYING: u64 = 1_000_000;

/// Each thing that saved bytes, and how many.
pub fn parts(statistics: &Statistics) -> Vec<(u64, String)> {
    let mut parts = vec![
        (statistics.get("shared_copy_bytes"), shared(statistics)),
        (
            statistics.get("lazy_zero_bytes"),
            "of zeros were never written".to_owned(),
        ),
        (
            statistics.get("zero_reclaimed_bytes"),
            "of all-zero pages were given back".to_owned(),
        ),
        (
            statistics.get("collections_asked_bytes"),
            "of garbage were collected at our request".to_owned(),
        ),
    ];
    let largest = parts.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
    parts.retain(|(bytes, _)| *bytes > 0 && *bytes >= WORTH_SAYING.min(largest));
    parts
}

/// "3.90 GB of copies shared their pages, 210 MB of all-zero pages were given back"; none when nothing was.
fn reasons(statistics: &Statistics) -> Option<String> {
    let said: Vec<String> = parts(statistics)
        .iter()
        .map(|(bytes, what)| format!("{} {what}", units::bytes(*bytes as f64)))
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What was saved and why, or why nothing was, in the words of one clause.
pub fn clause(policy: Policy, statistics: &Statistics) -> String {
    match (reasons(statistics), policy.uncounted()) {
        (Some(reasons), _) => reasons,
        (None, Some(effect)) if statistics.processes > 0 => effect.to_owned(),
        _ if !is_at_work(statistics) => {
            format!(
                "Pagewise was not at work, so what it would save is not known: {}",
                no_reason(statistics)
            )
        }
        _ => format!("nothing was saved: {}", no_reason(statistics)),
    }
}

/// Else nothing follows for a run in which it is.
fn is_at_work(statistics: &Statistics) -> bool {
    let has_own_malloc =
        statistics.get("fallback_allocator") > 0 && statistics.get("blocks_allocated") == 0;
    statistics.processes > 0 && statistics.get("fallback_seccomp") == 0 && !has_own_malloc
}

fn shared(statistics: &Statistics) -> String {
    let shared = "of copies shared their pages";
    match statistics.get("private_copy_bytes") {
        written if written < WORTH_SAYING => shared.to_owned(),
        written => format!(
            "{shared} ({} were written later and copied then)",
            units::bytes(written as f64)
        ),
    }
}

/// Why a preloaded run has nothing to show.
fn no_reason(statistics: &Statistics) -> &'static str {
    if statistics.get("fallback_seccomp") > 0 {
        "the command put a seccomp filter into force, and all was left to the C library from then on \
         (--options seccomp=ignore takes the risk)"
    } else if statistics.processes == 0 {
        "the library was not loaded by the command, or a seccomp filter was in force where it started \
         (--options seccomp=ignore takes the risk)"
    } else if statistics.get("fallback_allocator") > 0 && statistics.get("blocks_allocated") == 0 {
        "the program brings a malloc of its own, to which all memory is left"
    } else if statistics.get("blocks_allocated") == 0 {
        "there were no large blocks to serve"
    } else if statistics.get("copies_seen") == 0 {
        "no copies of whole pages were seen"
    } else {
        "no copies were worth sharing"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics_block::tests::bytes;

    fn statistics(values: &[(&str, u64)]) -> Statistics {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("pagewise-1.stats"), bytes(values)).expect("block");
        Statistics::read_folder(folder.path()).expect("folder")
    }

    #[test]
    fn says_what_happened_and_no_more() {
        let found = statistics(&[("shared_copy_bytes", 3_900_000_000)]);
        assert_eq!(
            reasons(&found).as_deref(),
            Some("3.90 GB of copies shared their pages")
        );
        let found = statistics(&[
            ("lazy_zero_bytes", 1_000_000),
            ("zero_reclaimed_bytes", 5_000_000),
            ("shared_copy_bytes", 4_096),
        ]);
        assert_eq!(
            reasons(&found).as_deref(),
            Some("1.00 MB of zeros were never written, 5.00 MB of all-zero pages were given back")
        );
    }

    #[test]
    fn says_why_nothing_happened() {
        let none = clause(Policy::Auto, &Statistics::default());
        assert!(none.starts_with("Pagewise was not at work"), "{none}");
        let none = clause(Policy::Auto, &statistics(&[("blocks_allocated", 1)]));
        assert!(none.starts_with("nothing was saved: no copies"), "{none}");
        assert!(no_reason(&Statistics::default()).contains("not loaded"));
        let found = statistics(&[("fallback_allocator", 1)]);
        assert!(no_reason(&found).contains("a malloc of its own"));
        let found = statistics(&[("blocks_allocated", 2)]);
        assert_eq!(no_reason(&found), "no copies of whole pages were seen");
    }
}
