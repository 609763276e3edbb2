//! Waiting for the command, and for what it leaves behind.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::signals::{Arrival, Gate};
use super::standard;
use crate::measure::process_tree::{self, Strangers};

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Signals wake the wait; this is only a bound on one.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Killed(i32),
}

impl End {
    /// As the shell puts it.
    pub fn status(self) -> i32 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => 128 + signal,
        }
    }

    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Exited(_) => None,
            Self::Killed(signal) => Some(signal),
        }
    }
}

/// What the command and its reaped descendants have used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu: Duration,
    /// Its part in the kernel; of processes that go on running it is not known.
    pub system: Duration,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// The largest resident set that one process has had.
    pub peak_resident_bytes: u64,
}

impl Usage {
    fn add(&mut self, usage: &libc::rusage) {
        self.cpu += duration(usage.ru_utime) + duration(usage.ru_stime);
        self.system += duration(usage.ru_stime);
        self.minor_faults += u64::try_from(usage.ru_minflt).unwrap_or(0);
        self.major_faults += u64::try_from(usage.ru_majflt).unwrap_or(0);
        self.peak_resident_bytes = self.peak_resident_bytes.max(peak_resident(usage));
    }
}

/// In kilobytes.
fn peak_resident(usage: &libc::rusage) -> u64 {
    u64::try_from(usage.ru_maxrss)
        .unwrap_or(0)
        .saturating_mul(1024)
}

/// What this process has used so far; its CPU time is without its children's.
pub fn own_usage() -> Usage {
    usage_of(libc::RUSAGE_SELF)
}

/// What all children have used that have ended and were waited for, with theirs.
pub fn usage_of_children() -> Usage {
    usage_of(libc::RUSAGE_CHILDREN)
}

fn usage_of(whose: libc::c_int) -> Usage {
    // SAFETY: all zero bytes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for the answer.
    unsafe { libc::getrusage(whose, &raw mut usage) };
    let mut sum = Usage::default();
    sum.add(&usage);
    sum
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
        + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

pub struct Ended {
    pub end: End,
    pub at: Instant,
    pub usage: Usage,
    pub timed_out: bool,
    /// A signal that asked this process to end while the command ran.
    pub interrupted: Option<Signal>,
    /// Descendants that were still running when the command had ended.
    pub left_over: usize,
}

pub struct Running<'a> {
    gate: &'a Gate,
    process: Pid,
    strangers: Strangers,
    deadline: Option<Instant>,
    usage: Usage,
    interrupted: Option<Signal>,
    /// SIGTSTP has come and SIGCONT has not since.
    is_asked_to_stop: bool,
    timed_out: bool,
}

/// Orphans of the command become our children instead of init's, and so stay countable.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    nix::errno::Errno::result(result)?;
    Ok(())
}

impl<'a> Running<'a> {
    /// `entrance` is a cgroup's cgroup.procs, opened for writing. There is no deadline when `timeout` reaches beyond all time.
    /// `strangers` is what there was before.
    pub fn start(
        command: &mut Command,
        gate: &'a Gate,
        entrance: Option<i32>,
        timeout: Option<Duration>,
        mut strangers: Strangers,
    ) -> io::Result<Self> {
        let restore_signals = gate.restore_in_child();
        // SAFETY: the closure makes async-signal-safe system calls only.
        unsafe {
            command.pre_exec(move || {
                if let Some(entrance) = entrance {
                    // The run is worth as much outside the group.
                    libc::write(entrance, b"0".as_ptr().cast(), 1);
                }
                standard::close_again();
                restore_signals()
            })
        };
        let child = command.spawn()?;
        let process = i32::try_from(child.id()).map_err(io::Error::other)?;
        // The number may have been one's that has ended since.
        strangers.remove(process);
        Ok(Self {
            gate,
            process: Pid::from_raw(process),
            strangers,
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            usage: Usage::default(),
            interrupted: None,
            is_asked_to_stop: false,
            timed_out: false,
        })
    }

    /// The command's own process.
    pub fn process(&self) -> i32 {
        self.process.as_raw()
    }

    /// Sees the command to its end.
    pub fn wait(&mut self) -> io::Result<(End, Instant)> {
        loop {
            if let Some(end) = self.reap()? {
                return Ok((end, Instant::now()));
            }
            let wait = self.time_to_deadline();
            match self.gate.wait(wait) {
                Some(arrival) => self.handle(arrival),
                None => self.check_deadline(),
            }
        }
    }

