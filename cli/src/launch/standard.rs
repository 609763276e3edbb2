//! Standard streams that were closed where this process began.
//!
//! Rust's runtime opens /dev/null in their place before `main`. The command is to find its input and output closed, as it
//! would without us, and what we were to write there has not been written. Standard error stays /dev/null: by its number a
//! preloaded library would write its warnings into a file of the program's.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each of the three.
static CLOSED: AtomicU8 = AtomicU8::new(0);

// SAFETY: the function makes system calls alone, and needs nothing that the runtime has not set up yet.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for stream in 0..3 {
        // SAFETY: no pointers are passed.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
}

pub fn was_closed(stream: RawFd) -> bool {
    (0..3).contains(&stream) && CLOSED.load(Ordering::Relaxed) & (1 << stream) != 0
}

/// Standard output, where there is one.
pub fn output() -> io::Result<io::Stdout> {
    match was_closed(libc::STDOUT_FILENO) {
        true => Err(io::Error::from_raw_os_error(libc::EBADF)),
        false => Ok(io::stdout()),
    }
}

/// In a child that has its streams: closes input and output where they are still the runtime's. Async-signal-safe.
pub fn close_again() {
    for stream in (0..2).filter(|&stream| was_closed(stream)) {
        if is_null_device(stream) {
            // SAFETY: nothing of this process's is behind it.
            unsafe { libc::close(stream) };
        }
    }
}

fn is_null_device(stream: RawFd) -> bool {
    // SAFETY: all zero bytes are a valid stat, and `status` a valid place for the answer.
    let (result, status) = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(stream, &raw mut status), status)
    };
    result == 0
        && status.st_mode & libc::S_IFMT == libc::S_IFCHR
        && status.st_rdev == libc::makedev(1, 3)
}
