//! One replay: a process with the allocator, fed through a pipe, looked at while it waits.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use nix::fcntl::{FcntlArg, fcntl};
use serde::Serialize;
use trace_format::TraceReader;

use super::allocator::Allocator;
use super::loader;
use super::operation::{ANSWER, Answer, END, MODULE, Operation, SYNC};
use super::program::{Needs, Program, each_operation};
use super::resident::Meter;
use crate::failure::Failure;

/// Bytes of operations that are sent at a time.
const CHUNK: usize = 1 << 20;

/// At a pace, operations that are further apart are not sent together.
const PACE_STEP: f64 = 0.01;

/// Memory at one moment of the trace.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sample {
    /// Allocations and frees so far.
    pub operations: u64,
    /// In the recorded run.
    pub seconds: f64,
    pub live_bytes: u64,
    pub resident_bytes: u64,
}

/// What one allocator made of the trace.
#[derive(Debug, Serialize)]
pub struct Replay {
    pub allocator: Allocator,
    pub samples: Vec<Sample>,
    pub refused: u64,
    pub overwritten: u64,
    pub cpu_seconds: f64,
    pub wall_seconds: f64,
    /// Why it ended before the trace.
    pub stopped: Option<String>,
}

pub struct Plan<'a> {
    pub path: &'a Path,
    pub needs: Needs,
    pub samples: u64,
    /// Times as fast as recorded; none: without waiting.
    pub pace: Option<f64>,
    /// Requests beyond this are refused, and a replay that holds more is ended.
    pub memory: u64,
}

struct Session {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    meter: Meter,
    pending: Vec<u8>,
}

pub fn replay(
    trace: &mut TraceReader<File>,
    plan: &Plan,
    allocator: Allocator,
    bar: &ProgressBar,
) -> Result<Replay> {
    let mut session = Session::start(plan, allocator)?;
    let started = Instant::now();
    let mut found = Replay {
        allocator,
        samples: Vec::new(),
        refused: 0,
        overwritten: 0,
        cpu_seconds: 0.0,
        wall_seconds: 0.0,
        stopped: None,
    };
    let mut program = Program::new(plan.memory);
    let mut failed = None;
    let step = (plan.needs.operations / plan.samples).max(1);
    let (mut number, mut latest) = (0, 0.0);
    let mut paced = 0.0;
    each_operation(trace, plan.path, &mut program, bar, |operation, seconds| {
        if let Some(factor) = plan.pace
            && seconds / factor >= paced + PACE_STEP
        {
            paced = seconds / factor;
            failed = session.send(0).err();
            pace(plan.pace, seconds, started);
        }
        number += 1;
        latest = seconds;
        operation.put(&mut session.pending);
        let is_due = number % step == 0 || number == plan.needs.peak_at;
        let done = if is_due {
            pace(plan.pace, seconds, started);
            let at = (number, seconds);
            session.sample(SYNC, at, plan, &mut found)
        } else {
            session.send(CHUNK)
        };
        failed = failed.take().or(done.err());
        failed.is_none() && found.stopped.is_none()
    })?;
    let is_whole = failed.is_none() && found.stopped.is_none();
    if is_whole {
        failed = session
            .sample(END, (number, latest), plan, &mut found)
            .err();
    }
    found.wall_seconds = started.elapsed().as_secs_f64();
    session.end(failed, &mut found)?;
    Ok(found)
}

/// Waits until the recorded run had come as far.
fn pace(pace: Option<f64>, seconds: f64, started: Instant) {
    if let Some(pace) = pace {
        let due = Duration::try_from_secs_f64(seconds / pace).unwrap_or_default();
        thread::sleep(due.saturating_sub(started.elapsed()));
    }
}

impl Session {
    fn start(plan: &Plan, allocator: Allocator) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(loader::NAME)
            .args([
                plan.needs.slots.to_string(),
                plan.needs.threads.to_string(),
                plan.memory.to_string(),
            ])
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(library) = allocator.library()? {
            command.env("LD_PRELOAD", library);
        }
        let mut child = command
            .spawn()
            .context("cannot start the replaying process")?;
        // If somebody must go when memory runs out, it shall be the replay.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
        let (Some(input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            anyhow::bail!("the replaying process has no pipes");
        };
        // Fewer turns between the two; the kernel may have its limits.
        let _ = fcntl(input.as_fd(), FcntlArg::F_SETPIPE_SZ(CHUNK as i32));
        let program = fs::read_link(format!("/proc/{}/exe", child.id())).unwrap_or_default();
        let meter =
            begin(&mut output, allocator).and_then(|()| Ok(Meter::new(child.id(), &program)?));
        match meter {
            Ok(meter) => Ok(Self {
                child,
                input,
                output,
                meter,
                pending: Vec::with_capacity(CHUNK + super::operation::LENGTH),
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.context(format!("cannot replay under {}", allocator.name())))
            }
        }
    }

