//! The server: a bounded number of connections, a bounded time for each request, and a graceful stop.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sendoff::{Error, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::{CONNECTION_MAX, Problem};
use crate::configuration::Configuration;
use crate::stop::Stop;

/// How long a client may take to send a request's head, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// The most bytes of a request's head: a name of 1,024 bytes is 3,072 when it is percent-encoded.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Between an accept that failed, mostly for want of file descriptors, and the next one.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// How much the server takes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The most connections at once. Further ones wait in the system's queue.
    pub(crate) connections: usize,
    /// How long one request may take.
    pub(crate) request_timeout: Duration,
}

impl Bounds {
    /// As the configuration has them.
    ///
    /// # Errors
    /// A value that is out of range.
    pub(crate) fn of(configuration: &Configuration) -> Result<Self> {
        let (connections, request_timeout) = configuration.serve_bounds()?;
        if request_timeout.is_zero() {
            return Err(Error::invalid("reading the configuration", "serve.request_timeout is 0"));
        }
        Ok(Self { connections, request_timeout })
    }
}

/// Answers requests until a stop is asked for; then what was begun is finished.
pub(crate) async fn serve(listener: TcpListener, app: Router, bounds: Bounds, stop: Stop) {
    let app = app.layer(from_fn_with_state(bounds.request_timeout, bounded));
    let permits = Arc::new(Semaphore::new(bounds.connections));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.asked() => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener, &permits) => {
                if let Some((stream, permit)) = accepted {
                    connections.spawn(connection(stream, permit, app.clone(), bounds, stop.clone()));
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// The next connection, as soon as there is a place for it.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "a connection was not accepted");
            tokio::time::sleep(ACCEPT_RETRY).await;
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
    app: Router,
    bounds: Bounds,
    stop: Stop,
) {
    // Answers are small and written whole.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A client that went away in the middle is no failure of ours.
        _ = connection.as_mut() => return,
        () = stop.asked() => {}
        () = tokio::time::sleep(CONNECTION_MAX) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(bounds.request_timeout, connection).await;
}

async fn bounded(State(timeout): State<Duration>, request: Request, next: Next) -> Response {
    tokio::time::timeout(timeout, next.run(request)).await.unwrap_or_else(|_| {
        Problem::new(
            "timeout",
            format!(
                "it took longer than {} ms: what became of it is not known; sent again, what was done \
                 already is answered as done",
                timeout.as_millis()
            ),
        )
        .into_response()
    })
}
