//! The kernel's page merging (KSM), switched on for one run and put back afterwards.
//!
//! What was in force before is also written to a file, so that a run that was killed can be undone later.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::measure::process_tree::start_of;

const FOLDER: &str = "/sys/kernel/mm/ksm";
const STATE_FILE: &str = "/run/pagewise-ksm.json";
const SLEEP_MILLISECONDS: u32 = 20;
/// Break merged pages up again.
const UNMERGE: &str = "2";

#[derive(Debug, Error)]
pub enum Error {
    #[error("this kernel has no page merging: there is no {0}")]
    Missing(String),
    #[error("only root may switch page merging on (cannot write {0})")]
    Forbidden(String),
    #[error("process {0} is using page merging through pagewise already")]
    Busy(i32),
    #[error("cannot set {0}: {1}")]
    Io(String, io::Error),
}

/// What was in force before, and who has changed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    process: i32,
    process_start: String,
    run: String,
    pages_to_scan: String,
    sleep_millisecs: String,
    advisor_mode: Option<String>,
}

/// Page merging is on while this exists.
pub struct Ksm {
    places: Places,
    saved: Saved,
    cpu_before: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Places {
    folder: PathBuf,
    state_file: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            folder: FOLDER.into(),
            state_file: STATE_FILE.into(),
        }
    }
}

impl Ksm {
    pub fn start(places: Places, pages_to_scan: u32) -> Result<Self, Error> {
        places.check()?;
        let saved = match places.left_behind() {
            Some(saved) if saved.is_alive() => return Err(Error::Busy(saved.process)),
            // A killed run's changes are still in force: what it found is what to put back.
            Some(saved) => Saved {
                process: std::process::id() as i32,
                process_start: start_text(std::process::id() as i32).unwrap_or_default(),
                ..saved
            },
            None => places.save()?,
        };
        places.write_state(&saved)?;
        let ksm = Self {
            places,
            saved,
            cpu_before: ksmd_cpu_time(),
        };
        ksm.switch_on(pages_to_scan)?;
        Ok(ksm)
    }

    fn switch_on(&self, pages_to_scan: u32) -> Result<(), Error> {
        if self.saved.advisor_mode.is_some() {
            // The advisor would overrule the number of pages.
            self.places.set("advisor_mode", "none")?;
        }
        self.places
            .set("pages_to_scan", &pages_to_scan.to_string())?;
        self.places
            .set("sleep_millisecs", &SLEEP_MILLISECONDS.to_string())?;
        self.places.set("run", "1")
    }

    /// What ksmd has used since the start.
    pub fn cpu_time(&self) -> Option<Duration> {
        Some(ksmd_cpu_time()?.saturating_sub(self.cpu_before?))
    }
}

impl Drop for Ksm {
    fn drop(&mut self) {
        let _ = self.places.put_back(&self.saved);
    }
}

impl Places {
    #[cfg(test)]
    fn below(root: &Path) -> Self {
        Self {
            folder: root.join("ksm"),
            state_file: root.join("state.json"),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let run = self.folder.join("run");
        if !run.exists() {
            return Err(Error::Missing(self.folder.display().to_string()));
        }
        fs::OpenOptions::new()
            .write(true)
            .open(&run)
            .map(drop)
            .map_err(|_| Error::Forbidden(run.display().to_string()))
    }

    fn save(&self) -> Result<Saved, Error> {
        let process = std::process::id() as i32;
        Ok(Saved {
            process,
            process_start: start_text(process).unwrap_or_default(),
            run: self.get("run")?,
            pages_to_scan: self.get("pages_to_scan")?,
            sleep_millisecs: self.get("sleep_millisecs")?,
            advisor_mode: self.get("advisor_mode").ok().map(|modes| chosen(&modes)),
        })
    }

    fn write_state(&self, saved: &Saved) -> Result<(), Error> {
        let error = |error: io::Error| Error::Io(self.state_file.display().to_string(), error);
        let text = serde_json::to_vec(saved).map_err(|e| error(e.into()))?;
        let folder = self.state_file.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(error)?;
        file.write_all(&text).map_err(error)?;
        file.persist(&self.state_file)
            .map(drop)
            .map_err(|e| error(e.error))
    }

    /// The state of a run that has not put it back: it is still going on, or was killed.
    fn left_behind(&self) -> Option<Saved> {
        serde_json::from_slice(&fs::read(&self.state_file).ok()?).ok()
    }

    /// The same, when that run is certainly over.
    pub fn left_by_killed_run(&self) -> Option<Saved> {
        self.left_behind().filter(|saved| !saved.is_alive())
    }

    pub fn put_back(&self, saved: &Saved) -> Result<(), Error> {
        // Where merging was on before, others' pages are merged too, and stay so.
        if saved.run != "1" {
            self.set("run", UNMERGE)?;
        }
        self.set("pages_to_scan", &saved.pages_to_scan)?;
        self.set("sleep_millisecs", &saved.sleep_millisecs)?;
        if let Some(mode) = &saved.advisor_mode {
            self.set("advisor_mode", mode)?;
        }
        self.set("run", &saved.run)?;
        fs::remove_file(&self.state_file)
            .map_err(|error| Error::Io(self.state_file.display().to_string(), error))
    }

    fn get(&self, name: &str) -> Result<String, Error> {
        let path = self.folder.join(name);
        fs::read_to_string(&path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| Error::Io(path.display().to_string(), error))
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(|error| Error::Io(path.display().to_string(), error))
    }
}

/// As the state file has it.
fn start_text(process: i32) -> Option<String> {
    start_of(process).map(|start| start.to_string())
}

impl Saved {
    fn is_alive(&self) -> bool {
        start_text(self.process).is_some_and(|start| start == self.process_start)
    }

