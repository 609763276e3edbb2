//! Which processes belong to the command: every descendant of this one but those that it had before.
//!
//! This process is a child subreaper, so that a daemon's orphans become its children and are found too.
//!
//! procfs-core reads /proc/PID/stat. Trees are our own: procfs opens two files more for a process and one for each of its
//! threads, fifty times a second.

use std::collections::HashMap;
use std::fs;
use std::io;

use procfs_core::FromRead;
use procfs_core::process::Stat;

/// Descendants that this process had before it started the command, as after `sh -c 'server & exec pagewise ...'`. They are none of
/// the command's, nor is what they start.
#[derive(Clone, Debug, Default)]
pub struct Strangers {
    /// When each was started: a number may be used again.
    started: HashMap<i32, u64>,
}

impl Strangers {
    /// All that there are.
    pub fn now() -> Self {
        let all = descendants(own_process(), &|_| false);
        let started = |process| Some((process, start_of(process)?));
        Self {
            started: all.into_iter().filter_map(started).collect(),
        }
    }

    /// All other descendants of this process, parents before children.
    pub fn others(&self) -> Vec<i32> {
        descendants(own_process(), &|process| {
            let started = self.started.get(&process);
            started.is_some_and(|started| start_of(process) == Some(*started))
        })
    }

    /// Returns whether it was one.
    pub fn remove(&mut self, process: i32) -> bool {
        self.started.remove(&process).is_some()
    }
}

fn own_process() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// All descendants of `root` but those left out and theirs, parents before children.
fn descendants(root: i32, is_left_out: &dyn Fn(i32) -> bool) -> Vec<i32> {
    match fs::metadata(format!("/proc/{root}/task/{root}/children")) {
        Ok(_) => by_children_files(root, is_left_out),
        // Kernels without CONFIG_PROC_CHILDREN.
        Err(_) => by_parents(root, is_left_out),
    }
}

fn by_children_files(root: i32, is_left_out: &dyn Fn(i32) -> bool) -> Vec<i32> {
    walk(root, is_left_out, children)
}

/// Breadth first.
fn walk(
    root: i32,
    is_left_out: &dyn Fn(i32) -> bool,
    mut children: impl FnMut(i32) -> Vec<i32>,
) -> Vec<i32> {
    let mut found = children(root);
    found.retain(|process| !is_left_out(*process));
    let mut next = 0;
    while next < found.len() {
        let grandchildren = children(found[next]);
        found.extend(grandchildren.into_iter().filter(|one| !is_left_out(*one)));
        next += 1;
    }
    found
}

/// The kernel lists children by the thread that made them.
fn children(process: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(
            text.split_ascii_whitespace()
                .filter_map(|s| s.parse::<i32>().ok()),
        );
    }
    found
}

fn by_parents(root: i32, is_left_out: &dyn Fn(i32) -> bool) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in all_processes().unwrap_or_default() {
        if let Some(parent) = parent_of(process) {
            children.entry(parent).or_default().push(process);
        }
    }
    walk(root, is_left_out, |process| {
        children.remove(&process).unwrap_or_default()
    })
}

pub fn all_processes() -> io::Result<Vec<i32>> {
    Ok(fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

pub fn stat_of(process: i32) -> Option<Stat> {
    Stat::from_file(format!("/proc/{process}/stat")).ok()
}

/// Parent of a process, 0 for none.
pub fn parent_of(process: i32) -> Option<i32> {
    stat_of(process).map(|stat| stat.ppid)
}

/// When it was started, in clock ticks since the machine was: tells a process from a later one with the same number.
pub fn start_of(process: i32) -> Option<u64> {
    stat_of(process).map(|stat| stat.starttime)
}

/// User and system time so far of one process and of its children that have ended, in clock ticks.
pub fn cpu_ticks(process: i32) -> Option<u64> {
    stat_of(process).map(|stat| ticks_in(&stat))
}

fn ticks_in(stat: &Stat) -> u64 {
    let of_children = stat.cutime.saturating_add(stat.cstime);
    stat.utime + stat.stime + u64::try_from(of_children).unwrap_or(0)
}

/// Leaves out a process that lives in its parent's address space: between vfork and exec, the same
/// memory would be counted twice.
pub fn distinct_address_spaces(processes: &[i32]) -> Vec<i32> {
    processes
        .iter()
        .copied()
        .filter(|&process| {
            let parent = parent_of(process).filter(|parent| processes.contains(parent));
            parent.is_none_or(|parent| !same_address_space(process, parent))
        })
        .collect()
}

pub fn same_address_space(one: i32, other: i32) -> bool {
    const KCMP_VM: libc::c_long = 1;
    // SAFETY: kcmp with KCMP_VM reads no memory of ours; a failure is -1.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn stat_is_read_past_a_hostile_name() {
        let stat = b"12 (a) S 1 (b\xff) S 77 12 12 0 -1 0 0 0 0 0 5 6 70 800 20 0 1 0 99 0 0 0 0 0 0 0 0 0 \
            0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let stat = Stat::from_read(&stat[..]).expect("52 fields");
        assert_eq!((stat.ppid, stat.utime, stat.starttime), (77, 5, 99));
        assert_eq!(ticks_in(&stat), 881, "with those of its children");
    }

    #[test]
    fn both_walks_find_a_grandchild() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 30 & echo $! ; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = String::new();
        let out = child.stdout.take().expect("stdout");
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line).expect("a line");
        let grandchild: i32 = line.trim().parse().expect("a process id");
        let root = child.id() as i32;
        assert_eq!(by_children_files(root, &|_| false), [grandchild]);
        assert_eq!(by_parents(root, &|_| false), [grandchild]);
        assert!(by_children_files(root, &|process| process == grandchild).is_empty());
        let mut strangers = Strangers::now();
        assert!(!strangers.others().contains(&root));
        assert!(strangers.remove(root) && !strangers.remove(root));
        // No longer one, and with it what it has started.
        assert!(strangers.others().contains(&root));
        // SAFETY: the process is the one started above and not yet waited for.
        unsafe { libc::kill(grandchild, libc::SIGKILL) };
        child.wait().expect("sh ends");
    }

    #[test]
    fn own_process_is_one_address_space() {
        let own = std::process::id() as i32;
        assert!(same_address_space(own, own));
        assert!(
            !same_address_space(own, parent_of(own).expect("parent")) || parent_of(own) == Some(0)
        );
    }
}
