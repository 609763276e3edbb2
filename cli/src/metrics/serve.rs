//! The server: a thread for each of a few connections, and one look for readers that come at the same time.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::http::{Answer, Request, converse, send_away};
use super::text::{self, Form};
use super::totals::Totals;
use crate::launch::signals::is_ignored;
use crate::processes::Observer;

const MOST_CONNECTIONS: usize = 64;
/// Younger figures are not asked for: many readers cost no more than four looks a second.
const FRESH: Duration = Duration::from_millis(250);
/// Answers that are under way at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Where no connection can be accepted: descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

const ROOT: &str = concat!(
    "Pagewise ",
    env!("CARGO_PKG_VERSION"),
    "\n\n/metrics has figures of the processes under Pagewise, for Prometheus (OpenMetrics).\n"
);

/// Readable when Ctrl-C or SIGTERM has come; what our caller ignores is ignored.
pub fn asked_to_end() -> nix::Result<SignalFd> {
    let asks = [Signal::SIGINT, Signal::SIGTERM];
    let signals: SigSet = asks.into_iter().filter(|one| !is_ignored(*one)).collect();
    signals.thread_block()?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)
}

/// Until it is asked to end.
pub fn serve(listener: TcpListener, asked_to_end: &SignalFd) -> Result<()> {
    // A connection that is gone before it is accepted is not waited for.
    listener
        .set_nonblocking(true)
        .context("cannot listen without waiting")?;
    let figures = Arc::new(Mutex::new(Figures::default()));
    let connections = Arc::new(AtomicUsize::new(0));
    while wait(&listener, asked_to_end)? {
        match listener.accept() {
            Ok((stream, _)) => hand_over(stream, &figures, &connections),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
    drop(listener);
    let until = Instant::now() + LAST_ANSWERS;
    while connections.load(Ordering::Acquire) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// False: it is to end.
fn wait(listener: &TcpListener, asked_to_end: &SignalFd) -> Result<bool> {
    let mut events = [
        PollFd::new(asked_to_end.as_fd(), PollFlags::POLLIN),
        PollFd::new(listener.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut events, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(events[0].any() != Some(true)),
        Err(error) => Err(error).context("cannot wait for connections"),
    }
}

fn hand_over(stream: TcpStream, figures: &Arc<Mutex<Figures>>, connections: &Arc<AtomicUsize>) {
    if connections.load(Ordering::Acquire) >= MOST_CONNECTIONS {
        send_away(&stream);
        return;
    }
    let (figures, place) = (Arc::clone(figures), Place::take(connections));
    // Where there can be no more threads the connection is closed, and this reader comes again.
    let _ = thread::Builder::new().spawn(move || {
        converse(&stream, |request| respond(request, &figures));
        drop(place);
    });
}

/// One of the connections; given back however its thread ends.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(connections))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn respond(request: &Request, figures: &Mutex<Figures>) -> Answer {
    if !["GET", "HEAD"].contains(&request.method.as_str()) {
        return Answer::short("405 Method Not Allowed");
    }
    match request.path.as_str() {
        "/" => Answer {
            body: ROOT.into(),
            ..Answer::short("200 OK")
        },
        "/metrics" => {
            let form = Form::wanted(&request.accept);
            let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
            Answer {
                status: "200 OK",
                content_type: form.content_type(),
                body: text::of(figures.now(), form),
            }
        }
        _ => Answer::short("404 Not Found"),
    }
}

#[derive(Default)]
struct Figures {
    totals: Totals,
    looked: Option<Instant>,
}

impl Figures {
    fn now(&mut self) -> &Totals {
        let is_fresh = |looked: Instant| looked.elapsed() < FRESH;
        if !self.looked.is_some_and(is_fresh) {
            // A new observer each time: minutes may lie between two looks, and a process has executed another program.
            self.totals
                .take(&Observer::default().look(), Instant::now());
            self.looked = Some(Instant::now());
        }
        &self.totals
    }
}
