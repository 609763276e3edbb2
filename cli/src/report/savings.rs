//! One honest sentence about what was saved and why, from the statistics blocks.

use super::units;
use crate::statistics_block::Statistics;

/// "3.90 GB of copies shared their pages, 210 MB of zeros were given back"; none when nothing was.
pub fn reasons(statistics: &Statistics) -> Option<String> {
    let size = |name: &str| statistics.get(name);
    let text = |bytes: u64| units::bytes(bytes as f64);
    let mut parts = Vec::new();
    if size("shared_copy_bytes") > 0 {
        let mut part = format!(
            "{} of copies shared their pages",
            text(size("shared_copy_bytes"))
        );
        if size("private_copy_bytes") > 0 {
            let written = text(size("private_copy_bytes"));
            part = format!("{part} ({written} were written later and copied then)");
        }
        parts.push(part);
    }
    if size("lazy_zero_bytes") > 0 {
        parts.push(format!(
            "{} of zeros were never written",
            text(size("lazy_zero_bytes"))
        ));
    }
    if size("zero_reclaimed_bytes") > 0 {
        let zeros = text(size("zero_reclaimed_bytes"));
        parts.push(format!("{zeros} of all-zero pages were given back"));
    }
    let returned = size("purged_bytes") + size("decayed_bytes");
    if parts.is_empty() && returned > 0 {
        parts.push(format!("{} of freed pages were given back", text(returned)));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Why a preloaded run has nothing to show.
pub fn no_reason(statistics: &Statistics) -> &'static str {
    if statistics.processes == 0 {
        "the library was not loaded by the command"
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
            ("zero_reclaimed_bytes", 5_000),
        ]);
        assert_eq!(
            reasons(&found).as_deref(),
            Some("1.00 MB of zeros were never written, 5.00 kB of all-zero pages were given back")
        );
    }

    #[test]
    fn says_why_nothing_happened() {
        assert_eq!(reasons(&Statistics::default()), None);
        assert!(no_reason(&Statistics::default()).contains("not loaded"));
        let found = statistics(&[("blocks_allocated", 2)]);
        assert_eq!(no_reason(&found), "no copies of whole pages were seen");
    }
}
