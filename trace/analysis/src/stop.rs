//! Why a recording ended before the program did.

use std::fmt;

use nix::errno::Errno;

/// In words as traces have them, and people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Room,
    /// Of what the system said.
    File(i32),
    Memory,
    StrictMode,
    /// Of a JVM's recording: what follows was written, but not as it should have been.
    Damage,
    /// Denied is the system call of this number.
    Filter(u32),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Room => f.write_str(
                "the disk or the limit on file sizes left no room for what was recorded",
            ),
            Self::File(0) => {
                f.write_str("the program could no longer reach what it recorded into")
            }
            Self::File(number) => {
                let error = Errno::from_raw(number).desc();
                write!(f, "the program could no longer reach what it recorded into ({error})")
            }
            Self::Memory => {
                f.write_str("the program had no address space left for what was recorded")
            }
            Self::Damage => {
                f.write_str("what was recorded is damaged from there on, and cannot be read")
            }
            Self::StrictMode => f.write_str(
                "the program entered seccomp's strict mode, where the recorder can make no more room",
            ),
            Self::Filter(call) => {
                let call = name_of(call);
                write!(
                    f,
                    "a seccomp filter of the program denies {call}, without which the recorder can make no more room"
                )
            }
        }
    }
}

/// Of the system calls that the recorder makes for room.
fn name_of(call: u32) -> String {
    let known = [
        (libc::SYS_rt_sigprocmask, "rt_sigprocmask"),
        (libc::SYS_newfstatat, "newfstatat"),
        (libc::SYS_fstat, "fstat"),
        (libc::SYS_prlimit64, "prlimit64"),
        (libc::SYS_fallocate, "fallocate"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_madvise, "madvise"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_clock_gettime, "clock_gettime"),
        (libc::SYS_getpid, "getpid"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == libc::c_long::from(call))
        .map_or_else(
            || format!("system call {call}"),
            |(_, name)| (*name).to_owned(),
        )
}
