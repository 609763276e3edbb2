//! The perf maps of recorded processes: found in /tmp, where programs write them, kept with the recording, and read.
//!
//! /tmp is everybody's. So a map counts only if it is a plain file of the process's own user, with no other name, and
//! has been written since the process began: the kernel gives numbers of processes out again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::errno::Errno;
use nix::libc;
use trace_analysis::perf_map::{MAX_BYTES, PerfMap};
use trace_analysis::spool::Header;

use super::spools::Spools;
use crate::tell::tell;

/// Where all runtimes write them.
const FOLDER: &str = "/tmp";
/// Files are stamped by a clock of ticks, which may be behind that of the recorder.
const SLACK_NS: i128 = 1_000_000_000;

fn name_of(process: i32) -> String {
    format!("perf-{process}.map")
}

/// What to do with a map that has been kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum After {
    Leave,
    /// We had Python write it, and nobody else wants it.
    Remove,
}

/// Keeps the maps of these processes in the folder of their recording, but for those that have been kept before. Why one
/// is not used is said.
pub fn keep(folder: &Path, spools: &Spools, after: After, quiet: bool) {
    let mut begun: BTreeMap<i32, &PathBuf> = BTreeMap::new();
    for ((process, _), spool) in spools {
        begun.entry(*process).or_insert(spool);
    }
    for (process, spool) in begun {
        if folder.join(name_of(process)).symlink_metadata().is_ok() {
            continue;
        }
        let map = Path::new(FOLDER).join(name_of(process));
        let kept = read_new(&map, spool).and_then(|found| match found {
            Some(text) => {
                write_new(&folder.join(name_of(process)), &text)?;
                if after == After::Remove && PerfMap::parse(&text).is_python() {
                    fs::remove_file(&map)?;
                }
                Ok(())
            }
            None => Ok(()),
        });
        if let Err(why) = kept
            && !quiet
        {
            tell(&format!(
                "{} is not used, so code that process {process} made has no names: {why}",
                map.display()
            ));
        }
    }
}

/// None: there is no map, or it is not of this process.
fn read_new(map: &Path, spool: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(map);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
            return refused("it is a symbolic link");
        }
        Err(error) => return Err(error),
    };
    let (is, process) = (file.metadata()?, fs::metadata(spool)?);
    let Some(header) = Header::read(spool)? else {
        return Ok(None);
    };
    let written = i128::from(is.mtime()) * 1_000_000_000 + i128::from(is.mtime_nsec());
    if written + SLACK_NS < i128::from(header.start_real_ns) {
        return Ok(None);
    }
    if !is.is_file() {
        return refused("it is no plain file");
    }
    if is.uid() != process.uid() {
        return refused("it belongs to another user than the process");
    }
    if is.nlink() != 1 {
        return refused("the file has other names");
    }
    if is.len() > MAX_BYTES {
        return refused(&format!("it is larger than {} MB", MAX_BYTES >> 20));
    }
    read_some(file).map(Some)
}

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::other(why))
}

/// It may grow meanwhile.
fn read_some(file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text)
}

/// Maps of a recording's processes.
pub struct Maps<'a> {
    place: Place<'a>,
    headers: BTreeMap<i32, Header>,
    /// Of processes that have forked others.
    parents: BTreeMap<i32, Rc<PerfMap>>,
}

enum Place<'a> {
    /// The recording's folder, in which they are kept.
    Folder(&'a Path),
    /// Where programs write them.
    WhereWritten(&'a Spools),
}

/// Of forks, one in the other. A process may claim to be its own parent.
const MOST_FORKS: usize = 16;

impl<'a> Maps<'a> {
    pub fn kept(folder: &'a Path, spools: &Spools) -> Self {
        Self::in_place(Place::Folder(folder), spools)
    }

    /// As they are now, of processes that may be running.
    pub fn as_written(spools: &'a Spools) -> Self {
        Self::in_place(Place::WhereWritten(spools), spools)
    }

    fn in_place(place: Place<'a>, spools: &Spools) -> Self {
        let mut headers = BTreeMap::new();
        // The first program that a process ran is the one that it has from its parent.
        for ((process, _), spool) in spools.iter().rev() {
            if let Some(header) = Header::read(spool).ok().flatten() {
                headers.insert(*process, header);
            }
        }
        Self {
            place,
            headers,
            parents: BTreeMap::new(),
        }
    }

    /// The names of a process's code, and of that which its parent had made before a fork.
    pub fn of(&mut self, process: i32) -> Rc<PerfMap> {
        self.with_inherited(process, MOST_FORKS)
    }

    fn with_inherited(&mut self, process: i32, most: usize) -> Rc<PerfMap> {
        let own = self.read(process);
        let inherited = match self.forked_from(process) {
            Some(parent) if most > 0 => self.of_parent(parent, most - 1),
            _ => Rc::default(),
        };
        match (own.is_empty(), inherited.is_empty()) {
            (true, _) => inherited,
            (_, true) => Rc::new(own),
            _ => Rc::new(own.over(&inherited)),
        }
    }

    fn of_parent(&mut self, parent: i32, most: usize) -> Rc<PerfMap> {
        if let Some(map) = self.parents.get(&parent) {
            return Rc::clone(map);
        }
        let map = self.with_inherited(parent, most);
        self.parents.insert(parent, Rc::clone(&map));
        map
    }

    /// None where a process was started with a program of its own: what its parent had made is not there.
    fn forked_from(&self, process: i32) -> Option<i32> {
        let own = self.headers.get(&process)?;
        let parent = i32::try_from(own.parent).ok()?;
        let parents = self.headers.get(&parent)?;
        let is_same = own.program == parents.program && own.command == parents.command;
        is_same.then_some(parent)
    }

    fn read(&self, process: i32) -> PerfMap {
        let text = match &self.place {
            Place::Folder(folder) => read_kept(folder, process),
            Place::WhereWritten(spools) => read_written(spools, process),
        };
        PerfMap::parse(&text.unwrap_or_default())
    }
}

/// Is there a map of the process in this folder?
pub fn has_kept(folder: &Path, process: i32) -> bool {
    folder.join(name_of(process)).is_file()
}

fn read_kept(folder: &Path, process: i32) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(folder.join(name_of(process)))?;
    read_some(file)
}

fn read_written(spools: &Spools, process: i32) -> io::Result<Vec<u8>> {
    let Some((_, first)) = spools.range((process, 0)..).next() else {
        return Ok(Vec::new());
    };
    let map = Path::new(FOLDER).join(name_of(process));
    Ok(read_new(&map, first)?.unwrap_or_default())
}

/// Could this process's Python tell the names of its functions? By the name of its file, as python3.12.
pub fn is_python_with_maps(header: &Header) -> bool {
    let name = header.program.rsplit('/').next().unwrap_or_default();
    let minor = name.strip_prefix("python3.").and_then(|rest| {
        let digits = rest.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        digits.parse::<u32>().ok()
    });
    minor.is_some_and(|minor| minor >= 12)
}
