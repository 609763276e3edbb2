//! One configuration of a comparison and what its runs came to.

use super::capture::{Captured, Difference, LastWords};
use super::written::FileDifference;
use crate::policy::Policy;
use crate::report::json::{Configuration, Source};
use crate::trial::Trial;

pub struct Series {
    pub name: String,
    pub policy: Policy,
    pub trials: Vec<Trial>,
    /// How the first output that differed did so.
    pub difference: Option<Difference>,
    /// The same of the first file that did.
    pub file_difference: Option<FileDifference>,
    /// What the first run that failed said last.
    pub last_words: Option<LastWords>,
}

/// The second `plain` is named `plain#2`.
pub fn name(policies: &[Policy]) -> Vec<Series> {
    let name = |index: usize| {
        let policy = policies[index];
        let earlier = policies[..index].iter().filter(|p| **p == policy).count();
        match earlier {
            0 => policy.to_string(),
            _ => format!("{policy}#{}", earlier + 1),
        }
    };
    (0..policies.len())
        .map(|index| Series {
            name: name(index),
            policy: policies[index],
            trials: Vec::new(),
            difference: None,
            file_difference: None,
            last_words: None,
        })
        .collect()
}

/// Two runs of the same configuration, the first one's if possible: what differs between them is noise.
pub fn control(series: &[Series]) -> Option<(usize, usize)> {
    (0..series.len()).find_map(|one| {
        let other = (one + 1..series.len()).find(|&i| series[i].policy == series[one].policy)?;
        Some((one, other))
    })
}

impl Series {
    pub fn add(&mut self, trial: Trial, compared: Compared, captured: &Captured) {
        if !trial.has_succeeded() && self.last_words.is_none() {
            self.last_words = Some(captured.last_words());
        }
        self.difference = self.difference.or(compared.output);
        self.file_difference = self.file_difference.take().or(compared.files);
        self.trials.push(trial);
    }

    pub fn has_failed(&self) -> bool {
        self.trials.iter().any(|trial| !trial.has_succeeded())
    }

    pub fn differs(&self) -> bool {
        self.difference.is_some() || self.file_difference.is_some()
    }

    /// `has_files`: files were to be compared as well.
    pub fn figures(&self, source: Source, has_files: bool) -> Configuration {
        Configuration {
            files_match: has_files.then_some(self.file_difference.is_none()),
            ..Configuration::of(&self.name, &self.trials, self.difference.is_none(), source)
        }
    }
}

/// How a run's output and files differ from the first run's.
#[derive(Default)]
pub struct Compared {
    pub output: Option<Difference>,
    pub files: Option<FileDifference>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_names_are_numbered_and_make_the_control() {
        let series = name(&[Policy::Plain, Policy::Auto, Policy::Plain, Policy::Plain]);
        let names: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["plain", "auto", "plain#2", "plain#3"]);
        assert_eq!(control(&series), Some((0, 2)));
        assert_eq!(control(&name(&[Policy::Plain, Policy::Auto])), None);
    }
}
