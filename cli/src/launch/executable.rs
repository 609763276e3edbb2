//! Which file a command name stands for, as execvp(3) finds it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::failure::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure};

/// The program of a command and its arguments.
pub fn of(command: &[OsString]) -> Result<PathBuf, Failure> {
    let Some(name) = command.first() else {
        return Err(not_found(OsStr::new("")));
    };
    find(name).map_err(|failure| match failure.exit {
        EXIT_NOT_FOUND if is_before_dashes(command) => misplaced(name),
        _ => failure,
    })
}

/// A word that was to be an option's value.
fn misplaced(name: &OsStr) -> Failure {
    let name = name.to_string_lossy();
    Failure::new(
        format!("command not found: {name}"),
        format!("{name} stands before --, where options are: values in a list have commas between them, and no spaces"),
    )
    .exit(EXIT_NOT_FOUND)
}

/// Has it the -- within it that the command line meant to stand before it?
fn is_before_dashes(command: &[OsString]) -> bool {
    let is_path = command[0].as_bytes().contains(&b'/');
    !is_path && command.iter().any(|word| word == "--") && !is_after_dashes(command)
}

/// Does it begin where the command line says that options end?
fn is_after_dashes(command: &[OsString]) -> bool {
    let words = env::args_os().skip_while(|word| word != "--").skip(1);
    words.count() == command.len()
}

pub fn find(command: &OsStr) -> Result<PathBuf, Failure> {
    if command.as_bytes().contains(&b'/') {
        return check(Path::new(command));
    }
    let candidates = in_path(command);
    let executable = candidates.iter().find(|path| is_executable(path));
    match (executable, candidates.first()) {
        (Some(path), _) => Ok(path.clone()),
        (None, Some(path)) => check(path),
        (None, None) => Err(not_found(command)),
    }
}

/// Files of that name.
fn in_path(name: &OsStr) -> Vec<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .filter(|path| path.is_file())
        .collect()
}

fn check(path: &Path) -> Result<PathBuf, Failure> {
    let metadata = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => not_found(path.as_os_str()),
        _ => not_executable(path, &error.to_string()),
    })?;
    if metadata.is_dir() {
        let name = path.display();
        let advice = format!("ls {name}: a program in it is named with its folder, after --");
        let what = format!("cannot execute {name}: it is a folder");
        return Err(Failure::new(what, advice).exit(EXIT_NOT_EXECUTABLE));
    }
    if !is_executable(path) {
        return Err(not_executable(path, "permission denied"));
    }
    Ok(path.to_owned())
}

fn is_executable(path: &Path) -> bool {
    access(path, AccessFlags::X_OK).is_ok()
}

fn not_found(command: &OsStr) -> Failure {
    let name = command.to_string_lossy();
    let advice = run_by_its_interpreter(Path::new(command)).unwrap_or_else(|| {
        match Path::new(command)
            .parent()
            .map(|folder| folder.display().to_string())
        {
            Some(folder) if !folder.is_empty() => {
                format!("ls {folder}: what is there, and is it built?")
            }
            _ if name.is_empty() => "a command after --: the first word there is empty".to_owned(),
            _ => with_its_version(&name)
                .unwrap_or_else(|| format!("command -v {name}, and give the full path after --")),
        }
    });
    Failure::new(format!("command not found: {name}"), advice).exit(EXIT_NOT_FOUND)
}

/// Debian has python3 and no python, for one.
fn with_its_version(name: &str) -> Option<String> {
    let versioned = format!("{name}3");
    let is_here = in_path(OsStr::new(&versioned))
        .iter()
        .any(|path| is_executable(path));
    is_here.then(|| format!("{versioned}, which is here"))
}

fn not_executable(path: &Path, why: &str) -> Failure {
    let name = path.display();
    let advice = run_by_its_interpreter(path)
        .unwrap_or_else(|| format!("ls -ld {name}; chmod +x {name} if it is a program of yours"));
    Failure::new(format!("cannot execute {name}: {why}"), advice).exit(EXIT_NOT_EXECUTABLE)
}

/// What to put after `--` where a script was named in place of the program that runs it.
fn run_by_its_interpreter(script: &Path) -> Option<String> {
    let interpreter = match script.extension()?.to_str()? {
        "R" | "r" => "Rscript",
        "py" => "python3",
        "rb" => "ruby",
        "php" => "php",
        _ => return None,
    };
    let name = script.display();
    script
        .is_file()
        .then(|| format!("{interpreter} {name}, after --: it is a script, not a program"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_in_path_and_by_path() {
        assert!(find(OsStr::new("sh")).is_ok());
        assert!(find(OsStr::new("/bin/sh")).is_ok());
    }

    #[test]
    fn tells_missing_from_forbidden() {
        let exit = |name: &str| find(OsStr::new(name)).map_err(|failure| failure.exit);
        assert_eq!(exit("no-such-command-here"), Err(EXIT_NOT_FOUND));
        assert_eq!(exit("/no/such/file"), Err(EXIT_NOT_FOUND));
        assert_eq!(exit("/tmp"), Err(EXIT_NOT_EXECUTABLE));
        assert_eq!(exit("/etc/passwd"), Err(EXIT_NOT_EXECUTABLE));
        assert_eq!(exit("/etc/passwd/x"), Err(EXIT_NOT_EXECUTABLE));
        assert_eq!(exit(""), Err(EXIT_NOT_FOUND));
    }

    #[test]
    fn a_word_before_the_dashes_is_no_command() {
        let next = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            of(&words).expect_err("no such command").next
        };
        assert!(next(&["no-such-command", "--", "true"]).contains("before --"));
        assert!(next(&["no-such-command", "true"]).contains("command -v"));
        assert!(next(&[""]).contains("is empty"));
    }

    #[test]
    fn a_folder_is_not_to_be_made_executable() {
        let failure = find(OsStr::new("/tmp")).expect_err("a folder");
        assert!(failure.what.contains("it is a folder"), "{failure}");
        assert!(failure.next.starts_with("ls /tmp"), "{failure}");
        assert!(!failure.next.contains("chmod"), "{failure}");
    }

    #[test]
    fn names_the_interpreter_of_a_script_that_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("my.R");
        let advice = |path: &Path| find(path.as_os_str()).map_err(|failure| failure.next);
        let named = |advice: Result<_, String>| advice.is_err_and(|text| text.contains("Rscript"));
        assert!(!named(advice(&script)));
        std::fs::write(&script, "1").expect("a script");
        assert!(named(advice(&script)));
    }
}
