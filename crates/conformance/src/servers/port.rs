//! Free loopback ports.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Ports below this one belong to well-known servers.
const PORT_MIN: u16 = 10_240;

/// A loopback port that nobody listens on now.
///
/// It lies outside the range from which the kernel takes ports for outgoing connections. A client
/// that keeps connecting to a server that is down would otherwise get the server's port as its own
/// sooner or later, connect to itself, and keep the server from coming back.
///
/// # Errors
/// Where no port is free.
pub fn free_port() -> io::Result<u16> {
    let range = candidates(
        &std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default(),
    );
    for _ in 0..200 {
        let port = fastrand::u16(range.clone());
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("found no free loopback port from {} to {}", range.start, range.end),
    ))
}

/// The ports below the kernel's own range; the kernel's own where nothing useful is below.
fn candidates(kernel: &str) -> Range<u16> {
    let mut bounds = kernel.split_whitespace().map(str::parse);
    let (first, last) = match (bounds.next(), bounds.next()) {
        (Some(Ok(first)), Some(Ok(last))) => (first, last),
        _ => (32_768, 60_999),
    };
    if first >= PORT_MIN + 1_000 {
        PORT_MIN..first
    } else if last <= 64_000 {
        last + 1..u16::MAX
    } else {
        PORT_MIN..u16::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::{candidates, free_port};

    #[test]
    fn ports_are_taken_from_outside_the_kernels_own_range() {
        assert_eq!(candidates("32768\t60999\n"), 10_240..32_768);
        assert_eq!(candidates("1024\t50000\n"), 50_001..u16::MAX);
        assert_eq!(candidates("1024\t65535\n"), 10_240..u16::MAX);
        assert_eq!(candidates(""), 10_240..32_768);
    }

    #[test]
    fn a_free_port_can_be_bound() {
        let port = free_port().unwrap();
        std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    }
}
