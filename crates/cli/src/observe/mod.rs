//! What a running program tells over HTTP: whether it lives, whether it is ready, and figures.
//!
//! What does not belong here: logs, and anything of a message but how many there are.

mod backlog;
mod exposition;
mod health;
mod metrics;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use sendoff::Result;
use sendoff::relay::{Progress, Readiness, Relay, Timings};
use sendoff::store::OutboxStore;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http::{Bounds, listen, serve};
use crate::stop::Stop;
use crate::store::Store;

use backlog::Backlogs;
use health::{Answers, Ready};

/// Connections at once, and how long a request may take: a scrape counts, and waits for a database.
const BOUNDS: Bounds = Bounds { connections: 32, request_timeout: Duration::from_secs(15) };

/// What is observed: a store, and the relay where this process runs one.
#[derive(Debug, Clone)]
pub(crate) struct Observed(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    backlogs: Backlogs,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// A relay to this target, once it has begun.
    Relay { target: String, running: OnceLock<Running> },
    /// A server: ready while its store answers.
    Server(Answers),
}

/// The handles of a relay that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) readiness: Readiness,
    pub(crate) progress: Progress,
    pub(crate) timings: Timings,
}

impl Running {
    /// A relay with lanes.
    pub(crate) fn of(relay: &Relay) -> Self {
        let (readiness, progress) = (relay.readiness(), relay.progress());
        Self { readiness, progress, timings: relay.timings() }
    }
}

impl Observed {
    /// A process that will run a relay to `target`, an address without a password.
    pub(crate) fn relay(store: Arc<dyn OutboxStore>, target: &str) -> Self {
        let role = Role::Relay { target: target.to_owned(), running: OnceLock::new() };
        Self(Arc::new(Parts { backlogs: Backlogs::of(store), role }))
    }

    /// A process that serves the store and runs no relay.
    pub(crate) fn server(store: &Store) -> Self {
        let role = Role::Server(Answers::of(store.desk.clone()));
        Self(Arc::new(Parts { backlogs: Backlogs::of(store.outbox.clone()), role }))
    }

    /// The relay has been built and begins.
    pub(crate) fn begins(&self, relay: Running) {
        if let Role::Relay { running, .. } = &self.0.role {
            // There is one relay; a second one would be a mistake that changes nothing here.
            let _ = running.set(relay);
        }
    }

    async fn ready(&self) -> Ready {
        match &self.0.role {
            Role::Server(answers) => answers.ask().await,
            Role::Relay { running, .. } => match running.get() {
                Some(running) if running.readiness.is_ready() => Ready::Yes,
                Some(running) if running.progress.tally().store_failures > 0 => Ready::StoreFails,
                _ => Ready::Starting,
            },
        }
    }

    /// `/health/live` and `/health/ready`.
    pub(crate) fn health_routes(&self) -> Router {
        Router::new()
            .route("/health/live", get(live))
            .route("/health/ready", get(ready))
            .with_state(self.clone())
    }

    /// `/metrics`.
    pub(crate) fn metrics_routes(&self) -> Router {
        Router::new().route("/metrics", get(metrics)).with_state(self.clone())
    }
}

async fn live() -> Response {
    Json(json!({ "live": true })).into_response()
}

async fn ready(State(observed): State<Observed>) -> Response {
    observed.ready().await.into_response()
}

async fn metrics(State(observed): State<Observed>) -> Response {
    let page = metrics::page(&observed).await;
    ([(CONTENT_TYPE, exposition::CONTENT)], page).into_response()
}

/// A server for the figures alone, beside a relay. It answers until the relay has ended, so that the
/// last figures can be read while it stops.
#[derive(Debug)]
pub(crate) struct Server {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Begins to answer at this address.
    ///
    /// # Errors
    /// It is no address, or cannot be had.
    pub(crate) async fn begin(address: &str, observed: &Observed) -> Result<Self> {
        let (listener, address) = listen(address).await?;
        let routes = observed.health_routes().merge(observed.metrics_routes());
        let (stop, stopped) = Stop::by_hand();
        let task = tokio::spawn(serve(
            listener,
            routes.fallback(crate::http::nothing_here),
            BOUNDS,
            stopped,
        ));
        tracing::info!(
            event = "listening", %address,
            "health is at http://{address}/health/ready, figures at http://{address}/metrics"
        );
        Ok(Self { stop, task })
    }

    /// Ends it. What was asked already is answered.
    pub(crate) async fn end(self) {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(Duration::from_secs(1), self.task).await;
    }
}
