//! A fresh memory cgroup for the command: the kernel's own peak, to cross-check the sampled one.
//!
//! To enter one takes the kernel ten milliseconds, so it is only done where figures are to be exact.
//! It also counts the page cache and kernel memory that the command causes, so it is no replacement.
//! Whatever fails here, the run goes on without it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const V2_PEAK: &str = "memory.peak";

static NEXT: AtomicU32 = AtomicU32::new(0);

pub struct Cgroup {
    folder: PathBuf,
    home: PathBuf,
    peak_file: &'static str,
    processes: File,
}

/// Only an empty group can be removed, so nobody's is taken away.
fn remove_those_of_killed_runs(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix("pagewise-")?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Where this process's memory cgroup is, and of which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub folder: PathBuf,
    pub is_v2: bool,
}

impl Cgroup {
    pub fn create() -> Option<Self> {
        let home = own_location(Path::new("/"))?;
        if !home.is_v2 {
            return Self::inside(&home.folder, &home.folder, "memory.max_usage_in_bytes");
        }
        // A v2 group that holds processes cannot have controllers for its children: use a sibling,
        // but never one that would lift limits which are in force here.
        Self::inside(&home.folder, &home.folder, V2_PEAK).or_else(|| {
            let parent = home.folder.parent().filter(|_| !has_limits(&home.folder))?;
            Self::inside(parent, &home.folder, V2_PEAK)
        })
    }

    fn inside(parent: &Path, home: &Path, peak_file: &'static str) -> Option<Self> {
        remove_those_of_killed_runs(parent);
        let name = format!(
            "pagewise-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = parent.join(name);
        fs::create_dir(&folder).ok()?;
        let processes = OpenOptions::new()
            .write(true)
            .open(folder.join("cgroup.procs"));
        if let Ok(processes) = processes
            && folder.join(peak_file).exists()
        {
            return Some(Self {
                folder,
                home: home.to_owned(),
                peak_file,
                processes,
            });
        }
        let _ = fs::remove_dir(&folder);
        None
    }

    /// For the child, between fork and exec: writing "0" here moves it into the group.
    pub fn entrance(&self) -> RawFd {
        self.processes.as_raw_fd()
    }

    /// The group itself.
    pub fn location(&self) -> Location {
        Location {
            folder: self.folder.clone(),
            is_v2: self.peak_file == V2_PEAK,
        }
    }

    pub fn peak_bytes(&self) -> Option<u64> {
        read_number(&self.folder.join(self.peak_file)).filter(|&peak| peak > 0)
    }

    fn move_everyone_home(&self) {
        let inside = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for process in inside.lines() {
            let home = OpenOptions::new()
                .write(true)
                .open(self.home.join("cgroup.procs"));
            let _ = home.and_then(|mut file| file.write_all(process.as_bytes()));
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..20 {
            self.move_everyone_home();
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Finds this process's memory cgroup below `root` ("/" but in tests).
pub fn own_location(root: &Path) -> Option<Location> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mounts")).ok()?;
    let v1 = v1_path(&groups).and_then(|path| {
        let mount = mount_point(&mounts, "cgroup", Some("memory"))?;
        Some(location(root, mount, path, false))
    });
    v1.or_else(|| {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let mount = mount_point(&mounts, "cgroup2", None)?;
        Some(location(root, mount, path, true))
    })
}

/// In a container the path may be the host's and missing here: then the mount itself is our group.
fn location(root: &Path, mount: &str, path: &str, is_v2: bool) -> Location {
    let mount = root.join(mount.trim_start_matches('/'));
    let folder = mount.join(path.trim_start_matches('/'));
    Location {
        folder: if folder.is_dir() { folder } else { mount },
        is_v2,
    }
}

fn v1_path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers
            .split(',')
            .any(|c| c == "memory")
            .then_some(path)
    })
}

fn mount_point<'a>(mounts: &'a str, kind: &str, option: Option<&str>) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (folder, this_kind, options) = (words.next()?, words.next()?, words.next()?);
        let has_option = option.is_none_or(|option| options.split(',').any(|o| o == option));
        (this_kind == kind && has_option).then_some(folder)
    })
}

/// Of those of version 2 that shape a run.
const LIMITS: [&str; 5] = [
    "memory.max",
    "memory.high",
    "memory.swap.max",
    "cpu.max",
    "pids.max",
];

