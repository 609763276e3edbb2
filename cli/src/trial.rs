//! One measured run of the command under one policy.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::failure::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure};
use crate::ksm::{self, Ksm};
use crate::launch::environment::{merge_options, preload_list};
use crate::launch::library::{GENERAL, Library, PRELOAD};
use crate::launch::places::places;
use crate::launch::signals::Gate;
use crate::launch::supervise::{Ended, Running, own_usage};
use crate::measure::SamplerKind;
use crate::measure::cgroup::{Cgroup, Location, killed, limit, own_location};
use crate::measure::meter::{How, Meter};
use crate::measure::process_tree::Strangers;
use crate::measure::record::Measurement;
use crate::policy::Policy;
use crate::statistics_block::Statistics;

/// A statistics block is no larger.
const BLOCK: usize = 4096;

/// What is the same for all runs of one command.
pub struct Setting<'a> {
    pub command: &'a [OsString],
    /// For each library that a policy needs, where it is. None when the command cannot be preloaded.
    pub libraries: Vec<(&'static str, PathBuf)>,
    pub options: String,
    pub sampler: SamplerKind,
    /// None: what is usual for the sampler.
    pub period: Option<Duration>,
    pub timeout: Option<Duration>,
    pub keeps_curve: bool,
    pub gate: &'a Gate,
}

/// What a policy needs to have preloaded.
pub fn library_of(policy: Policy) -> Option<&'static Library> {
    match policy {
        Policy::Plain => None,
        Policy::General => Some(&GENERAL),
        _ => Some(&PRELOAD),
    }
}

impl Setting<'_> {
    /// None: the policy needs no library, or the command cannot be preloaded.
    fn library_for(&self, policy: Policy) -> Option<&Path> {
        let wanted = library_of(policy)?.file_name;
        let found = self.libraries.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, path)| path.as_path())
    }
}

/// Where the command reads and writes.
pub struct Streams {
    pub stdin: Stdio,
    pub stdout: Stdio,
    pub stderr: Stdio,
    /// Processes that outlive the command would go on writing there, and must end.
    pub are_captured: bool,
}

pub struct Trial {
    pub ended: Ended,
    pub wall: Duration,
    pub memory: Measurement,
    pub cgroup_peak: Option<u64>,
    pub ksmd_cpu: Option<Duration>,
    /// The kernel ended processes of the command because memory ran out.
    pub ran_out: Option<RanOut>,
    /// None when the library was not preloaded.
    pub statistics: Option<Statistics>,
}

/// What became of a command that needed more memory than there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RanOut {
    pub processes: u64,
    /// None: it was the machine's.
    pub limit: Option<u64>,
}

impl Trial {
    /// The program's and, where it worked for it, ksmd's.
    pub fn cpu(&self) -> Duration {
        self.ended.usage.cpu + self.ksmd_cpu.unwrap_or_default()
    }

    pub fn has_succeeded(&self) -> bool {
        self.ended.end.status() == 0 && !self.ended.timed_out
    }
}

/// Fails as [`Interrupted`](crate::launch::signals::Interrupted) when a signal has asked for the end before the command was started.
pub fn run(setting: &Setting, policy: Policy, streams: Streams) -> anyhow::Result<Trial> {
    let library = setting.library_for(policy);
    let (folder, refused) = library.map(|_| statistics_folder()).transpose()?.unzip();
    let ksm = start_merging(policy)?;
    let cgroup = match setting.sampler {
        SamplerKind::Counters => None,
        _ => Cgroup::create(),
    };
    let are_captured = streams.are_captured;
    let mut command = prepare(setting, policy, streams, library, folder.as_ref());

    let group = match &cgroup {
        Some(own) => Some(own.location()),
        None => own_location(Path::new("/")),
    };
    let killed_before = group.as_ref().and_then(killed);
    let strangers = Strangers::now();
    setting.gate.check_before_start()?;
    let started = Instant::now();
    // The kernel takes what a process was before it executed a program for its peak: a copy of this one.
    let own_peak = own_usage().peak_resident_bytes;
    let entrance = cgroup.as_ref().map(Cgroup::entrance);
    let mut running = Running::start(
        &mut command,
        setting.gate,
        entrance,
        setting.timeout,
        strangers.clone(),
    )
    .map_err(|error| not_started(&setting.command[0], &error))?;
    // The parent's copies of captured streams are closed.
    drop(command);
    let how = How {
        kind: setting.sampler,
        period: setting.period,
        keeps_curve: setting.keeps_curve,
        statistics: folder.as_ref().map(|folder| folder.path().to_owned()),
    };
    let meter = Meter::start(how, started, strangers).map_err(lost)?;
    let (end, at) = running.wait().map_err(lost)?;
    let mut memory = meter.finish(at).map_err(lost)?;
    let ended = running.settle(end, at, are_captured);
    let mut statistics =
        folder.map(|folder| Statistics::read_folder(folder.path()).unwrap_or_default());
    if let Some(found) = &mut statistics {
        found.refused = refused.flatten();
    }
    let has_shared = statistics.as_ref().is_some_and(|s| s.get("publishes") > 0);
    if !has_shared && ended.usage.peak_resident_bytes > own_peak {
        memory.raise_to(ended.usage.peak_resident_bytes);
    }

    Ok(Trial {
        wall: ended.at - started,
        memory,
        cgroup_peak: cgroup.as_ref().and_then(Cgroup::peak_bytes),
        ran_out: group.and_then(|group| ran_out(&group, killed_before?)),
        ksmd_cpu: ksm.as_ref().and_then(Ksm::cpu_time),
        statistics,
        ended,
    })
}