    /// Accounts for descendants that outlive the command; with `end_left_over` they are made to end.
    pub fn settle(mut self, end: End, at: Instant, end_left_over: bool) -> Ended {
        self.reap_orphans();
        let left_over = self.strangers.others();
        if end_left_over {
            self.end_all(&left_over);
        } else {
            self.usage.cpu += cpu_time_of(&left_over);
        }
        Ended {
            end,
            at,
            usage: self.usage,
            timed_out: self.timed_out,
            interrupted: self.interrupted,
            left_over: left_over.len(),
        }
    }

    /// Collects every process that has ended; returns the command's own end when it is among them.
    fn reap(&mut self) -> io::Result<Option<End>> {
        while let Some((process, end, usage)) = wait_without_blocking()? {
            self.count(process, &usage);
            if process == self.process {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn reap_orphans(&mut self) {
        while let Ok(Some((process, _, usage))) = wait_without_blocking() {
            self.count(process, &usage);
        }
    }

    fn count(&mut self, process: Pid, usage: &libc::rusage) {
        if !self.strangers.remove(process.as_raw()) {
            self.usage.add(usage);
        }
    }

    fn time_to_deadline(&self) -> Duration {
        self.deadline.map_or(LONGEST_WAIT, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    }

    fn check_deadline(&mut self) {
        let Some(deadline) = self.deadline else {
            return;
        };
        if Instant::now() < deadline {
            return;
        }
        let signal = if self.timed_out {
            Signal::SIGKILL
        } else {
            Signal::SIGTERM
        };
        for process in self.strangers.others() {
            send(process, signal);
        }
        self.timed_out = true;
        self.deadline = Some(Instant::now() + GRACE);
    }

    fn handle(&mut self, arrival: Arrival) {
        match arrival.signal() {
            Some(Signal::SIGCHLD) => return self.stop_with_command(),
            Some(Signal::SIGTSTP) => self.is_asked_to_stop = true,
            Some(Signal::SIGCONT) => self.is_asked_to_stop = false,
            _ => {}
        }
        let is_of_the_command = arrival
            .sender
            .is_some_and(|sender| self.strangers.others().contains(&sender));
        // A command that signals its whole process group means its own.
        if !is_of_the_command {
            self.interrupted = arrival.end_asked_for().or(self.interrupted);
            if !arrival.has_reached(self.process()) {
                arrival.pass_on(self.process());
            }
        }
        if arrival.signal() == Some(Signal::SIGTSTP) {
            // The command may have stopped before this was fetched.
            self.stop_with_command();
        }
    }

    /// The shell must see this process stop where the command has; SIGCONT continues both.
    fn stop_with_command(&self) {
        if self.has_stopped_for_shell(WaitPidFlag::WNOWAIT) {
            // The stop is taken here, so that it is followed once.
            let is_stopped = || self.has_stopped_for_shell(WaitPidFlag::empty());
            let _ = self.gate.stop_if(is_stopped);
        }
    }

    /// Programs that put the terminal right before they stop often do it by SIGSTOP. Without a SIGTSTP before, that is
    /// somebody else's, who will continue the command alone. The terminal's other stops reach this process as well.
    fn has_stopped_for_shell(&self, flag: WaitPidFlag) -> bool {
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | flag;
        match waitid(Id::Pid(self.process), flags) {
            Ok(WaitStatus::Stopped(_, Signal::SIGTSTP)) => true,
            Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => self.is_asked_to_stop,
            _ => false,
        }
    }

    fn end_all(&mut self, left_over: &[i32]) {
        for &process in left_over {
            send(process, Signal::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        loop {
            self.reap_orphans();
            let alive = self.strangers.others();
            // One that hangs in the kernel cannot be waited for.
            if alive.is_empty() || Instant::now() > deadline + GRACE {
                return;
            }
            if Instant::now() > deadline {
                for process in alive {
                    send(process, Signal::SIGKILL);
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn send(process: i32, signal: Signal) {
    let _ = signal::kill(Pid::from_raw(process), signal);
}

fn cpu_time_of(processes: &[i32]) -> Duration {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let total: u64 = processes
        .iter()
        .filter_map(|&process| process_tree::cpu_ticks(process))
        .sum();
    Duration::from_secs_f64(total as f64 / ticks.max(1) as f64)
}

fn wait_without_blocking() -> io::Result<Option<(Pid, End, libc::rusage)>> {
    let mut status = 0;
    // SAFETY: all zero bytes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let process = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    match process {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINTR) => Ok(None),
            error if error.raw_os_error() == Some(libc::ECHILD) => Err(io::Error::other(
                "the command ended without leaving its status",
            )),
            error => Err(error),
        },
        _ => Ok(Some((Pid::from_raw(process), end_of(status), usage))),
    }
}

fn end_of(status: i32) -> End {
    if libc::WIFSIGNALED(status) {
        End::Killed(libc::WTERMSIG(status))
    } else {
        End::Exited(libc::WEXITSTATUS(status))
    }
}
