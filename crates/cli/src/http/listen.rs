//! Where to listen.

use std::net::SocketAddr;

use sendoff::{Error, ErrorKind, Result};
use tokio::net::TcpListener;

const DOING: &str = "starting the server";

/// Listens at an address.
///
/// # Errors
/// It is no address, or cannot be had.
pub(crate) async fn listen(text: &str) -> Result<(TcpListener, SocketAddr)> {
    let wanted: SocketAddr = text.parse().map_err(|_| {
        Error::invalid(DOING, format!("`{text}` is not an address to listen on"))
            .advice("write 127.0.0.1:8080 or [::1]:8080; port 0 is any")
    })?;
    let failed = |error| {
        Error::new(ErrorKind::Unexpected, DOING)
            .subject(text)
            .caused_by(error)
            .advice("name another address with --listen; port 0 takes any")
    };
    let listener = TcpListener::bind(wanted).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
