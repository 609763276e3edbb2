//! Libraries in folders that LD_PRELOAD cannot name.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{errors, libraries, pagewise, read_json, text};
use tempfile::TempDir;

/// A folder with a library in `a b`, and a place for links.
struct Setting {
    folder: TempDir,
    library: PathBuf,
    /// By which the library is to be reached.
    name: PathBuf,
}

impl Setting {
    fn new(library: &Path, file_name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir(path.join("a b")).unwrap();
        fs::create_dir(path.join("runtime")).unwrap();
        let own = path.join("a b").join(file_name);
        fs::copy(library, &own).unwrap();
        let links = format!("runtime/pagewise-{}", nix::unistd::geteuid());
        Self {
            folder,
            library: own,
            name: path.join(links).join("1").join(file_name),
        }
    }

    fn stand_in() -> Self {
        Self::new(common::stand_in(), "libpagewise-preload.so")
    }

    fn pagewise(&self) -> Command {
        let mut command = pagewise();
        command
            .env("PAGEWISE_LIBRARY", &self.library)
            .env("XDG_RUNTIME_DIR", self.path("runtime"));
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[test]
fn a_command_is_run_and_compared() {
    let setting = Setting::stand_in();
    let json = setting.path("x.json");
    let output = setting
        .pagewise()
        .args(["run", "--quiet", "--json"])
        .arg(&json)
        .args(["--", "sh", "-c", "echo $LD_PRELOAD"])
        .output()
        .unwrap();
    assert_eq!(text(&output).trim_end(), setting.name.to_str().unwrap());
    assert_eq!(errors(&output), "");
    assert!(read_json(&json)["statistics"]["processes"].as_u64() >= Some(1));

    let output = setting
        .pagewise()
        .args(["compare", "--runs", "1", "--json"])
        .arg(&json)
        .args(["--", "sh", "-c", "true"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(read_json(&json)["configurations"][1]["preloaded"], true);
}

#[test]
fn what_outlives_the_command_starts_programs_with_the_library() {
    let setting = Setting::stand_in();
    let script = "cd \"$0\" && (until [ -e go ] || [ ! -d \"$0\" ]; do sleep 0.05; done; \
                  grep -c libpagewise-preload.so /proc/self/maps >seen 2>&1; mv seen done) >/dev/null 2>&1 &";
    let output = setting
        .pagewise()
        .args(["run", "--", "sh", "-c", script])
        .arg(setting.folder.path())
        .output()
        .unwrap();
    assert!(
        errors(&output).contains("not counted further"),
        "{}",
        errors(&output)
    );
    fs::write(setting.path("go"), "").unwrap();
    let begin = Instant::now();
    while !setting.path("done").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = fs::read_to_string(setting.path("done")).unwrap();
    assert!(
        seen.trim().parse::<u32>().is_ok_and(|lines| lines > 0),
        "{seen}"
    );
}

/// They are looked for beside the name by which the first was loaded.
#[test]
fn libraries_find_each_other_through_the_link() {
    let built = libraries();
    if !built.join("libpagewise-preload.so").exists() {
        return;
    }
    let setting = Setting::new(
        &built.join("libpagewise-preload.so"),
        "libpagewise-preload.so",
    );
    let core = "libpagewise.so.0";
    fs::copy(built.join(core), setting.library.with_file_name(core)).unwrap();
    let maps = [
        "run",
        "--quiet",
        "--",
        "grep",
        "libpagewise",
        "/proc/self/maps",
    ];
    let output = setting.pagewise().args(maps).output().unwrap();
    let core = setting.library.with_file_name(core).canonicalize().unwrap();
    assert!(
        text(&output).contains(core.to_str().unwrap()),
        "{}{}",
        text(&output),
        errors(&output)
    );
}

#[test]
fn doctor_says_both_names() {
    let setting = Setting::stand_in();
    let output = setting
        .pagewise()
        .args(["doctor", "--all"])
        .output()
        .unwrap();
    let works = format!(
        "{} works, as {}",
        setting.library.display(),
        setting.name.display()
    );
    assert!(text(&output).contains(&works), "{}", text(&output));
}

#[test]
fn allocations_are_recorded() {
    let setting = Setting::new(common::recorder(), "libpagewise-record.so");
    let trace = setting.path("x.trace");
    let output = setting
        .pagewise()
        .env("PAGEWISE_RECORD_LIBRARY", &setting.library)
        .args(["trace", "record", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", "echo $LD_PRELOAD"])
        .output()
        .unwrap();
    assert_eq!(
        text(&output).trim_end(),
        setting.name.to_str().unwrap(),
        "{}",
        errors(&output)
    );
    assert!(trace.exists());
}

#[test]
fn what_no_link_can_name_is_refused() {
    let setting = Setting::new(common::stand_in(), "my libpagewise-preload.so");
    let run = ["run", "--", "echo", "ran"];
    let output = setting.pagewise().args(run).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    let said = errors(&output);
    assert!(
        said.contains("the loader splits paths at spaces and colons"),
        "{said}"
    );
    assert!(said.contains("\n  try: "), "{said}");
}
