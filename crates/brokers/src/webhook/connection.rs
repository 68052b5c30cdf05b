//! One connection to a receiver: made to an address that may be connected to, and driven by the
//! publish that uses it.
//!
//! Nothing here runs in a task of its own. The future of a publish owns its connection, so that a
//! publish which is dropped ends its connection at once, and nothing buffered leaves later.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::poll;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use sendoff_core::PublishError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use crate::webhook::address::origin;
use crate::webhook::network::is_private;

/// The most of an answer's status and headers, and of its body, that is read.
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 64 << 10;
/// How long the rest of an answer is waited for once its status is known.
const BODY_WAIT: Duration = Duration::from_millis(250);

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

type Driver = http1::Connection<TokioIo<Box<dyn Socket>>, Full<Bytes>>;

/// An open connection that carries one request at a time.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once it is over.
    driver: Option<Pin<Box<Driver>>>,
}

/// How to connect.
#[derive(Clone, Copy)]
pub(super) struct Dial<'a> {
    pub(super) tls: Option<&'a TlsConnector>,
    pub(super) public_only: bool,
    pub(super) timeout: Duration,
}

/// Why a request has no answer.
pub(super) enum Failure {
    /// Nothing of it was sent: here it is again.
    NotSent(Box<Request<Full<Bytes>>>),
    /// It was sent, in part at least.
    Lost(String),
}

impl Connection {
    /// Connects to a URL's host within the timeout.
    ///
    /// # Errors
    /// Of class `Unreachable`, with the reason.
    pub(super) async fn open(url: &Url, dial: Dial<'_>) -> Result<Self, PublishError> {
        let refused = |reason: String| {
            PublishError::unreachable(format!("cannot connect to {}: {reason}", origin(url)))
        };
        tokio::time::timeout(dial.timeout, connect(url, dial))
            .await
            .unwrap_or_else(|_| Err(format!("not done within {:?}", dial.timeout)))
            .map_err(refused)
    }

    /// Sends a request and waits for the head of its answer, without a bound of its own.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let sending = self.sender.try_send_request(request);
        let answer = drive(&mut self.driver, sending).await;
        answer.map_err(|mut error| match error.take_message() {
            Some(request) => Failure::NotSent(Box::new(request)),
            None => Failure::Lost(why(error.error())),
        })
    }

    /// Reads what is left of an answer, within bounds. Answers whether the connection can be used
    /// again.
    pub(super) async fn finish(&mut self, answer: Response<Incoming>) -> bool {
        let mut body = answer.into_body();
        let sender = &mut self.sender;
        let rest = async {
            let mut left = BODY_BYTES_MAX;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let Some(less) = left.checked_sub(bytes) else { return false };
                left = less;
            }
            sender.ready().await.is_ok()
        };
        let rest = drive(&mut self.driver, rest);
        tokio::time::timeout(BODY_WAIT, rest).await.unwrap_or(false) && self.driver.is_some()
    }

    /// Whether a connection that has waited can be used: the receiver may have ended it since.
    pub(super) async fn is_open(&mut self) -> bool {
        match &mut self.driver {
            Some(driver) => poll!(driver).is_pending() && !self.sender.is_closed(),
            None => false,
        }
    }
}

/// Awaits `work` while the connection moves its bytes.
async fn drive<F: Future>(driver: &mut Option<Pin<Box<Driver>>>, work: F) -> F::Output {
    let mut work = std::pin::pin!(work);
    if let Some(connection) = driver {
        tokio::select! {
            biased;
            output = &mut work => return output,
            _ = connection => {}
        }
        // Gone, so that whoever waits for it is told.
        *driver = None;
    }
    work.await
}

/// The reason of a failed exchange in words that quote nothing of it.
fn why(error: &hyper::Error) -> String {
    if error.is_parse() {
        return "the answer is no HTTP, or its headers are larger than 64 KiB".to_owned();
    }
    if error.is_incomplete_message() {
        return "the connection ended before the answer".to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("the connection ended: {source}"),
        None => "the connection ended".to_owned(),
    }
}

async fn connect(url: &Url, dial: Dial<'_>) -> Result<Connection, String> {
    let begun = Instant::now();
    let addresses = resolve(url, dial.public_only).await?;
    let stream = connect_to_one_of(&addresses, begun + dial.timeout).await?;
    // A request goes out in one piece or two: nothing is gained by waiting for more.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let socket: Box<dyn Socket> = if url.scheme() == "https" {
        let tls = dial.tls.ok_or_else(|| "TLS is not prepared".to_owned())?;
        let stream = tls.connect(server_name(url)?, stream).await.map_err(|error| {
            format!("{error}; if the receiver has an authority of its own, name its CA file")
        })?;
        Box::new(stream)
    } else {
        Box::new(stream)
    };
    let (sender, driver) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(|error| error.to_string())?;
    Ok(Connection { sender, driver: Some(Box::pin(driver)) })
}

/// The addresses of a URL's host that may be connected to: what is checked is what is used.
async fn resolve(url: &Url, public_only: bool) -> Result<Vec<SocketAddr>, String> {
    let port = url.port_or_known_default().unwrap_or(443);
    let mut addresses = match url.host() {
        Some(Host::Ipv4(address)) => vec![SocketAddr::from((address, port))],
        Some(Host::Ipv6(address)) => vec![SocketAddr::from((address, port))],
        Some(Host::Domain(name)) => tokio::net::lookup_host((name, port))
            .await
            .map_err(|error| error.to_string())?
            .collect(),
        None => Vec::new(),
    };
    if addresses.is_empty() {
        return Err("the name has no address".to_owned());
    }
    if public_only {
        addresses.retain(|address| !is_private(address.ip()));
        if addresses.is_empty() {
            return Err("its address is private, and the settings do not allow that".to_owned());
        }
    }
    Ok(addresses)
}

/// Tries one address after another; each gets an equal share of the time that is left.
async fn connect_to_one_of(addresses: &[SocketAddr], by: Instant) -> Result<TcpStream, String> {
    let mut last = String::new();
    for (tried, address) in addresses.iter().enumerate() {
        let left = by.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = format!("{} does not answer", address.ip()),
        }
    }
    Err(last)
}

fn server_name(url: &Url) -> Result<ServerName<'static>, String> {
    match url.host() {
        Some(Host::Domain(name)) => ServerName::try_from(name.trim_end_matches('.').to_owned())
            .map_err(|_| "its name cannot stand in a certificate".to_owned()),
        Some(Host::Ipv4(address)) => Ok(ServerName::from(IpAddr::V4(address))),
        Some(Host::Ipv6(address)) => Ok(ServerName::from(IpAddr::V6(address))),
        None => Err("it has no name".to_owned()),
    }
}