fn ran_out(group: &Location, killed_before: u64) -> Option<RanOut> {
    let processes = killed(group)?.saturating_sub(killed_before);
    (processes > 0).then(|| RanOut {
        processes,
        limit: limit(group),
    })
}

fn prepare(
    setting: &Setting,
    policy: Policy,
    streams: Streams,
    library: Option<&Path>,
    folder: Option<&TempDir>,
) -> Command {
    let mut command = Command::new(&setting.command[0]);
    command
        .args(&setting.command[1..])
        .stdin(streams.stdin)
        .stdout(streams.stdout)
        .stderr(streams.stderr);
    let existing = std::env::var_os("LD_PRELOAD");
    let ours = library_of(policy).unwrap_or(&PRELOAD);
    let preload = preload_list(ours, library, existing.as_deref());
    // Set only where it differs: an unset variable and an empty one are not the same to a program.
    if preload != existing.unwrap_or_default() {
        command.env("LD_PRELOAD", preload);
    }
    if let Some(folder) = folder {
        let ours = format!("policy={policy},statistics={}", folder.path().display());
        let merged = merge_options(&[&setting.options, &ours]);
        command.env("PAGEWISE_OPTIONS", merged);
    }
    command
}

/// Statistics blocks are shared memory: a folder that is not on a disk is best. Only its owner may enter. Where none has
/// room for a block, why; the command runs all the same.
fn statistics_folder() -> Result<(TempDir, Option<io::ErrorKind>), Failure> {
    let mut without_room = None;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in places().filter(|place| is_plain(place.as_os_str())) {
        let made = tempfile::Builder::new()
            .prefix("pagewise-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&place);
        match made {
            Ok(folder) => match try_writing(folder.path()) {
                Ok(()) => return Ok((folder, None)),
                Err(error) => without_room = without_room.or(Some((folder, Some(error.kind())))),
            },
            Err(error) => last = error,
        }
    }
    if let Some(found) = without_room {
        return Ok(found);
    }
    Err(Failure::new(
        format!("cannot make a folder for the statistics: {last}"),
        "TMPDIR=/a/folder/you/may/write/to pagewise ...",
    ))
}

/// Is there room for a block?
fn try_writing(folder: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&[1; BLOCK])
}

/// The option string has no quotes: a comma in a folder's name would end it.
fn is_plain(folder: &OsStr) -> bool {
    folder
        .to_str()
        .is_some_and(|name| name.starts_with('/') && !name.contains(','))
}

fn start_merging(policy: Policy) -> Result<Option<Ksm>, Failure> {
    let Some(pages) = policy.merged_pages_per_round() else {
        return Ok(None);
    };
    Ksm::start(ksm::Places::default(), pages)
        .map(Some)
        .map_err(|error| {
            let next = match error {
                ksm::Error::Forbidden(_) => format!("sudo pagewise ... {policy} ..."),
                ksm::Error::Busy(process) => format!("wait for it, or: kill {process}"),
                _ => "pagewise doctor".into(),
            };
            Failure::new(format!("policy {policy}: {error}"), next)
        })
}

pub fn not_started(command: &OsStr, error: &io::Error) -> Failure {
    let name = command.to_string_lossy();
    let exit = match error.kind() {
        io::ErrorKind::NotFound => EXIT_NOT_FOUND,
        _ => EXIT_NOT_EXECUTABLE,
    };
    let next = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("head -1 {name}: the interpreter of a script or program may be missing")
        }
        _ => format!("file {name}; ls -l {name}"),
    };
    Failure::new(format!("cannot execute {name}: {error}"), next).exit(exit)
}

pub fn lost(error: io::Error) -> Failure {
    Failure::new(
        format!("lost sight of the command: {error}"),
        "the same again; if it goes on, pagewise doctor",
    )
    .kept("the command itself was not stopped")
}
