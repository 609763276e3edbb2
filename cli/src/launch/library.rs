//! Where the libraries that are preloaded lie.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::spaceless;
use crate::failure::Failure;

/// A library of ours that goes into other programs.
#[derive(Debug)]
pub struct Library {
    pub file_name: &'static str,
    /// Environment variable with another place for it.
    variable: &'static str,
    /// What builds it.
    made_by: &'static str,
    /// Libraries that must not be preloaded beside it: they replace the same functions.
    pub replaces: &'static [&'static str],
}

/// What `run` and `compare` preload.
pub const PRELOAD: Library = Library {
    file_name: "libpagewise-preload.so",
    variable: "PAGEWISE_LIBRARY",
    made_by: "make build",
    replaces: &["libpagewise-preload.so", "libpagewise-general.so"],
};

/// The same, under policy general.
pub const GENERAL: Library = Library {
    file_name: "libpagewise-general.so",
    variable: "PAGEWISE_GENERAL_LIBRARY",
    made_by: "make build",
    replaces: PRELOAD.replaces,
};

/// What `trace record` preloads.
pub const RECORD: Library = Library {
    file_name: "libpagewise-record.so",
    variable: "PAGEWISE_RECORD_LIBRARY",
    made_by: "make build",
    replaces: &["libpagewise-record.so"],
};

/// The agent that `trace record --jvm` adds to JVMs.
pub const JVM_RECORDER: Library = Library {
    file_name: "pagewise-jvm-recorder.jar",
    variable: "PAGEWISE_JVM_RECORDER",
    made_by: "make jvm",
    replaces: &[],
};

impl Library {
    /// The library of the environment variable, or the one installed beside this executable.
    pub fn find(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = env::var_os(self.variable).filter(|path| !path.is_empty()) {
            return self.check(Path::new(&path));
        }
        let executable = env::current_exe().map_err(|error| {
            self.missing(&format!("cannot tell where pagewise itself is: {error}"))
        })?;
        self.candidates(&executable)
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| {
                let what = format!(
                    "{} is not in ../lib or ../lib/pagewise beside {}",
                    self.file_name,
                    executable.display()
                );
                match alone_below(&executable) {
                    Some(root) if self.variable != JVM_RECORDER.variable => Failure::new(
                        format!(
                            "the library is missing: {what}, for cargo installs the command alone"
                        ),
                        format!(
                            "make install-libraries PREFIX={}, in a clone of the same version",
                            root.display()
                        ),
                    ),
                    _ => self.missing(&what),
                }
            })
            .and_then(|path| self.check(&path))
    }

    /// The library as LD_PRELOAD can name it.
    pub fn find_name(&self) -> Result<PathBuf, Failure> {
        name_of(&self.find()?)
    }

    /// The same, once it is known that it can be loaded.
    pub fn find_working(&self) -> Result<PathBuf, Failure> {
        let path = self.find_name()?;
        match try_loading(&path, "") {
            Ok(()) => Ok(path),
            Err(problem) => Err(Failure::new(
                format!("the library cannot be loaded: {problem}"),
                what_is_short(&problem).unwrap_or(
                    "make build, or make install: libraries of ours want each other beside them; or pagewise doctor",
                ),
            )),
        }
    }

    fn candidates(&self, executable: &Path) -> Vec<PathBuf> {
        let Some(prefix) = executable.parent().and_then(Path::parent) else {
            return Vec::new();
        };
        ["lib", "lib/pagewise"]
            .iter()
            .map(|folder| prefix.join(folder).join(self.file_name))
            .collect()
    }

    /// The loader takes a relative path as relative to each process's own folder.
    fn check(&self, path: &Path) -> Result<PathBuf, Failure> {
        path.canonicalize()
            .map_err(|error| self.missing(&format!("cannot use {}: {error}", path.display())))
    }

    fn missing(&self, what: &str) -> Failure {
        Failure::new(
            format!("the library is missing: {what}"),
            format!(
                "{}, or {}=/path/to/{} pagewise ...",
                self.made_by, self.variable, self.file_name
            ),
        )
    }
}

/// The folder below which `cargo install` has put this executable, if it has: it keeps a list there.
fn alone_below(executable: &Path) -> Option<&Path> {
    let root = executable.parent()?.parent()?;
    root.join(".crates.toml").is_file().then_some(root)
}

/// The library at this path as LD_PRELOAD can name it.
pub fn name_of(library: &Path) -> Result<PathBuf, Failure> {
    spaceless::name(library).map_err(|reason| {
        Failure::new(
            format!(
                "{} cannot be preloaded: the loader splits paths at spaces and colons, and {reason}",
                library.display()
            ),
            "TMPDIR=/a/folder/of/yours/without/them pagewise ..., or install to such a folder: make install PREFIX=/usr/local",
        )
    })
}

/// What to type where a program cannot be started at all, by what the C library says of it.
fn what_is_short(problem: &str) -> Option<&'static str> {
    let known = [
        ("Too many open files", "ulimit -n 1024, and the same again"),
        (
            "Resource temporarily unavailable",
            "ulimit -u: how many processes you may have; end some, or raise it",
        ),
        (
            "Cannot allocate memory",
            "ulimit -v unlimited, and the same again",
        ),
    ];
    let found = known.into_iter().find(|(words, _)| problem.contains(words));
    found.map(|(_, next)| next)
}

/// Loads the library into a program that does nothing. One that cannot be loaded would keep the command
/// from starting at all. Returns what the library or the loader said where it failed.
pub fn try_loading(library: &Path, options: &str) -> Result<(), String> {
    let output = Command::new("/bin/true")
        .env("LD_PRELOAD", library)
        .env("PAGEWISE_OPTIONS", options)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && !said.contains("cannot be preloaded") {
        return Ok(());
    }
    Err(said.lines().next().map_or_else(
        || format!("a program that loads it ends with {}", output.status),
        str::to_owned,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_beside_the_executable() {
        let found = PRELOAD.candidates(Path::new("/usr/bin/pagewise"));
        assert_eq!(
            found,
            [
                Path::new("/usr/lib/libpagewise-preload.so"),
                Path::new("/usr/lib/pagewise/libpagewise-preload.so")
            ]
        );
    }

    #[test]
    fn what_cargo_installed_is_known() {
        let root = tempfile::tempdir().expect("folder");
        let executable = root.path().join("bin/pagewise");
        assert_eq!(alone_below(&executable), None);
        std::fs::write(root.path().join(".crates.toml"), "[v1]\n").expect("file");
        assert_eq!(alone_below(&executable), Some(root.path()));
    }

    #[test]
    fn what_a_program_lacks_is_told_from_a_library_that_is_wrong() {
        let next = |said: &str| what_is_short(said).unwrap_or("");
        assert!(next("libx.so: cannot open: Too many open files").contains("ulimit -n"));
        assert!(next("Resource temporarily unavailable (os error 11)").contains("ulimit -u"));
        assert_eq!(what_is_short("wrong ELF class"), None);
    }

    #[test]
    fn a_library_that_is_none_is_found_out() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("none.so");
        std::fs::write(&path, "not a library").expect("file");
        assert!(try_loading(&path, "").is_err_and(|problem| problem.contains("preload")));
    }

    #[test]
    fn a_library_that_is_not_there_is_missing() {
        assert!(PRELOAD.check(Path::new("/nonexistent/x.so")).is_err());
    }
}
