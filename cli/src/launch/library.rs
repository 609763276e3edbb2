//! Where the library that is preloaded lies.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

pub const FILE_NAME: &str = "libpagewise-preload.so";
const VARIABLE: &str = "PAGEWISE_LIBRARY";

/// The library of the environment variable, or the one installed beside this executable.
pub fn find() -> Result<PathBuf, Failure> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return check(Path::new(&path));
    }
    let executable = env::current_exe()
        .map_err(|error| missing(&format!("cannot tell where pagewise itself is: {error}")))?;
    candidates(&executable)
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            missing(&format!(
                "{FILE_NAME} is not in ../lib or ../lib/pagewise beside {}",
                executable.display()
            ))
        })
        .and_then(|path| check(&path))
}

fn candidates(executable: &Path) -> Vec<PathBuf> {
    let Some(prefix) = executable.parent().and_then(Path::parent) else {
        return Vec::new();
    };
    ["lib", "lib/pagewise"]
        .iter()
        .map(|folder| prefix.join(folder).join(FILE_NAME))
        .collect()
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

/// The library, once it is known that it can be loaded.
pub fn find_working() -> Result<PathBuf, Failure> {
    let path = find()?;
    match try_loading(&path, "") {
        Ok(()) => Ok(path),
        Err(problem) => Err(Failure::new(
            format!("the library cannot be loaded: {problem}"),
            "make build, or make install: it wants libpagewise.so beside it; or pagewise doctor",
        )),
    }
}

/// The loader takes a relative path as relative to each process's own folder, and splits the list at
/// spaces and colons.
fn check(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = path
        .canonicalize()
        .map_err(|error| missing(&format!("cannot use {}: {error}", path.display())))?;
    if absolute.to_string_lossy().contains([' ', ':', '\t']) {
        return Err(Failure::new(
            format!(
                "{} cannot be preloaded: the loader splits paths at spaces and colons",
                absolute.display()
            ),
            "install to a folder without them: make install PREFIX=/usr/local",
        ));
    }
    Ok(absolute)
}

fn missing(what: &str) -> Failure {
    Failure::new(
        format!("the library is missing: {what}"),
        format!("make build, or {VARIABLE}=/path/to/{FILE_NAME} pagewise ..."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_beside_the_executable() {
        let found = candidates(Path::new("/usr/bin/pagewise"));
        assert_eq!(
            found,
            [
                Path::new("/usr/lib/libpagewise-preload.so"),
                Path::new("/usr/lib/pagewise/libpagewise-preload.so")
            ]
        );
    }

    #[test]
    fn a_library_that_is_none_is_found_out() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("none.so");
        std::fs::write(&path, "not a library").expect("file");
        assert!(try_loading(&path, "").is_err_and(|problem| problem.contains("preload")));
    }

    #[test]
    fn a_path_with_a_space_is_refused() {
        let folder = tempfile::Builder::new()
            .prefix("a b")
            .tempdir()
            .expect("folder");
        let path = folder.path().join(FILE_NAME);
        std::fs::write(&path, "").expect("file");
        assert!(check(&path).is_err());
        assert!(check(Path::new("/nonexistent/x.so")).is_err());
    }
}
