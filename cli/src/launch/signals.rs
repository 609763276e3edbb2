//! Signals on their way to the command.
//!
//! The command stays in our process group, so what the terminal sends (Ctrl-C, Ctrl-Z, hang-up, a new
//! window size) reaches it without us, and we only must not die of it. What somebody sends with kill to
//! this process alone is passed on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signal::{sigaction, sigprocmask};
use procfs_core::FromRead;
use procfs_core::process::Status;

const WATCHED: &[Signal] = &[
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGCHLD,
];
/// What timers send that were set before pagewise was executed. The command has not inherited them.
const OF_TIMERS: &[Signal] = &[Signal::SIGALRM, Signal::SIGVTALRM, Signal::SIGPROF];
/// Of these, the ones that ask this process to end.
const ENDING: &[Signal] = &[
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
];
/// si_code of a signal that the kernel itself, such as the terminal, has sent.
const SI_KERNEL: i32 = 0x80;

/// Was SIGPIPE ignored by whoever started us?
static IGNORED_PIPES: AtomicBool = AtomicBool::new(false);
/// Was SIGXFSZ?
static IGNORED_SIZES: AtomicBool = AtomicBool::new(false);

/// Rust ignores SIGPIPE before main, and gives every command the default: what was there before is known only to what runs earlier.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_EARLY: extern "C" fn() = look_early;

extern "C" fn look_early() {
    IGNORED_PIPES.store(is_ignored(Signal::SIGPIPE), Ordering::Relaxed);
    IGNORED_SIZES.store(is_ignored(Signal::SIGXFSZ), Ordering::Relaxed);
}

/// A file of ours beyond the limit on file sizes is an error that is told, and not the end of this process.
pub fn outlive_file_limits() {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: ignoring runs no code of ours.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &ignore) };
}

pub fn is_ignored(signal: Signal) -> bool {
    is_number_ignored(signal as i32)
}

fn is_number_ignored(number: i32) -> bool {
    // SAFETY: all zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed, and `action` is a valid place for the answer.
    let result = unsafe { libc::sigaction(number, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// What our caller ignores is none of our business, as under nohup; our children's ends are.
fn watched() -> SigSet {
    let is_watched = |signal: &Signal| *signal == Signal::SIGCHLD || !is_ignored(*signal);
    let named: SigSet = WATCHED.iter().copied().filter(is_watched).collect();
    let mut all: libc::sigset_t = *named.as_ref();
    for number in (libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|number| !is_number_ignored(*number))
    {
        // SAFETY: `all` is a set that is there.
        unsafe { libc::sigaddset(&raw mut all, number) };
    }
    // SAFETY: it is a set of the C library's, with signals that nix has no names for.
    unsafe { SigSet::from_sigset_t_unchecked(all) }
}

/// A signal asked to end while no command was running.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted(pub Signal);

/// While it exists, signals wait to be fetched instead of ending this process.
pub struct Gate {
    watched: SigSet,
    original: SigSet,
    ignored_children: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    number: i32,
    /// Process that sent it with kill.
    pub sender: Option<i32>,
    /// Sent by the kernel itself, such as what comes from the terminal.
    is_kernels: bool,
}

impl Arrival {
    /// None: a real-time signal.
    pub fn signal(&self) -> Option<Signal> {
        Signal::try_from(self.number).ok()
    }

    /// The signal, where it asks this process to end.
    pub fn end_asked_for(&self) -> Option<Signal> {
        self.signal().filter(|signal| ENDING.contains(signal))
    }

    /// Has it reached that process already? So has what the terminal sends, and what waits for it, which was sent to the
    /// whole process group. Of a real-time signal several can wait, so one that waits says nothing of this one.
    pub fn has_reached(&self, process: i32) -> bool {
        match self.signal() {
            None => false,
            Some(signal) if self.is_kernels && !OF_TIMERS.contains(&signal) => true,
            Some(signal) => is_pending(process, signal),
        }
    }

    pub fn pass_on(&self, process: i32) {
        // Not by nix, which knows no real-time signals.
        // SAFETY: no pointers are passed.
        unsafe { libc::kill(process, self.number) };
    }
}

/// Is the signal waiting for a process that blocks it or has not run since?
fn is_pending(process: i32, signal: Signal) -> bool {
    let bit = 1_u64 << (signal as i32 - 1);
    let status = Status::from_file(format!("/proc/{process}/status"));
    status.is_ok_and(|status| status.shdpnd & bit != 0)
}

impl Gate {
    /// To be called before any thread is started: threads inherit the mask.
    pub fn close() -> io::Result<Self> {
        let watched = watched();
        let mut original = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&watched), Some(&mut original))?;
        // Ignored by whoever started us, children would vanish without leaving their status.
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: the default action runs no code of ours.
        let before = unsafe { sigaction(Signal::SIGCHLD, &default) }?;
        Ok(Self {
            watched,
            original,
            ignored_children: matches!(before.handler(), SigHandler::SigIgn),
        })
    }

    /// Gives the command the signal state that this process was started with. For use between fork and
    /// exec: it makes a few system calls and nothing else.
    pub fn restore_in_child(&self) -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
        let original = self.original;
        let ignored_children = self.ignored_children;
        let ignored_pipes = IGNORED_PIPES.load(Ordering::Relaxed);
        let ignored_sizes = IGNORED_SIZES.load(Ordering::Relaxed);
        move || {
            for (signal, was_ignored) in [
                (Signal::SIGCHLD, ignored_children),
                (Signal::SIGPIPE, ignored_pipes),
                (Signal::SIGXFSZ, ignored_sizes),
            ] {
                let handler = match was_ignored {
                    true => SigHandler::SigIgn,
                    false => SigHandler::SigDfl,
                };
                let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
                // SAFETY: neither action runs code of ours.
                unsafe { sigaction(signal, &action) }?;
            }
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&original), None)?;
            Ok(())
        }
    }

    /// The next signal, or none when the time is over.
    pub fn wait(&self, timeout: Duration) -> Option<Arrival> {
        Self::fetch(&self.watched, timeout)
    }

    fn fetch(watched: &SigSet, timeout: Duration) -> Option<Arrival> {
        let time = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // SAFETY: all zero bytes are a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the three pointers are valid for the call.
        let number =
            unsafe { libc::sigtimedwait(watched.as_ref(), &raw mut info, &raw const time) };
        let is_sent = matches!(
            info.si_code,
            libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL
        );
        // SAFETY: si_pid is set for signals that a process has sent.
        let sender = is_sent.then(|| unsafe { info.si_pid() });
        (number > 0).then_some(Arrival {
            number,
            sender,
            is_kernels: info.si_code == SI_KERNEL,
        })
    }

    /// Stops this process as Ctrl-Z would, by the default action: the kernel lets one run on that no shell could continue.
    pub fn stop_if(&self, is_to_stop: impl FnOnce() -> bool) -> io::Result<()> {
        let only: SigSet = std::iter::once(Signal::SIGTSTP).collect();
        // It waits while it is blocked, and a SIGCONT takes it back. So none is lost between the question and the stop.
        nix::sys::signal::raise(Signal::SIGTSTP)?;
        if is_to_stop() {
            let mut before = SigSet::empty();
            sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&only), Some(&mut before))?;
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
        } else if self.watched.contains(Signal::SIGTSTP) {
            Self::fetch(&only, Duration::ZERO);
        }
        Ok(())
    }

    /// To be asked right before a command is started: the terminal's Ctrl-C and Ctrl-Z have not reached it, and would be
    /// lost. Other signals wait for it.
    pub fn check_before_start(&self) -> Result<(), Interrupted> {
        let stopping: SigSet = std::iter::once(Signal::SIGTSTP).collect();
        if Self::fetch(&stopping, Duration::ZERO).is_some() {
            let _ = self.stop_if(|| true);
        }
        let ending: SigSet = ENDING.iter().copied().collect();
        match Self::fetch(&ending, Duration::ZERO).and_then(|arrival| arrival.end_asked_for()) {
            Some(signal) => Err(Interrupted(signal)),
            None => Ok(()),
        }
    }

    /// A request to end that arrived while no command was running.
    pub fn pending_end(&self) -> Option<Signal> {
        while let Some(arrival) = self.wait(Duration::ZERO) {
            if let Some(signal) = arrival.end_asked_for() {
                return Some(signal);
            }
        }
        None
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.original), None);
    }
}

