//! Where something is served: one address, this machine's own unless another is asked for.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use crate::failure::Failure;

/// Of a command that serves something.
pub struct Usual {
    pub port: u16,
    /// How it is told to listen elsewhere.
    pub command: fn(SocketAddr) -> String,
}

pub fn listen(text: &str, usual: &Usual) -> Result<TcpListener, Failure> {
    let address = usual.parse(text)?;
    TcpListener::bind(address).map_err(|error| usual.refused(address, &error))
}

impl Usual {
    fn parse(&self, text: &str) -> Result<SocketAddr, Failure> {
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        numeric.parse().map_err(|_| {
            Failure::new(
                format!(
                    "--listen takes an address and a port, such as 127.0.0.1:{}, not '{text}'",
                    self.port
                ),
                (self.command)(self.nearest(text)),
            )
        })
    }

    /// What may have been meant: a port alone is this machine's, an address alone gets the usual port.
    fn nearest(&self, text: &str) -> SocketAddr {
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
        let address = text.trim_matches(['[', ']']).parse();
        match address {
            Ok(address) => SocketAddr::new(address, self.port),
            Err(_) => SocketAddr::new(own, port.unwrap_or(self.port)),
        }
    }

    fn refused(&self, address: SocketAddr, error: &io::Error) -> Failure {
        let (ip, port) = (address.ip(), address.port());
        let with_port = |port| SocketAddr::new(ip, port);
        match error.kind() {
            ErrorKind::AddrInUse => Failure::new(
                format!("{address} is in use: by another program, or by another pagewise"),
                (self.command)(with_port(port.checked_add(1).unwrap_or(self.port))),
            ),
            ErrorKind::PermissionDenied => Failure::new(
                format!("you may not listen on {address}: ports below 1024 are root's"),
                (self.command)(with_port(self.port)),
            ),
            ErrorKind::AddrNotAvailable => Failure::new(
                format!("this machine has no address {ip}"),
                (self.command)(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
            ),
            _ => Failure::new(
                format!("cannot listen on {address}: {error}"),
                (self.command)(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.port)),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: Usual = Usual {
        port: 19797,
        command: |address| format!("pagewise metrics --listen {address}"),
    };

    #[test]
    fn an_address_has_a_port() {
        let parsed = |text| METRICS.parse(text).expect(text).to_string();
        assert_eq!(parsed("127.0.0.1:9"), "127.0.0.1:9");
        assert_eq!(parsed("[::1]:9"), "[::1]:9");
        assert_eq!(parsed("localhost:9"), "127.0.0.1:9");
    }

    #[test]
    fn what_was_meant_is_what_is_to_be_typed() {
        let next = |text| METRICS.parse(text).expect_err(text).next;
        let meant = |text| next(text).replace("pagewise metrics --listen ", "");
        assert_eq!(meant("8000"), "127.0.0.1:8000");
        assert_eq!(meant(":8000"), "127.0.0.1:8000");
        assert_eq!(meant("http://localhost:8000"), "127.0.0.1:8000");
        assert_eq!(meant("10.0.0.1"), "10.0.0.1:19797");
        assert_eq!(meant("::1"), "[::1]:19797");
        for text in ["", "127.0.0.1:70000", "localhost:", "a:b:c", "\u{1b}[2J"] {
            assert_eq!(meant(text), "127.0.0.1:19797", "{text:?}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_said_with_the_next_one() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("address");
        let failure = listen(&address.to_string(), &METRICS).expect_err("taken");
        assert!(failure.what.contains("is in use"), "{}", failure.what);
        let elsewhere = listen("203.0.113.7:19797", &METRICS).expect_err("not ours");
        assert_eq!(elsewhere.next, "pagewise metrics --listen 127.0.0.1:19797");
    }
}