/// One that cannot be read may be a limit.
fn has_limits(group: &Path) -> bool {
    LIMITS
        .iter()
        .any(|name| match fs::read_to_string(group.join(name)) {
            Ok(limit) => limit.split_ascii_whitespace().next() != Some("max"),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        })
}

/// The memory limit in force for a group: the lowest of its own and its ancestors', as far as they are seen from here.
pub fn limit(location: &Location) -> Option<u64> {
    let name = if location.is_v2 {
        "memory.max"
    } else {
        "memory.limit_in_bytes"
    };
    let groups = location.folder.ancestors();
    let groups =
        groups.take_while(|group| group.join("cgroup.procs").exists() || *group == location.folder);
    // v1 writes "no limit" as the largest multiple of the page size.
    let limits = groups.filter_map(|group| read_number(&group.join(name)));
    limits.filter(|&limit| limit < 1 << 60).min()
}

/// How many processes of a group the kernel has ended because memory ran out. None: it does not count them.
pub fn killed(location: &Location) -> Option<u64> {
    let name = if location.is_v2 {
        "memory.events"
    } else {
        "memory.oom_control"
    };
    let text = fs::read_to_string(location.folder.join(name)).ok()?;
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(groups: &str, mounts: &str, folder: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("folder");
        fs::create_dir_all(root.path().join("proc/self")).expect("proc");
        fs::create_dir_all(root.path().join(folder)).expect("group");
        fs::write(root.path().join("proc/self/cgroup"), groups).expect("cgroup");
        fs::write(root.path().join("proc/self/mounts"), mounts).expect("mounts");
        root
    }

    #[test]
    fn version_1_with_a_limit() {
        let root = fake(
            "4:cpu,memory:/a/b\n0::/\n",
            "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
            "sys/fs/cgroup/memory/a/b",
        );
        let found = own_location(root.path()).expect("location");
        assert!(!found.is_v2 && found.folder.ends_with("memory/a/b"));
        fs::write(found.folder.join("memory.limit_in_bytes"), "1048576\n").expect("limit");
        assert_eq!(limit(&found), Some(1 << 20));
        fs::write(
            found.folder.join("memory.limit_in_bytes"),
            "9223372036854771712\n",
        )
        .expect("limit");
        assert_eq!(limit(&found), None);
    }

    #[test]
    fn version_2_in_a_container() {
        let root = fake(
            "0::/elsewhere\n",
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            "sys/fs/cgroup",
        );
        let found = own_location(root.path()).expect("location");
        assert!(found.is_v2 && found.folder.ends_with("sys/fs/cgroup"));
        fs::write(found.folder.join("memory.max"), "max\n").expect("limit");
        assert_eq!(limit(&found), None);
    }

    #[test]
    fn an_ancestors_limit_holds_below_it() {
        let root = fake(
            "0::/batch/job\n",
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            "sys/fs/cgroup/batch/job",
        );
        let found = own_location(root.path()).expect("location");
        let batch = root.path().join("sys/fs/cgroup/batch");
        fs::write(batch.join("cgroup.procs"), "").expect("group");
        fs::write(batch.join("memory.max"), "4096\n").expect("limit");
        assert_eq!(limit(&found), Some(4096));
        fs::write(found.folder.join("memory.max"), "8192\n").expect("limit");
        assert_eq!(limit(&found), Some(4096));
        assert_eq!(killed(&found), None);
        fs::write(
            found.folder.join("memory.events"),
            "low 0\noom 2\noom_kill 1\n",
        )
        .expect("events");
        assert_eq!(killed(&found), Some(1));
    }

    #[test]
    fn limits_of_every_kind_are_seen() {
        let group = tempfile::tempdir().expect("folder");
        assert!(!has_limits(group.path()), "none of the controllers");
        for (name, none, some) in [
            ("memory.max", "max\n", "1048576\n"),
            ("memory.high", "max\n", "1048576\n"),
            ("memory.swap.max", "max\n", "0\n"),
            ("cpu.max", "max 100000\n", "50000 100000\n"),
            ("pids.max", "max\n", "100\n"),
        ] {
            let file = group.path().join(name);
            fs::write(&file, some).expect("limit");
            assert!(has_limits(group.path()), "{name}");
            fs::write(&file, none).expect("limit");
            assert!(!has_limits(group.path()), "{name}");
        }
    }

    #[test]
    fn no_cgroups_at_all() {
        assert_eq!(own_location(Path::new("/nonexistent")), None);
    }
}
