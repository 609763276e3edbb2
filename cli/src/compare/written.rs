//! Files that the runs write, where `--files` asks for it: those that match a pattern and were made or changed by a
//! run. The first run's are kept, for every run writes over those of the one before it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::capture::{Difference, difference};
use crate::failure::Failure;

/// Changes whenever somebody writes to the file, or puts another one into its place.
type Stamp = (u64, u64, i64, i64, i64, i64);

/// What a run did otherwise than the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDifference {
    pub path: PathBuf,
    pub how: Otherwise,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Otherwise {
    Content(Difference),
    /// The first run wrote it, this one did not.
    Missing,
    /// This run wrote it, the first one did not.
    Added,
}

pub struct WrittenFiles {
    patterns: Vec<String>,
    before: BTreeMap<PathBuf, Stamp>,
    /// Copies of what the first run wrote.
    reference: Option<Kept>,
}

struct Kept {
    copies: BTreeMap<PathBuf, PathBuf>,
    _folder: TempDir,
}

impl WrittenFiles {
    pub fn new(patterns: &[String]) -> Result<Self, Failure> {
        for pattern in patterns {
            glob::Pattern::new(pattern).map_err(|error| {
                Failure::new(
                    format!("--files {pattern}: {error}"),
                    "--files 'results/*.csv', in quotes; ** stands for any folders",
                )
            })?;
        }
        Ok(Self {
            patterns: patterns.to_vec(),
            before: BTreeMap::new(),
            reference: None,
        })
    }

    pub fn are_asked_for(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// To be called before each run.
    pub fn look(&mut self) {
        self.before = self.matching();
    }

    /// To be called after each run. The first one's files are what later ones are compared to.
    pub fn compare(&mut self) -> io::Result<Option<FileDifference>> {
        if !self.are_asked_for() {
            return Ok(None);
        }
        let written = self.written();
        match &self.reference {
            Some(first) => first.difference(&written),
            None => {
                self.reference = Some(Kept::of(&written)?);
                Ok(None)
            }
        }
    }

    /// How many files the first run wrote.
    pub fn count(&self) -> usize {
        self.reference.as_ref().map_or(0, |kept| kept.copies.len())
    }

    fn written(&self) -> Vec<PathBuf> {
        let is_written = |(path, stamp): &(PathBuf, Stamp)| self.before.get(path) != Some(stamp);
        let now = self.matching().into_iter().filter(is_written);
        now.map(|(path, _)| path).collect()
    }

    /// What cannot be looked into is passed over, as the shell does.
    fn matching(&self) -> BTreeMap<PathBuf, Stamp> {
        let found = self.patterns.iter().filter_map(|one| glob::glob(one).ok());
        let stamped = |path: PathBuf| Some((path.clone(), stamp(&path)?));
        found.flatten().flatten().filter_map(stamped).collect()
    }
}

/// None: it is no file.
fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((
        file.ino(),
        file.len(),
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    ))
}

impl Kept {
    fn of(written: &[PathBuf]) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("pagewise-").tempdir()?;
        let mut copies = BTreeMap::new();
        for (number, path) in written.iter().enumerate() {
            let copy = folder.path().join(number.to_string());
            fs::copy(path, &copy)?;
            copies.insert(path.clone(), copy);
        }
        Ok(Self {
            copies,
            _folder: folder,
        })
    }

    fn difference(&self, written: &[PathBuf]) -> io::Result<Option<FileDifference>> {
        let otherwise = |path: &PathBuf, how| {
            let path = path.clone();
            Ok(Some(FileDifference { path, how }))
        };
        for (path, copy) in &self.copies {
            if !written.contains(path) {
                return otherwise(path, Otherwise::Missing);
            }
            if let Some(at) = difference(&File::open(copy)?, &File::open(path)?)? {
                return otherwise(path, Otherwise::Content(at));
            }
        }
        match written.iter().find(|path| !self.copies.contains_key(*path)) {
            Some(path) => otherwise(path, Otherwise::Added),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three runs: the first is the reference; how the others differ is the answer.
    fn of_runs(runs: [&dyn Fn(&Path); 3]) -> [Option<Otherwise>; 2] {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path();
        fs::write(path.join("input.csv"), "of the user").expect("file");
        let pattern = path.join("**/*.csv").display().to_string();
        let mut files = WrittenFiles::new(&[pattern]).expect("pattern");
        let mut found = runs.map(|run| {
            files.look();
            run(path);
            files.compare().expect("readable").map(|one| one.how)
        });
        assert_eq!(found[0], None);
        [found[1].take(), found[2].take()]
    }

    fn write(folder: &Path, name: &str, text: &str) {
        // Stamps tell times apart no better than the file system does.
        let path = folder.join(name);
        let _ = fs::remove_file(&path);
        fs::write(path, text).expect("written");
    }

    #[test]
    fn files_that_are_written_again_are_compared() {
        let same = |folder: &Path| write(folder, "out.csv", "1\n2\n");
        let other = |folder: &Path| write(folder, "out.csv", "1\n3\n");
        let difference = Difference { byte: 3, line: 2 };
        let found = of_runs([&same, &same, &other]);
        assert_eq!(found, [None, Some(Otherwise::Content(difference))]);
    }

    #[test]
    fn files_that_come_or_stay_away_are_differences() {
        let one = |folder: &Path| write(folder, "out.csv", "1");
        let two = |folder: &Path| {
            write(folder, "out.csv", "1");
            write(folder, "more.csv", "2");
        };
        let found = of_runs([&one, &|_: &Path| {}, &two]);
        assert_eq!(found, [Some(Otherwise::Missing), Some(Otherwise::Added)]);
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        let refused = WrittenFiles::new(&["a/[".to_owned()]);
        assert!(refused.is_err_and(|failure| failure.what.contains("a/[")));
    }
}
