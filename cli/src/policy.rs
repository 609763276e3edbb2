//! The words for which mechanisms serve large blocks.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Without Pagewise
    Plain,
    /// Large blocks straight from the kernel, nothing else
    Direct,
    /// direct, with the kernel's page merging at 100 pages per 20 ms (root only)
    Ksm,
    /// direct, with the kernel's page merging at 1000 pages per 20 ms (root only)
    KsmAggressive,
    /// Every copy of 8 KB and more shares pages, zero pages are given back at every collection
    Share,
    /// Large pages
    Huge,
    /// What pays, decided as the program runs
    Auto,
    /// Every block of the program, small ones as well: for servers with threads
    General,
}

impl Policy {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Direct => "direct",
            Self::Ksm => "ksm",
            Self::KsmAggressive => "ksm-aggressive",
            Self::Share => "share",
            Self::Huge => "huge",
            Self::Auto => "auto",
            Self::General => "general",
        }
    }

    pub fn is_preloaded(self) -> bool {
        self != Self::Plain
    }

    /// What a policy does that no statistics block counts.
    pub fn uncounted(self) -> Option<&'static str> {
        match self {
            Self::Direct => Some("large blocks go back to the kernel as soon as they are freed"),
            Self::Ksm | Self::KsmAggressive => {
                Some("the kernel merges equal pages, and freed blocks go back to it at once")
            }
            Self::General => {
                Some("all its blocks were ours, and empty memory went back to the kernel")
            }
            _ => None,
        }
    }

    /// Pages that ksmd is to look at every 20 ms, for the policies that use it.
    pub fn merged_pages_per_round(self) -> Option<u32> {
        match self {
            Self::Ksm => Some(100),
            Self::KsmAggressive => Some(1000),
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(name, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_option_string() {
        let names: Vec<&str> = Policy::value_variants().iter().map(|p| p.name()).collect();
        assert_eq!(
            names,
            [
                "plain",
                "direct",
                "ksm",
                "ksm-aggressive",
                "share",
                "huge",
                "auto",
                "general"
            ]
        );
        for policy in Policy::value_variants() {
            assert_eq!(policy.name().parse(), Ok(*policy));
        }
    }
}
