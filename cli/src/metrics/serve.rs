//! What is served: one look for readers that come at the same time.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::text::{self, Form};
use super::totals::Totals;
use crate::http::{self, Answer, Request};
use crate::launch::signals::is_ignored;
use crate::processes::Observer;

/// Younger figures are not asked for: many readers cost no more than four looks a second.
const FRESH: Duration = Duration::from_millis(250);
/// Answers that are under way at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

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
    let figures = Mutex::new(Figures::default());
    let respond = move |request: &Request| respond(request, &figures);
    http::serve(listener, asked_to_end.as_fd(), LAST_ANSWERS, respond)
}

fn respond(request: &Request, figures: &Mutex<Figures>) -> Answer {
    match request.path.as_str() {
        "/" => Answer::text("200 OK", ROOT),
        "/metrics" => {
            let form = Form::wanted(&request.accept);
            let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
            Answer {
                content_type: form.content_type(),
                ..Answer::text("200 OK", text::of(figures.now(), form))
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
