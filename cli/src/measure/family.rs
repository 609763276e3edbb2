//! The command's processes, looked up again where one may have come or gone: a walk down the tree opens files of
//! every thread, and most looks find nobody new.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::process_tree::Strangers;

/// More children than fit are told apart by the first of them.
const LISTED: usize = 4096;

pub struct Family {
    strangers: Strangers,
    members: Vec<i32>,
    /// The children of this process's and each member's first thread, as they were.
    children: Vec<(Option<File>, Vec<u8>)>,
}

impl Family {
    pub fn new(strangers: Strangers) -> Self {
        Self {
            strangers,
            members: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Parents before children.
    pub fn members(&self) -> &[i32] {
        &self.members
    }

    /// Has one come or gone? Those that other threads than a process's first have started do not show.
    pub fn has_changed(&self) -> bool {
        self.members.is_empty() || self.children.iter().any(has_changed)
    }

    pub fn walk(&mut self) {
        self.members = self.strangers.others();
        let own = nix::unistd::getpid().as_raw();
        let all = std::iter::once(own).chain(self.members.iter().copied());
        self.children = all.map(children_of).collect();
    }
}

/// Without a file (CONFIG_PROC_CHILDREN is missing) it may have changed. That of a process which is gone reads empty:
/// its parent's shows it.
fn has_changed((file, last): &(Option<File>, Vec<u8>)) -> bool {
    file.as_ref().and_then(listed).as_ref() != Some(last)
}

fn children_of(process: i32) -> (Option<File>, Vec<u8>) {
    let file = File::open(format!("/proc/{process}/task/{process}/children")).ok();
    let now = file.as_ref().and_then(listed).unwrap_or_default();
    (file, now)
}

fn listed(file: &File) -> Option<Vec<u8>> {
    let mut buffer = [0; LISTED];
    let length = file.read_at(&mut buffer, 0).ok()?;
    Some(buffer[..length].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::process_tree::parent_of;
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn see_a_change(family: &mut Family) {
        let begin = Instant::now();
        while !family.has_changed() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(family.has_changed());
        family.walk();
    }

    #[test]
    fn a_grandchild_that_comes_or_goes_is_a_change() {
        let mut family = Family::new(Strangers::now());
        assert!(family.has_changed(), "nothing is known yet");
        let mut shell = Command::new("sh")
            .args(["-c", "read a; sleep 30 & read b; kill $!; wait; read c"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh");
        let process = i32::try_from(shell.id()).expect("a process id");
        let mut input = shell.stdin.take().expect("stdin");
        let children = |family: &Family| {
            let members = family.members().iter();
            members
                .filter(|one| parent_of(**one) == Some(process))
                .count()
        };
        family.walk();
        assert!(family.members().contains(&process));
        for expected in [1, 0] {
            writeln!(input).expect("written");
            while children(&family) != expected {
                see_a_change(&mut family);
            }
        }
        drop(input);
        shell.wait().expect("sh ends");
        family.walk();
        assert!(!family.members().contains(&process));
    }
}
