//! As much of HTTP as a reader of figures needs: one request a connection, without a body, short and soon.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Prometheus sends about 300 bytes.
const LONGEST: usize = 8192;
const MOST_HEADERS: usize = 64;
/// To send a request, and to take an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a reader still sends is read for so long: an answer is lost where a connection is closed upon unread bytes.
const LINGER: Duration = Duration::from_millis(500);

#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Without what follows a question mark.
    pub path: String,
    /// What follows it.
    pub query: String,
    pub accept: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is nobody to be answered.
    Gone,
    Malformed,
    TooLong,
    TooSlow,
}

pub struct Answer {
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// Reads one request and sends what `respond` makes of it.
pub fn converse(stream: &TcpStream, respond: impl FnOnce(&Request) -> Answer) {
    let request = read(&mut Timed::new(stream, PATIENCE));
    let is_head = request
        .as_ref()
        .is_ok_and(|request| request.method == "HEAD");
    let answer = match &request {
        Ok(request) => respond(request),
        Err(Refusal::Gone) => return,
        Err(refusal) => Answer::short(refusal.status()),
    };
    let sent = Timed::new(stream, PATIENCE).write_all(&answer.bytes(is_head));
    if sent.is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        let rest = Timed::new(stream, LINGER).take(8 * LONGEST as u64);
        let _ = io::copy(&mut { rest }, &mut io::sink());
    }
}

/// Without having read what was asked, and without waiting.
pub fn send_away(stream: &TcpStream) {
    let bytes = Answer::short("503 Service Unavailable").bytes(false);
    let _ = Timed::new(stream, Duration::from_millis(10)).write_all(&bytes);
}

fn read(stream: &mut impl Read) -> Result<Request, Refusal> {
    let mut bytes = Vec::new();
    let mut piece = [0; 2048];
    while bytes.len() < LONGEST {
        let room = piece.len().min(LONGEST - bytes.len());
        match stream.read(&mut piece[..room]) {
            Ok(0) if bytes.is_empty() => return Err(Refusal::Gone),
            Ok(0) => return Err(Refusal::Malformed),
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if is_late(&error) => return Err(Refusal::TooSlow),
            Err(_) => return Err(Refusal::Gone),
        }
        if let Some(request) = parse(&bytes)? {
            return Ok(request);
        }
    }
    Err(Refusal::TooLong)
}

/// None: it is not complete.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut found = httparse::Request::new(&mut headers);
    match found.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLong),
        Err(_) => return Err(Refusal::Malformed),
    }
    let accept = |header: &&httparse::Header| header.name.eq_ignore_ascii_case("accept");
    let accept = found.headers.iter().filter(accept);
    let accept: Vec<_> = accept
        .map(|header| String::from_utf8_lossy(header.value))
        .collect();
    let target = found.path.unwrap_or_default();
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Some(Request {
        method: found.method.unwrap_or_default().into(),
        path: path.into(),
        query: query.into(),
        accept: accept.join(","),
    }))
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Refusal {
    fn status(&self) -> &'static str {
        match self {
            Self::Gone | Self::Malformed => "400 Bad Request",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::TooSlow => "408 Request Timeout",
        }
    }
}

impl Answer {
    /// The status is all that there is to say.
    pub fn short(status: &'static str) -> Self {
        Self::text(status, format!("{status}\n"))
    }

    pub fn text(status: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: text.into().into_bytes(),
        }
    }

    fn bytes(&self, is_head: bool) -> Vec<u8> {
        let allowed = match self.status.starts_with("405") {
            true => "Allow: GET, HEAD\r\n",
            false => "",
        };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allowed}\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        let body: &[u8] = if is_head { &[] } else { &self.body };
        [head.as_bytes(), body].concat()
    }
}

/// A connection on which everything together takes so long at most.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            until: Instant::now() + patience,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Request, Refusal> {
        read(&mut text.as_bytes())
    }

    #[test]
    fn a_request_says_what_and_how() {
        let request =
            of("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: text/plain\r\naccept: */*\r\n\r\n");
        let expected = Request {
            method: "GET".into(),
            path: "/metrics".into(),
            query: "x=1".into(),
            accept: "text/plain,*/*".into(),
        };
        assert_eq!(request, Ok(expected));
        assert!(of("GET / HTTP/1.0\r\n\r\n").is_ok());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(of(""), Err(Refusal::Gone));
        assert_eq!(of("GET /metrics HTTP/1.1\r\n"), Err(Refusal::Malformed));
        assert_eq!(of("\u{16}\u{3}\u{1}\u{0}"), Err(Refusal::Malformed));
        assert_eq!(of("PRI * HTTP/2.0\r\n\r\n"), Err(Refusal::Malformed));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(LONGEST));
        assert_eq!(of(&long), Err(Refusal::TooLong));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert_eq!(of(&many), Err(Refusal::TooLong));
        let never = &mut io::repeat(b'\n');
        assert_eq!(read(never), Err(Refusal::TooLong));
    }
}
