//! One honest sentence about what was saved and why, from the statistics blocks.

use std::io;

use super::units;
use crate::policy::Policy;
use crate::statistics_block::Statistics;

/// Less than this is not worth a word beside something larger.
const WORTH_SAYING: u64 = 1_000_000;
/// Less than one part in so many of what the large blocks held is little.
const LITTLE: u64 = 20;

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
    if let Some(why) = refused(statistics) {
        return format!("what was saved is not known: {why}");
    }
    match (reasons(statistics), policy.uncounted()) {
        (Some(reasons), _) if is_little(statistics) => {
            format!(
                "little was saved, {reasons}: {}",
                no_reason(statistics, policy)
            )
        }
        (Some(reasons), _) => reasons,
        (None, Some(effect)) if statistics.processes > 0 => effect.to_owned(),
        _ if !is_at_work(statistics) => {
            format!(
                "Pagewise was not at work, so what it would save is not known: {}",
                no_reason(statistics, policy)
            )
        }
        _ => format!("nothing was saved: {}", no_reason(statistics, policy)),
    }
}

/// Why the processes could not tell.
fn refused(statistics: &Statistics) -> Option<&'static str> {
    match statistics.refused? {
        _ if statistics.processes > 0 => None,
        io::ErrorKind::FileTooLarge => {
            Some("no file can be written here (try: ulimit -f unlimited)")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("there is no room for a small file (df -h; or TMPDIR=/a/folder/with/room)")
        }
        _ => Some("no small file can be written (TMPDIR=/a/folder/of/yours)"),
    }
}

/// A sum that would read as success, of a program that takes as much memory as before.
fn is_little(statistics: &Statistics) -> bool {
    // Whatever runs under the library may write any figures into its block.
    let parts = parts(statistics).into_iter().map(|(bytes, _)| bytes);
    let saved = parts.fold(0, u64::saturating_add);
    saved < statistics.get("peak_live_bytes") / LITTLE
}

/// Else nothing follows for a run in which it is.
fn is_at_work(statistics: &Statistics) -> bool {
    let has_own_malloc =
        statistics.get("fallback_allocator") > 0 && statistics.get("blocks_allocated") == 0;
    statistics.processes > 0
        && statistics.get("fallback_seccomp") == 0
        && statistics.get("fallback_page_size") == 0
        && !has_own_malloc
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

/// Why a preloaded run has nothing, or little, to show.
fn no_reason(statistics: &Statistics, policy: Policy) -> &'static str {
    if statistics.get("fallback_seccomp") > 0 {
        "the command put a seccomp filter into force, and all was left to the C library from then on \
         (--options seccomp=ignore takes the risk)"
    } else if statistics.processes == 0 {
        "the library was not loaded by the command, or a seccomp filter was in force where it started \
         (--options seccomp=ignore takes the risk)"
    } else if statistics.get("fallback_page_size") > 0 {
        "Pagewise is for kernels with pages of 4 KB, and this one's are larger (getconf PAGESIZE)"
    } else if statistics.get("fallback_allocator") > 0 && statistics.get("blocks_allocated") == 0 {
        "the program brings a malloc of its own, to which all memory is left"
    } else if let Some(obstacle) = obstacle(statistics) {
        obstacle
    } else if statistics.get("blocks_allocated") == 0 {
        "there were no large blocks to serve"
    } else if statistics.get("copies_seen") > 0 {
        "the rest was new data, or copies not worth sharing"
    } else if policy == Policy::Auto && statistics.get("collections_seen") == 0 {
        "no copies of whole pages were seen (a server of many small blocks, such as Ruby's: try --policy general)"
    } else {
        "no copies of whole pages were seen"
    }
}

/// What kept copies from being shared that otherwise would have been.
fn obstacle(statistics: &Statistics) -> Option<&'static str> {
    if statistics.get("copies_plain_fallback") == 0 {
        return None;
    }
    let found = [
        (
            "fallback_threads",
            "while a thread that Pagewise does not know runs, a copy is a copy (progress bars, thread pools: without them \
             it can share)",
        ),
        (
            "fallback_file_size",
            "a limit on the size of files holds for shared pages too (pagewise doctor says what to type)",
        ),
        (
            "fallback_map_count",
            "sharing paused, as the process may have no more mappings (pagewise doctor --all shows vm.max_map_count)",
        ),
    ];
    found
        .into_iter()
        .find_map(|(name, words)| (statistics.get(name) > 0).then_some(words))
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
        let why = |found: &Statistics| no_reason(found, Policy::Auto);
        assert!(why(&Statistics::default()).contains("not loaded"));
        let found = statistics(&[("fallback_allocator", 1)]);
        assert!(why(&found).contains("a malloc of its own"));
        let found = statistics(&[("fallback_page_size", 1)]);
        assert!(why(&found).contains("pages of 4 KB"));
        let none = clause(Policy::Auto, &found);
        assert!(none.starts_with("Pagewise was not at work"), "{none}");
        let found = statistics(&[("blocks_allocated", 2)]);
        assert!(why(&found).starts_with("no copies of whole pages were seen"));
    }

    #[test]
    fn a_server_is_told_of_the_policy_for_servers_and_r_is_not() {
        let server = clause(Policy::Auto, &statistics(&[("blocks_allocated", 3)]));
        assert!(server.contains("--policy general"), "{server}");
        let r = statistics(&[("blocks_allocated", 3), ("collections_seen", 20)]);
        let r = clause(Policy::Auto, &r);
        assert!(!r.contains("general"), "{r}");
    }

    #[test]
    fn threads_that_kept_copies_from_being_shared_are_named() {
        let mut counts = vec![
            ("blocks_allocated", 48),
            ("copies_seen", 12),
            ("lazy_zero_bytes", 962_560),
            ("peak_live_bytes", 1_762_390_016),
            ("fallback_threads", 23),
        ];
        let without = clause(Policy::Auto, &statistics(&counts));
        assert!(
            without.starts_with("little was saved, 963 kB of"),
            "{without}"
        );
        assert!(!without.contains("thread"), "{without}");
        counts.push(("copies_plain_fallback", 10));
        let beside = clause(Policy::Auto, &statistics(&counts));
        assert!(
            beside.contains("while a thread that Pagewise does not know runs"),
            "{beside}"
        );
    }

    #[test]
    fn absurd_figures_are_no_trouble() {
        let absurd = statistics(&[
            ("shared_copy_bytes", u64::MAX),
            ("lazy_zero_bytes", u64::MAX),
            ("peak_live_bytes", u64::MAX),
        ]);
        let said = clause(Policy::Auto, &absurd);
        assert!(said.contains("of copies shared their pages"), "{said}");
    }

    #[test]
    fn little_is_measured_against_what_the_blocks_held() {
        let mut counts = vec![
            ("blocks_allocated", 493),
            ("copies_seen", 8),
            ("shared_copy_bytes", 4_124_672),
            ("peak_live_bytes", 3_130_744_832),
        ];
        let little = clause(Policy::Auto, &statistics(&counts));
        assert_eq!(
            little,
            "little was saved, 4.12 MB of copies shared their pages: the rest was new data, or copies not worth sharing"
        );
        counts.pop();
        counts.push(("peak_live_bytes", 40_000_000));
        let enough = clause(Policy::Auto, &statistics(&counts));
        assert_eq!(enough, "4.12 MB of copies shared their pages");
    }
}
