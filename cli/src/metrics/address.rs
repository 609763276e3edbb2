//! Where metrics are served: one address, this machine's own unless another is asked for.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use crate::failure::Failure;

/// Below the ports that Linux hands out itself, and beyond those that other exporters have among themselves.
const PORT: u16 = 19797;

pub fn listen(text: &str) -> Result<TcpListener, Failure> {
    let address = parse(text)?;
    TcpListener::bind(address).map_err(|error| refused(address, &error))
}

fn parse(text: &str) -> Result<SocketAddr, Failure> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        Failure::new(
            format!("--listen takes an address and a port, such as 127.0.0.1:{PORT}, not '{text}'"),
            command(nearest(text)),
        )
    })
}

/// What may have been meant: a port alone is this machine's, an address alone gets the usual port.
fn nearest(text: &str) -> SocketAddr {
    let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
    let address = text.trim_matches(['[', ']']).parse();
    match address {
        Ok(address) => SocketAddr::new(address, PORT),
        Err(_) => SocketAddr::new(own, port.unwrap_or(PORT)),
    }
}

fn refused(address: SocketAddr, error: &io::Error) -> Failure {
    let (ip, port) = (address.ip(), address.port());
    let with_port = |port| SocketAddr::new(ip, port);
    match error.kind() {
        ErrorKind::AddrInUse => Failure::new(
            format!("{address} is in use: by another program, or by pagewise metrics already"),
            command(with_port(port.checked_add(1).unwrap_or(PORT))),
        ),
        ErrorKind::PermissionDenied => Failure::new(
            format!("you may not listen on {address}: ports below 1024 are root's"),
            command(with_port(PORT)),
        ),
        ErrorKind::AddrNotAvailable => Failure::new(
            format!("this machine has no address {ip}"),
            command(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
        ),
        _ => Failure::new(
            format!("cannot listen on {address}: {error}"),
            command(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT)),
        ),
    }
}

fn command(address: SocketAddr) -> String {
    format!("pagewise metrics --listen {address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port() {
        let parsed = |text| parse(text).expect(text).to_string();
        assert_eq!(parsed("127.0.0.1:9"), "127.0.0.1:9");
        assert_eq!(parsed("[::1]:9"), "[::1]:9");
        assert_eq!(parsed("localhost:9"), "127.0.0.1:9");
    }

    #[test]
    fn what_was_meant_is_what_is_to_be_typed() {
        let next = |text| parse(text).expect_err(text).next;
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
        let failure = listen(&address.to_string()).expect_err("taken");
        assert!(failure.what.contains("is in use"), "{}", failure.what);
        let elsewhere = listen("203.0.113.7:19797").expect_err("not ours");
        assert_eq!(elsewhere.next, "pagewise metrics --listen 127.0.0.1:19797");
    }
}