/// Ends this process by a signal, so that whoever waits for it sees what became of the command.
pub fn die_of(signal: i32) -> ! {
    // The command has left a core, if any; ours would overwrite it.
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
    // Not by nix, which knows no real-time signals.
    // SAFETY: all zero bytes are a valid sigset_t, and the pointers are valid for their calls. The default action runs no
    // code of ours. It cannot be set for SIGKILL, nor need be.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut only, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
    }
    // Signals that do not end a process, and those that the C library keeps to itself.
    std::process::exit(128 + signal)
}

/// "signal 9 (SIGKILL)".
pub fn in_words(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(
        |_| format!("signal {signal}"),
        |known| format!("signal {signal} ({known})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(in_words(9), "signal 9 (SIGKILL)");
        assert_eq!(in_words(40), "signal 40");
    }

    #[test]
    fn a_request_to_end_is_seen_before_the_start_and_others_wait() {
        let gate = Gate::close().expect("gate");
        assert!(gate.check_before_start().is_ok());
        // Raised for this thread alone: the other tests' do not notice.
        for signal in [Signal::SIGUSR1, Signal::SIGTERM] {
            nix::sys::signal::raise(signal).expect("raised");
        }
        let interrupted = gate.check_before_start().expect_err("SIGTERM");
        assert_eq!(interrupted.0, Signal::SIGTERM);
        assert!(gate.check_before_start().is_ok());
        let next = gate.wait(Duration::ZERO).expect("SIGUSR1");
        assert_eq!(next.signal(), Some(Signal::SIGUSR1));
    }

    #[test]
    fn only_some_signals_ask_to_end() {
        let asks = |number| {
            let arrival = Arrival {
                number,
                sender: None,
                is_kernels: false,
            };
            arrival.end_asked_for().is_some()
        };
        assert!(asks(libc::SIGTERM));
        assert!(!asks(libc::SIGWINCH) && !asks(libc::SIGRTMIN()));
    }
}
