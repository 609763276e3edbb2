//! Where the machine tells of itself.

use std::path::{Path, PathBuf};

/// The files of /proc and /sys, or of a folder that stands for them in tests.
pub struct Files {
    root: PathBuf,
}

impl Files {
    pub fn below(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Is this the machine itself, or a folder that stands for another one?
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn text(&self, path: &str) -> Option<String> {
        let path = self.root.join(path.trim_start_matches('/'));
        Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The chosen word of "always [madvise] never".
    pub fn choice(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A machine made of these files.
    pub fn fake(contents: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let root = tempfile::tempdir().expect("folder");
        for (path, text) in contents {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("file");
        }
        let files = Files::below(root.path());
        (root, files)
    }
}
