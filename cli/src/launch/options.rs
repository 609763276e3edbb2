//! What PAGEWISE_OPTIONS may hold: checked here before the command starts, since the library can only warn. The
//! library reads the string by the table in core/src/policy/options.c; a test keeps the two equal.

use thiserror::Error;

use super::environment::{merge_options, pairs};

/// A value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Words(&'static [&'static str]),
    /// Bytes, with an optional K, M or G.
    Size {
        lowest: u64,
        highest: u64,
    },
    Number {
        lowest: u64,
        highest: u64,
    },
    /// A word, or a number.
    Filters {
        highest: u64,
    },
    Folder,
}

const SWITCH: Values = Values::Words(&["off", "on", "0", "1"]);
const SMALLEST: u64 = 8 << 10;

const OPTIONS: &[(&str, Values)] = &[
    (
        "policy",
        Values::Words(&[
            "plain",
            "direct",
            "ksm",
            "ksm-aggressive",
            "share",
            "huge",
            "auto",
            "general",
        ]),
    ),
    (
        "threshold",
        Values::Size {
            lowest: SMALLEST,
            highest: 1 << 30,
        },
    ),
    ("slack", number(100)),
    ("decay", number(3600)),
    ("brief", number(3_600_000)),
    ("share", Values::Words(&["off", "lazy", "always"])),
    ("mmapcopy", SWITCH),
    ("zero", Values::Words(&["off", "backoff", "always"])),
    ("collect", Values::Words(&["auto", "burst"])),
    ("modules", Values::Words(&["known", "r", "all"])),
    ("pool", SWITCH),
    ("freeze", Values::Words(&["off", "auto", "check"])),
    ("relieve", Values::Words(&["off", "short"])),
    ("huge", Values::Words(&["off", "on", "always", "0", "1"])),
    ("early", SWITCH),
    ("huge-min", ANY_SIZE),
    ("huge-max", ANY_SIZE),
    (
        "pages",
        Values::Words(&["transparent", "ordinary", "hugetlb", "hugetlb-1g"]),
    ),
    ("lock", SWITCH),
    ("verbose", SWITCH),
    ("seccomp", Values::Filters { highest: 1000 }),
    ("statistics", Values::Folder),
    ("report", Values::Folder),
    (
        "limit",
        Values::Size {
            lowest: 1 << 20,
            highest: u64::MAX,
        },
    ),
    ("keeper", SWITCH),
];

const ANY_SIZE: Values = Values::Size {
    lowest: SMALLEST,
    highest: u64::MAX,
};

const fn number(highest: u64) -> Values {
    Values::Number { lowest: 0, highest }
}

/// What is wrong with one `name=value`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Mistake {
    #[error("no such option: {name}")]
    Name {
        name: String,
        nearest: Option<String>,
    },
    #[error("no such {name}: {value}")]
    Word {
        name: String,
        value: String,
        nearest: Option<String>,
        words: String,
    },
    #[error("{name} cannot be {value}: {range}")]
    Range {
        name: String,
        value: String,
        range: String,
    },
    #[error("{name} has no value")]
    NoValue { name: String, values: String },
}

impl Mistake {
    /// What to write in its place.
    pub fn advice(&self) -> String {
        match self {
            Self::Name {
                nearest: Some(name),
                ..
            } => name.clone(),
            Self::Name { nearest: None, .. } => {
                let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
                format!("one of {}", names.join(" "))
            }
            Self::Word {
                name,
                nearest: Some(word),
                ..
            } => format!("{name}={word}"),
            Self::Word { name, words, .. } => format!("{name}= one of {words}"),
            Self::Range { name, range, .. } => format!("{name}= {range}"),
            Self::NoValue { name, values } => format!("{name}= {values}"),
        }
    }
}

/// The first mistake among the pairs of `options` that `stronger` does not override.
pub fn check(options: &str, stronger: &str) -> Result<(), Mistake> {
    let merged = merge_options(&[options]);
    for (name, value) in pairs(&merged) {
        if pairs(stronger).all(|(other, _)| other != name) {
            check_pair(name, value)?;
        }
    }
    Ok(())
}

fn check_pair(name: &str, value: Option<&str>) -> Result<(), Mistake> {
    let Some((_, values)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
        let names = OPTIONS.iter().map(|(known, _)| *known);
        return Err(Mistake::Name {
            name: name.into(),
            nearest: nearest(name, names),
        });
    };
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Err(Mistake::NoValue {
            name: name.into(),
            values: values.in_words(),
        });
    };
    match values {
        Values::Words(words) if !words.contains(&value) => Err(Mistake::Word {
            name: name.into(),
            value: value.into(),
            nearest: nearest(value, words.iter().copied()),
            words: words.join(" "),
        }),
        values if values.holds(value) => Ok(()),
        values => Err(Mistake::Range {
            name: name.into(),
            value: value.into(),
            range: values.in_words(),
        }),
    }
}

