//! Barriers over HTTP, for `sendoff serve` and `sendoff up`: routes, who may use them, and a server
//! with bounds.
//!
//! What does not belong here: when a barrier is complete, and the shop's own routes.

mod acks;
mod auth;
mod body;
mod callback;
mod create;
mod listen;
mod openapi;
mod problem;
mod read;
mod server;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Json, Router};
use sendoff::Wake;
use sendoff::barrier::{BarrierDesk, BarrierId};
use sendoff::time::Clock;
use serde_json::{Value, json};

use crate::address;
use crate::callback::Signer;

pub(crate) use auth::Keys;
use body::Bodies;
pub(crate) use listen::listen;
pub(crate) use problem::Problem;
pub(crate) use server::{Bounds, serve};

/// What the routes need.
#[derive(Debug, Clone)]
pub(crate) struct Api(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    desk: Arc<dyn BarrierDesk>,
    keys: Keys,
    signer: Option<Signer>,
    bodies: Bodies,
    clock: Clock,
    /// A relay in this process, where there is one.
    wake: Wake,
}

impl Api {
    /// Routes for the barriers of `desk`, for whoever has one of the keys; without a signer there are
    /// no callbacks. `wake` is woken where a barrier may have completed.
    pub(crate) fn new(
        desk: Arc<dyn BarrierDesk>,
        keys: Keys,
        signer: Option<Signer>,
        wake: Wake,
    ) -> Self {
        let (bodies, clock) = (Bodies::new(), Clock::system());
        Self(Arc::new(Parts { desk, keys, signer, bodies, clock, wake }))
    }

    /// The routes.
    pub(crate) fn routes(&self) -> Router {
        let with_token = Router::new()
            .route("/v1/barriers", post(create::create))
            .route("/v1/barriers/{id}", get(read::status))
            .route("/v1/barriers/{id}/acks", post(acks::ack))
            .route("/v1/barriers/{id}/results", get(read::results))
            .route("/v1/barriers/{id}/tokens", post(tokens::make))
            .route_layer(from_fn_with_state(self.clone(), auth::authorized));
        let open = Router::new()
            .route("/v1/callbacks/{id}/{member}", post(callback::ack))
            .route("/healthz", get(health))
            .route("/openapi.json", get(openapi::describe));
        with_token.merge(open).method_not_allowed_fallback(wrong_method).with_state(self.clone())
    }

    /// These routes for whoever has a bearer token.
    pub(crate) fn guarded(&self, routes: Router) -> Router {
        routes.route_layer(from_fn_with_state(self.clone(), auth::authorized))
    }
}

/// The barrier that a path names: `/v1/barriers/{id}/...`.
fn barrier(path: &str) -> Result<BarrierId, Problem> {
    let id = address::segments(path).into_iter().nth(2).unwrap_or_default();
    let id = String::from_utf8(id)
        .map_err(|_| Problem::new("invalid", "the barrier's id in the path is not UTF-8"))?;
    BarrierId::new(id).map_err(Problem::from)
}

/// The process answers. Whether the store does is the business of the routes that use it.
async fn health() -> Json<Value> {
    Json(json!({ "status": "up" }))
}

/// What is not there.
pub(crate) async fn nothing_here() -> Problem {
    Problem::new(
        "no_route",
        "there is nothing at this URL; GET /openapi.json describes what there is",
    )
}

async fn wrong_method(request: Request) -> Problem {
    let method = request.method().as_str().to_owned();
    Problem::new("method_not_allowed", format!("this URL does not take {method}"))
}

/// How long a connection may stay open, whatever happens on it: a client that reads slowly does not
/// keep its place for ever.
const CONNECTION_MAX: Duration = Duration::from_secs(600);
