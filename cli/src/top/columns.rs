//! What is shown of a process, in words.

use crate::processes::Row;
use crate::report::plain::plain;
use crate::report::units;

pub const HEADINGS: [&str; 9] = [
    "process",
    "policy",
    "physical",
    "saved",
    "shared",
    "warm",
    "collections",
    "faults",
    "command",
];

pub fn cells(row: &Row) -> [String; 9] {
    let bytes = |bytes: u64| units::bytes(bytes as f64);
    let has_block = row.policy.is_some();
    let of_block = |text: String| if has_block { text } else { "-".into() };
    [
        row.process.to_string(),
        row.policy.as_deref().map_or("not told".into(), plain),
        bytes(row.physical_bytes),
        row.saved_bytes.map_or("-".into(), bytes),
        of_block(bytes(row.shared_bytes)),
        of_block(bytes(row.warm_bytes)),
        of_block(units::count(row.collections)),
        units::count(row.page_faults),
        plain(match row.command.is_empty() {
            true => &row.name,
            false => &row.command,
        }),
    ]
}

/// All that is known of one process.
pub fn details(row: &Row) -> Vec<(&'static str, String)> {
    let bytes = |bytes: u64| units::bytes(bytes as f64);
    let mut lines = vec![
        ("process", format!("{} ({})", row.process, plain(&row.name))),
        ("command", plain(&row.command)),
        ("physical", bytes(row.physical_bytes)),
        ("page faults", units::count(row.page_faults)),
    ];
    match &row.policy {
        None => lines.push((
            "statistics",
            "none: started without the option statistics=FOLDER, as LD_PRELOAD alone does".into(),
        )),
        Some(policy) => lines.extend([
            ("policy", plain(policy)),
            (
                "saved",
                row.saved_bytes.map_or(
                    "not known: a fork's child shares with its parent".into(),
                    bytes,
                ),
            ),
            ("blocks in use", bytes(row.live_bytes)),
            ("of these shared", bytes(row.shared_bytes)),
            ("snapshots", bytes(row.snapshot_bytes)),
            ("warm, free", bytes(row.warm_bytes)),
            (
                "collections",
                format!(
                    "{} seen, {} asked for",
                    units::count(row.collections),
                    units::count(row.collections_asked)
                ),
            ),
        ]),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_block_is_not_one_that_saves_nothing() {
        let row = Row {
            process: 7,
            name: "R".into(),
            physical_bytes: 5_000_000,
            ..Row::default()
        };
        let [process, policy, physical, saved, shared, .., command] = cells(&row);
        assert_eq!([process, physical, command], ["7", "5.00 MB", "R"]);
        assert_eq!([policy, saved, shared], ["not told", "-", "-"]);
        assert!(details(&row).iter().any(|(name, _)| *name == "statistics"));
    }

    /// Root looks at everybody's processes, and each of them writes its own block.
    #[test]
    fn no_text_of_a_process_is_a_command_to_the_terminal() {
        let hostile = || "\u{1b}[2J".to_owned();
        let row = Row {
            name: hostile(),
            command: hostile(),
            policy: Some(hostile()),
            ..Row::default()
        };
        let details = details(&row).into_iter().map(|(_, value)| value);
        for text in cells(&row).into_iter().chain(details) {
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
        assert_eq!(cells(&row)[1], "\u{fffd}[2J");
    }
}