    /// What an administrator would type to put the state back by hand: the steps of `put_back`.
    pub fn commands(&self) -> String {
        let set = |name: &str, value: &str| format!("echo {value} > {FOLDER}/{name}");
        let mut commands = Vec::new();
        if self.run != "1" {
            commands.push(set("run", UNMERGE));
        }
        commands.push(set("pages_to_scan", &self.pages_to_scan));
        commands.push(set("sleep_millisecs", &self.sleep_millisecs));
        commands.extend(
            self.advisor_mode
                .iter()
                .map(|mode| set("advisor_mode", mode)),
        );
        commands.push(set("run", &self.run));
        commands.push(format!("rm {STATE_FILE}"));
        commands.join("; ")
    }
}

/// "[none] scan-time" is "none".
fn chosen(modes: &str) -> String {
    modes
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(modes, |(mode, _)| mode)
        .to_owned()
}

fn ksmd_cpu_time() -> Option<Duration> {
    let process = fs::read_dir("/proc").ok()?.flatten().find(|entry| {
        fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.trim() == "ksmd")
    })?;
    // Nanoseconds, where /proc/PID/stat has hundredths of a second.
    let text = fs::read_to_string(process.path().join("schedstat")).ok()?;
    let nanoseconds = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake() -> (tempfile::TempDir, Places) {
        let root = tempfile::tempdir().expect("folder");
        let places = Places::below(root.path());
        fs::create_dir(&places.folder).expect("ksm");
        for (name, value) in [
            ("run", "0\n"),
            ("pages_to_scan", "77\n"),
            ("sleep_millisecs", "33\n"),
            ("advisor_mode", "none [scan-time]\n"),
        ] {
            fs::write(places.folder.join(name), value).expect("file");
        }
        (root, places)
    }

    #[test]
    fn sets_and_puts_back() {
        let (_root, places) = fake();
        let ksm = Ksm::start(places.clone(), 1000).expect("start");
        assert_eq!(places.get("pages_to_scan").expect("value"), "1000");
        assert_eq!(places.get("sleep_millisecs").expect("value"), "20");
        assert_eq!(places.get("advisor_mode").expect("value"), "none");
        assert_eq!(places.get("run").expect("value"), "1");
        assert!(places.state_file.exists());
        drop(ksm);
        assert_eq!(places.get("run").expect("value"), "0");
        assert_eq!(places.get("pages_to_scan").expect("value"), "77");
        assert_eq!(places.get("advisor_mode").expect("value"), "scan-time");
        assert!(!places.state_file.exists());
    }

    #[test]
    fn puts_back_when_the_thread_panics() {
        let (_root, places) = fake();
        let inner = places.clone();
        let result = std::thread::spawn(move || {
            let _ksm = Ksm::start(inner, 100).expect("start");
            panic!("on purpose");
        })
        .join();
        assert!(result.is_err());
        assert_eq!(places.get("run").expect("value"), "0");
    }

    #[test]
    fn a_killed_runs_state_is_what_is_put_back() {
        let (_root, places) = fake();
        let mut saved = places.save().expect("saved");
        saved.process_start = "another process".into();
        places.write_state(&saved).expect("state");
        places.set("run", "1").expect("set");
        places.set("pages_to_scan", "1000").expect("set");
        assert!(places.left_by_killed_run().is_some());
        drop(Ksm::start(places.clone(), 100).expect("start"));
        assert_eq!(places.get("pages_to_scan").expect("value"), "77");
        assert_eq!(places.get("run").expect("value"), "0");
    }

    #[test]
    fn by_hand_it_takes_the_same_steps() {
        let (_root, places) = fake();
        let saved = places.save().expect("saved");
        let commands = saved.commands().replace(&format!("{FOLDER}/"), "");
        assert_eq!(
            commands,
            "echo 2 > run; echo 77 > pages_to_scan; echo 33 > sleep_millisecs; echo scan-time > advisor_mode; \
             echo 0 > run; rm /run/pagewise-ksm.json"
        );
        let before = Saved {
            run: "1".into(),
            advisor_mode: None,
            ..saved
        };
        let commands = before.commands().replace(&format!("{FOLDER}/"), "");
        assert_eq!(
            commands,
            "echo 77 > pages_to_scan; echo 33 > sleep_millisecs; echo 1 > run; rm /run/pagewise-ksm.json"
        );
    }

    #[test]
    fn two_at_once_are_refused() {
        let (_root, places) = fake();
        let _first = Ksm::start(places.clone(), 100).expect("start");
        assert!(matches!(Ksm::start(places, 100), Err(Error::Busy(_))));
    }

    #[test]
    fn no_merging_in_this_kernel() {
        let places = Places::below(Path::new("/nonexistent"));
        assert!(matches!(Ksm::start(places, 100), Err(Error::Missing(_))));
    }
}
