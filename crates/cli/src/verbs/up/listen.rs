//! The port: the one that was asked for, or the next free one.

use std::io::ErrorKind as Io;
use std::net::Ipv4Addr;

use sendoff::{Error, ErrorKind, Result};
use tokio::net::TcpListener;

/// How many ports are tried after the one that was asked for.
const TRIES: u16 = 100;

/// A socket that listens on the loopback interface.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) port: u16,
}

/// Listens on `wanted` or, where it is taken, on the next port that is free. 0 is any port.
///
/// # Errors
/// None of the ports can be had.
pub(super) async fn on(wanted: u16) -> Result<Listener> {
    let failed = |error| {
        Error::new(ErrorKind::Unexpected, "listening for HTTP")
            .subject(format!("127.0.0.1:{wanted}"))
            .caused_by(error)
            .advice("name another port with --port; 0 takes any")
    };
    let last = wanted.saturating_add(if wanted == 0 { 0 } else { TRIES });
    for port in wanted..=last {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(socket) => {
                let port = socket.local_addr().map_err(failed)?.port();
                return Ok(Listener { socket, port });
            }
            Err(error) if error.kind() == Io::AddrInUse && port < last => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(Io::AddrInUse.into()))
}
