//! The three lines that answer: does it work here, what holds it back, what to type.

use super::finding::{Finding, State};

/// Without one of these Pagewise does nothing; what else is bad is only in its way.
const NEEDED: [&str; 3] = ["library", "seccomp", "memfd_create"];

pub fn works(findings: &[Finding]) -> bool {
    obstacle(findings).is_none()
}

pub fn lines(findings: &[Finding]) -> [String; 3] {
    let obstacle = obstacle(findings);
    let first = match obstacle {
        None => format!("Pagewise works here: {}.", found(findings, "library")),
        Some(one) => format!("Pagewise does not work here: {}: {}.", one.name, one.found),
    };
    [first, limits(findings, obstacle), next(findings, obstacle)]
}

fn obstacle(findings: &[Finding]) -> Option<&Finding> {
    let is_needed = |one: &&Finding| NEEDED.contains(&one.name) && one.state == State::Bad;
    findings.iter().find(is_needed)
}

fn found<'a>(findings: &'a [Finding], name: &str) -> &'a str {
    let finding = findings.iter().find(|one| one.name == name);
    finding.map_or("", |one| one.found.as_str())
}

fn limits(findings: &[Finding], obstacle: Option<&Finding>) -> String {
    if let Some(one) = obstacle {
        return format!("Why it matters: {}.", one.why);
    }
    let is_limit = |one: &&Finding| matches!(one.state, State::Limited | State::Bad);
    let limits = findings.iter().filter(is_limit);
    let limits: Vec<String> = limits
        .map(|one| format!("{} ({})", one.name, one.found))
        .collect();
    match limits.is_empty() {
        true => "Nothing here holds it back.".into(),
        false => format!("It is held back by: {}.", limits.join(", ")),
    }
}

fn next(findings: &[Finding], obstacle: Option<&Finding>) -> String {
    let details = format!("pagewise doctor --all shows all {} things", findings.len());
    let bad = obstacle.or_else(|| findings.iter().find(|one| one.state == State::Bad));
    // What holds it back in this shell is a matter of one word; what root would have to change is in the list.
    let is_of_the_shell = |one: &&Finding| {
        let command = one.command.as_deref();
        one.state == State::Limited && command.is_some_and(|command| command.starts_with("ulimit"))
    };
    let first = bad.or_else(|| findings.iter().find(is_of_the_shell));
    match first.and_then(|one| one.command.as_deref()) {
        Some(command) => format!("Type: {command}    ({details})"),
        None => {
            format!("Type: pagewise compare -- Rscript my.R    ({details} and how to change them)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &'static str, state: State, found: &str) -> Finding {
        Finding::new(name, state, found, "it is needed").command("do this")
    }

    #[test]
    fn what_works_says_what_to_try() {
        let good = [finding("library", State::Good, "/l.so works")];
        assert!(works(&good));
        let [first, second, third] = lines(&good);
        assert_eq!(first, "Pagewise works here: /l.so works.");
        assert_eq!(second, "Nothing here holds it back.");
        assert!(third.starts_with("Type: pagewise compare -- "), "{third}");
    }

    #[test]
    fn limits_are_named_and_do_not_keep_it_from_working() {
        let limited = [
            finding("library", State::Good, "/l.so works"),
            finding("huge pages", State::Limited, "never"),
            finding("page merging state", State::Bad, "left on"),
        ];
        assert!(works(&limited));
        let [_, second, third] = lines(&limited);
        assert_eq!(
            second,
            "It is held back by: huge pages (never), page merging state (left on)."
        );
        assert!(third.starts_with("Type: do this "), "{third}");
    }

    #[test]
    fn a_limit_of_the_shell_is_what_to_type_first() {
        let limited = |name, command| {
            Finding::new(name, State::Limited, "low", "it is needed").command(command)
        };
        let third = |findings: &[Finding]| lines(findings)[2].clone();
        let of_root = limited("huge pages", "echo madvise | sudo tee /sys/x");
        let of_shell = limited("address space", "ulimit -v unlimited");
        let said = third(&[of_root, of_shell]);
        assert!(said.starts_with("Type: ulimit -v unlimited "), "{said}");
        let said = third(&[limited("huge pages", "echo madvise | sudo tee /sys/x")]);
        assert!(said.starts_with("Type: pagewise compare -- "), "{said}");
    }

    #[test]
    fn what_does_not_work_says_why_and_what_to_type() {
        let bad = [
            finding("library", State::Good, "/l.so works"),
            finding("memfd_create", State::Bad, "denied"),
        ];
        assert!(!works(&bad));
        let [first, second, third] = lines(&bad);
        assert_eq!(first, "Pagewise does not work here: memfd_create: denied.");
        assert_eq!(second, "Why it matters: it is needed.");
        assert!(third.starts_with("Type: do this "), "{third}");
    }
}