    /// Sends what is pending once it is as much as `least`.
    fn send(&mut self, least: usize) -> io::Result<()> {
        if self.pending.len() >= least {
            self.input.write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }

    fn sample(
        &mut self,
        kind: u8,
        (operations, seconds): (u64, f64),
        plan: &Plan,
        found: &mut Replay,
    ) -> io::Result<()> {
        let sync = |kind| Operation {
            kind,
            ..Operation::default()
        };
        let mut answer = self.ask(sync(SYNC))?;
        let resident_bytes = self.meter.read()?;
        if kind == END {
            answer = self.ask(sync(END))?;
        }
        found.refused = answer.refused;
        found.overwritten = answer.overwritten;
        found.cpu_seconds = answer.cpu_ns as f64 / 1e9;
        let sample = Sample {
            operations,
            seconds,
            live_bytes: answer.live_bytes,
            resident_bytes,
        };
        found.samples.push(sample);
        if resident_bytes > plan.memory {
            found.stopped = Some("it held all memory that this machine has left".into());
        }
        Ok(())
    }

    fn ask(&mut self, question: Operation) -> io::Result<Answer> {
        question.put(&mut self.pending);
        self.send(0)?;
        let mut bytes = [0; ANSWER];
        self.output.read_exact(&mut bytes)?;
        Ok(Answer::of(bytes))
    }

    fn end(mut self, failed: Option<io::Error>, found: &mut Replay) -> Result<()> {
        drop(self.input);
        if found.stopped.is_some() {
            let _ = self.child.kill();
        }
        let status = self.child.wait().context("the replaying process is lost")?;
        let Some(error) = failed else {
            return Ok(());
        };
        found.stopped = Some(match status.signal() {
            Some(libc::SIGKILL) => {
                "it was killed: this machine or its control group has run out of memory".into()
            }
            Some(signal) => format!("the allocator ended it with signal {signal}"),
            None => format!("the process ended ({status}): {error}"),
        });
        Ok(())
    }
}

/// Waits for the process, and makes sure that it has the allocator.
fn begin(output: &mut ChildStdout, allocator: Allocator) -> Result<()> {
    let mut module = [0; MODULE];
    output
        .read_exact(&mut module)
        .context("the replaying process has ended at once; its table of blocks may need more memory than there is")?;
    let end = module.iter().position(|byte| *byte == 0).unwrap_or(MODULE);
    let file = String::from_utf8_lossy(&module[..end]);
    if allocator.is_in(&file) {
        return Ok(());
    }
    Err(Failure::new(
        format!("malloc is that of {file}, not {}'s", allocator.name()),
        "env -u LD_PRELOAD; or look into /etc/ld.so.preload",
    )
    .kept("nothing was replayed")
    .into())
}

impl Replay {
    /// The rule that no layout can break: what is live is resident.
    pub fn below_live(&self) -> Option<&Sample> {
        self.samples
            .iter()
            .find(|sample| sample.resident_bytes < sample.live_bytes)
    }

    pub fn peak(&self) -> u64 {
        self.max(|sample| sample.resident_bytes)
    }

    pub fn live_peak(&self) -> u64 {
        self.max(|sample| sample.live_bytes)
    }

    pub fn average(&self) -> f64 {
        self.mean(|sample| sample.resident_bytes)
    }

    pub fn live_average(&self) -> f64 {
        self.mean(|sample| sample.live_bytes)
    }

    pub fn peak_fragmentation(&self) -> f64 {
        self.peak() as f64 / self.live_peak().max(1) as f64
    }

    pub fn average_fragmentation(&self) -> f64 {
        self.average() / self.live_average().max(1.0)
    }

    fn max(&self, of: fn(&Sample) -> u64) -> u64 {
        self.samples.iter().map(of).max().unwrap_or(0)
    }

    /// Over allocations and frees: each sample stands for those since the one before.
    fn mean(&self, of: fn(&Sample) -> u64) -> f64 {
        let mut before = 0;
        let mut sum = 0.0;
        for sample in &self.samples {
            sum += of(sample) as f64 * (sample.operations - before) as f64;
            before = sample.operations;
        }
        sum / before.max(1) as f64
    }
}