impl Values {
    fn holds(self, value: &str) -> bool {
        match self {
            Self::Words(words) => words.contains(&value),
            Self::Size { lowest, highest } | Self::Number { lowest, highest } => {
                bytes(value).is_some_and(|number| (lowest..=highest).contains(&number))
            }
            Self::Filters { highest } => {
                ["plain", "ignore"].contains(&value)
                    || bytes(value).is_some_and(|number| number <= highest)
            }
            Self::Folder => true,
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::Words(words) => format!("one of {}", words.join(" ")),
            Self::Size { lowest, highest } if highest == u64::MAX => {
                format!("{} or more, in bytes or with K, M or G", size(lowest))
            }
            Self::Size { lowest, highest } => format!(
                "{} to {}, in bytes or with K, M or G",
                size(lowest),
                size(highest)
            ),
            Self::Number { lowest, highest } => format!("{lowest} to {highest}"),
            Self::Filters { highest } => format!("plain, ignore or 0 to {highest}"),
            Self::Folder => "a file or folder".into(),
        }
    }
}

/// As the library reads a number: digits, and a K, M or G.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| digits.parse().ok()).flatten()?;
    number.checked_mul(1 << shift)
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes => format!("{}K", bytes >> 10),
    }
}

/// The name that was most likely meant; none where none is near.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let given = given.to_lowercase();
    names
        .filter(|name| name.len() > 1)
        .map(|name| (strsim::osa_distance(&given, name), name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3).max(1))
        .min()
        .map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(options: &str) -> String {
        check(options, "").expect_err(options).advice()
    }

    #[test]
    fn what_the_library_understands_is_let_through() {
        for options in [
            "",
            " verbose=1 , threshold = 64K",
            "huge-min=8192,huge-max=3G",
            "seccomp=ignore",
            "seccomp=3,decay=0,brief=3600000",
            "statistics=/a folder",
            "modules=r",
        ] {
            assert_eq!(check(options, ""), Ok(()), "{options}");
        }
    }

    #[test]
    fn the_nearest_name_is_given() {
        assert_eq!(advice("treshold=8K"), "threshold");
        assert_eq!(advice("Verbose=1"), "verbose");
        assert_eq!(advice("hugemin=8M"), "huge-min");
        assert_eq!(advice("policy=plian"), "policy=plain");
        assert_eq!(advice("share=allways"), "share=always");
        assert!(advice("colour=red").starts_with("one of policy threshold"));
        assert!(advice("zero=banana").starts_with("zero= one of off"));
    }

    #[test]
    fn values_and_sizes_are_checked() {
        for wrong in [
            "4K",
            "2G",
            "64KB",
            "64k",
            "-1",
            "1e6",
            "99999999999999999999G",
        ] {
            let mistake = check(&format!("threshold={wrong}"), "").expect_err(wrong);
            let said = mistake.to_string();
            assert!(said.contains(wrong) && said.contains("8K to 1G"), "{said}");
        }
        assert!(advice("decay=1h").contains("0 to 3600"));
        assert!(advice("seccomp=some").contains("plain, ignore or 0 to 1000"));
        assert!(advice("verbose").contains("off on"));
        assert!(advice("huge-min=").contains("8K or more"));
    }

    #[test]
    fn what_is_overridden_does_no_harm() {
        assert_eq!(check("policy=plian,decay=x", "policy=auto,decay=1"), Ok(()));
        assert_eq!(check("decay=x,decay=1", ""), Ok(()));
        assert!(check("decay=x", "policy=auto").is_err());
    }

    /// The words and limits of core/src/policy/options.c, as far as its table spells them out.
    #[test]
    fn the_table_is_the_librarys() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src/policy/options.c");
        let source = std::fs::read_to_string(path).expect("core/src/policy/options.c");
        let (lists, rest) = source
            .split_once("static const struct option known_options[] = {")
            .expect("known_options");
        let table = rest.split_once("\n};").expect("its end").0;
        let words_of = |list: &str| {
            let start = format!("static const struct word {list}[] = {{");
            let body = lists.split_once(&start).expect("a list of words").1;
            let body = body.split_once("};").expect("its end").0;
            let strings = body.split('"').skip(1).step_by(2);
            strings.map(str::to_owned).collect::<Vec<String>>()
        };
        let entries: Vec<&str> = table.lines().filter(|line| line.contains('{')).collect();
        assert_eq!(entries.len(), OPTIONS.len());
        for (entry, (name, values)) in entries.iter().zip(OPTIONS) {
            assert!(entry.contains(&format!("\"{name}\"")), "{name}: {entry}");
            if let Values::Words(words) = values {
                let list = entry.split_once(".words = ").expect("words").1;
                let list = list.split(['}', ',']).next().expect("a name");
                let mut theirs = words_of(list);
                let mut ours = words.to_vec();
                theirs.sort();
                ours.sort_unstable();
                assert_eq!(theirs, ours, "{name}");
            }
            if let Values::Number { highest, .. } | Values::Filters { highest } = values {
                assert!(
                    entry.contains(&format!(" 0, {highest}}}")),
                    "{name}: {entry}"
                );
            }
        }
    }
}
