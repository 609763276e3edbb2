//! `pagewise trace record --listen`: heap profiles of the recorded processes while they run, for whatever reads pprof.
//!
//! The recording is read where it is being written. Its writers do not notice, and nothing depends on who asks.

mod answers;
mod processes;

use std::io::{self, PipeReader, PipeWriter};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use self::processes::Processes;
use crate::commandline::RecordArguments;
use crate::failure::Failure;
use crate::http::{self, Usual};
use crate::tell::tell;

const USUAL: Usual = Usual {
    // Beside Go's 6060, below the ports that Linux hands out itself.
    port: 6070,
    command: |address| format!("pagewise trace record --listen {address} -o FILE -- COMMAND"),
};

/// The address that will be answered at.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

/// None: nobody wants profiles. To be called before anything runs.
pub fn listen(arguments: &RecordArguments) -> Result<Option<Listener>, Failure> {
    let Some(text) = &arguments.listen else {
        return Ok(None);
    };
    let listener = http::listen(text, &USUAL)?;
    let address = listener.local_addr().map_err(|error| {
        Failure::new(
            format!("no address to listen on: {error}"),
            "--listen 127.0.0.1:6070",
        )
    })?;
    if !arguments.quiet {
        let who = http::reach(address);
        tell(&format!(
            "heap profiles are at http://{address}{}{who}",
            answers::HEAP
        ));
    }
    Ok(Some(Listener { listener, address }))
}

impl Listener {
    /// Answers about the recording in `folder`, whose command is process `main`. That it cannot is no reason to end a
    /// program that has been started.
    pub fn serve(self, folder: &Path, main: i32) -> Option<Server> {
        let served = self.start(folder, main);
        served
            .inspect_err(|error| tell(&format!("profiles cannot be served: {error:#}")))
            .ok()
    }

    fn start(self, folder: &Path, main: i32) -> Result<Server> {
        let (asked_to_end, end) = io::pipe().context("no pipe")?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let processes = Processes::new(folder, main, Arc::clone(&has_ended));
        thread::Builder::new()
            .name("profiles".into())
            .spawn(move || self.answer(processes, &asked_to_end))
            .context("no thread")?;
        Ok(Server {
            has_ended,
            _end: end,
        })
    }

    fn answer(self, processes: Processes, asked_to_end: &PipeReader) {
        let address = self.address;
        let respond = move |request: &http::Request| answers::to(request, &processes, address);
        // Nobody waits for this: what is under way when the recording ends may go on while the trace is made.
        let last_answers = Duration::ZERO;
        if let Err(error) = http::serve(self.listener, asked_to_end.as_fd(), last_answers, respond)
        {
            tell(&format!("profiles are not served any more: {error:#}"));
        }
    }
}

/// Answers for as long as it exists. Dropping it does not wait.
pub struct Server {
    has_ended: Arc<AtomicBool>,
    /// Closed with this.
    _end: PipeWriter,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
    }
}
