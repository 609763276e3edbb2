//! The server: a thread for each of a few connections.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::message::{Answer, Request, converse, send_away};

const MOST_CONNECTIONS: usize = 64;
/// Where no connection can be accepted: descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

type Respond = dyn Fn(&Request) -> Answer + Send + Sync;

/// Until `end` is readable, or its other side is closed. Answers that are under way then have so long.
pub fn serve(
    listener: TcpListener,
    end: BorrowedFd,
    last_answers: Duration,
    respond: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> Result<()> {
    // A connection that is gone before it is accepted is not waited for.
    listener
        .set_nonblocking(true)
        .context("cannot listen without waiting")?;
    let respond: Arc<Respond> = Arc::new(respond);
    let connections = Arc::new(AtomicUsize::new(0));
    while wait(&listener, end)? {
        match listener.accept() {
            Ok((stream, _)) => hand_over(stream, &respond, &connections),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
    drop(listener);
    let until = Instant::now() + last_answers;
    while connections.load(Ordering::Acquire) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Who can ask, in words to be put behind the address.
pub fn reach(address: SocketAddr) -> &'static str {
    match address.ip().is_loopback() {
        true => "",
        false => ", for everybody who can reach this address",
    }
}

/// False: it is to end.
fn wait(listener: &TcpListener, end: BorrowedFd) -> Result<bool> {
    let mut events = [
        PollFd::new(end, PollFlags::POLLIN),
        PollFd::new(listener.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut events, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(events[0].any() != Some(true)),
        Err(error) => Err(error).context("cannot wait for connections"),
    }
}

fn hand_over(stream: TcpStream, respond: &Arc<Respond>, connections: &Arc<AtomicUsize>) {
    if connections.load(Ordering::Acquire) >= MOST_CONNECTIONS {
        send_away(&stream);
        return;
    }
    let (respond, place) = (Arc::clone(respond), Place::take(connections));
    // Where there can be no more threads the connection is closed, and this reader comes again.
    let _ = thread::Builder::new().spawn(move || {
        converse(&stream, |request| answer(request, &*respond));
        drop(place);
    });
}

fn answer(request: &Request, respond: &Respond) -> Answer {
    match request.method.as_str() {
        "GET" | "HEAD" => respond(request),
        _ => Answer::short("405 Method Not Allowed"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_others_is_said_to_be_one() {
        let reach = |address: &str| reach(address.parse().expect(address));
        assert_eq!(reach("127.0.0.1:1"), "");
        assert_eq!(reach("[::1]:1"), "");
        assert!(reach("0.0.0.0:1").contains("everybody"));
        assert!(reach("10.0.0.1:1").contains("everybody"));
    }
}
