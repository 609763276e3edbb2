//! The recorded processes, as far as they have come.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trace_analysis::pprof::{Shown, Taken};
use trace_analysis::running::Running;
use trace_analysis::spool::Header;
use trace_analysis::symbols::Symbols;

use crate::trace::perf_maps::Maps;
use crate::trace::spools::{Spools, spools_in};

/// Younger figures are not asked for: many readers cost no more than four looks a second.
const FRESH: Duration = Duration::from_millis(250);
/// Of so many processes it is kept what has been read. Of another one it is read from the start.
const MOST_FOLLOWED: usize = 32;

pub enum Refusal {
    Unknown(i32),
    NothingYet,
    Ended,
    Unreadable(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// A process that has recorded something.
pub struct Known {
    pub process: i32,
    pub name: String,
    pub is_main: bool,
    pub has_ended: bool,
}

pub struct Processes {
    folder: PathBuf,
    main: i32,
    has_ended: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    followed: BTreeMap<i32, Followed>,
    symbols: Symbols,
}

struct Followed {
    /// Of those that the process has executed.
    program: u32,
    running: Running,
    /// None: not to the end yet.
    read: Option<(Instant, SystemTime)>,
    asked: Instant,
}

impl Processes {
    pub fn new(folder: &Path, main: i32, has_ended: Arc<AtomicBool>) -> Self {
        Self {
            folder: folder.to_owned(),
            main,
            has_ended,
            state: Mutex::default(),
        }
    }

    /// The command's first, then by their numbers.
    pub fn known(&self) -> Vec<Known> {
        let spools = spools_in(&self.folder).unwrap_or_default();
        let is_last =
            |(process, program): (i32, u32)| last_program(&spools, process) == Some(program);
        let last = spools.iter().filter(|(key, _)| is_last(**key));
        let known = last.filter_map(|(&(process, _), path)| {
            let header = Header::read(path).ok().flatten()?;
            let name = header.program.rsplit('/').next();
            Some(Known {
                process,
                name: name.unwrap_or_default().to_owned(),
                is_main: process == self.main,
                has_ended: !Path::new("/proc").join(process.to_string()).exists(),
            })
        });
        let mut known: Vec<Known> = known.collect();
        known.sort_by_key(|known| (!known.is_main, known.process));
        known
    }

    /// Of what was recorded up to now, compressed.
    pub fn profile(&self, process: Option<i32>, shown: Shown) -> Result<Vec<u8>, Refusal> {
        // One at a time: others find what it has read.
        let mut state = self.lock();
        let process = process.unwrap_or(self.main);
        let profile = self.profile_of(process, shown, &mut state);
        if profile.is_err() && !self.ends() {
            state.followed.remove(&process);
        }
        profile
    }

    fn profile_of(
        &self,
        process: i32,
        shown: Shown,
        state: &mut State,
    ) -> Result<Vec<u8>, Refusal> {
        self.check()?;
        let spools = spools_in(&self.folder)?;
        let Some(program) = last_program(&spools, process) else {
            return Err(match spools.is_empty() {
                true => Refusal::NothingYet,
                false => Refusal::Unknown(process),
            });
        };
        let State { followed, symbols } = state;
        let followed = follow(followed, process, program, &spools)?;
        if followed.read.is_none_or(|(at, _)| at.elapsed() >= FRESH) {
            followed.read = None;
            let now = (Instant::now(), SystemTime::now());
            if !followed.running.read_on(&|| !self.ends())? {
                return Err(Refusal::Ended);
            }
            followed.read = Some(now);
        }
        let taken = Taken::Now {
            nanoseconds: followed.read.map_or(0, |(_, at)| since_1970(at)),
            shown,
        };
        let generated = Maps::as_written(&spools).of(process);
        let mut profile = Vec::new();
        let running = &mut followed.running;
        running.write(taken, symbols, &generated, &mut profile)?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), Refusal> {
        match self.ends() {
            true => Err(Refusal::Ended),
            false => Ok(()),
        }
    }

    fn ends(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // Somebody's thread has ended in the middle of reading.
            let mut state = poisoned.into_inner();
            *state = State::default();
            self.state.clear_poison();
            state
        })
    }
}

/// The program that the process has executed last.
fn last_program(spools: &Spools, process: i32) -> Option<u32> {
    let all = spools.range((process, 0)..=(process, u32::MAX));
    all.last().map(|((_, program), _)| *program)
}

fn follow<'a>(
    all: &'a mut BTreeMap<i32, Followed>,
    process: i32,
    program: u32,
    spools: &Spools,
) -> Result<&'a mut Followed, Refusal> {
    all.retain(|number, followed| *number != process || followed.program == program);
    if !all.contains_key(&process) {
        let path = &spools[&(process, program)];
        let running = Running::open(path)?.ok_or(Refusal::NothingYet)?;
        if all.len() >= MOST_FOLLOWED {
            let oldest = all.iter().min_by_key(|(_, followed)| followed.asked);
            let oldest = oldest.map(|(number, _)| *number);
            all.retain(|number, _| Some(*number) != oldest);
        }
        let followed = Followed {
            program,
            running,
            read: None,
            asked: Instant::now(),
        };
        all.insert(process, followed);
    }
    let followed = all.get_mut(&process).ok_or(Refusal::NothingYet)?;
    followed.asked = Instant::now();
    Ok(followed)
}

fn since_1970(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
