//! The HTTP endpoint: place an order, look at one, figures. Every answer is JSON.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use sendoff::{Error, ErrorKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::figures::Figures;
use crate::http::Api;
use crate::observe::Observed;
use crate::shop::{Close, NewBatch, NewOrder};

/// The largest request body.
const BODY_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone)]
struct App {
    figures: Arc<Figures>,
    urls: Value,
}

/// The shop's routes beside those of its barriers.
pub(super) fn routes(
    figures: Arc<Figures>,
    urls: Value,
    barriers: &Api,
    observed: &Observed,
) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/status", get(status))
        .route("/orders", post(place))
        .route("/orders/{id}", get(find))
        .route("/batches", post(send_batch))
        .route("/batches/{id}", get(batch))
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(App { figures, urls })
        .merge(barriers.routes())
        .merge(observed.health_routes())
        .merge(observed.metrics_routes())
        .fallback(nothing_here)
}

/// What is refused, with its status.
struct Refusal(StatusCode, Value);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl Refusal {
    fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        Self(status, json!({ "kind": kind, "message": message.into() }))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.kind().as_str(), error.to_string())
    }
}

async fn root(State(app): State<App>) -> Result<Json<Value>, Refusal> {
    let figures = app.figures.read().await?;
    Ok(Json(json!({ "urls": app.urls, "figures": figures })))
}

async fn status(State(app): State<App>) -> Result<Response, Refusal> {
    Ok(Json(app.figures.stats().await?).into_response())
}

/// Records an order and its message. A client that goes away changes nothing about the order: the
/// transaction ends as it was asked to.
async fn place(
    State(app): State<App>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let order: NewOrder = read(
        body,
        "an order",
        r#"{"customer":"ada","item":"tea","quantity":2}, each part is optional"#,
    )?;
    match app.figures.place(order).await? {
        Close::Committed(order) => {
            let place = format!("/orders/{}", order.id);
            Ok((StatusCode::CREATED, [("location", place)], Json(order)).into_response())
        }
        Close::RolledBack(order) => Err(Refusal(
            StatusCode::CONFLICT,
            json!({
                "kind": "rejected",
                "message": "the transaction rolled back, as asked: neither the order nor its message is there",
                "id": order.id,
            }),
        )),
    }
}

/// The body's JSON; nothing is the default.
fn read<T: DeserializeOwned + Default>(
    body: Result<Bytes, BytesRejection>,
    what: &str,
    example: &str,
) -> Result<T, Refusal> {
    let body = body.map_err(|rejection| {
        let status = rejection.status();
        let kind = match status {
            StatusCode::PAYLOAD_TOO_LARGE => "too_large",
            _ => "invalid",
        };
        let why = format!(
            "the body cannot be read (at most {BODY_BYTES_MAX} bytes): {}",
            rejection.body_text()
        );
        Refusal::new(status, kind, why)
    })?;
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(&body).map_err(|error| {
        let why = format!("the body is not {what}: {error}; write {example}");
        Refusal::new(StatusCode::BAD_REQUEST, "invalid", why)
    })
}

/// Sends documents to the partner; the batch is there and its messages will leave.
async fn send_batch(
    State(app): State<App>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let asked: NewBatch =
        read(body, "a batch", r#"{"documents":1000,"deadline_s":30}, each part is optional"#)?;
    let batch = app.figures.send_batch(asked).await?;
    let place = format!("/batches/{}", batch.id);
    Ok((StatusCode::CREATED, [("location", place)], Json(batch)).into_response())
}

async fn batch(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Refusal> {
    match app.figures.batch(&id).await? {
        Some(status) => Ok(Json(status).into_response()),
        None => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "no batch with this id has committed",
        )),
    }
}

async fn find(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Refusal> {
    match app.figures.find(id).await? {
        Some((order, standings)) => {
            // Once the key table has forgotten the id, nothing stands there any more.
            let place = standings.first().map_or(json!("gone"), |s| json!(s.place));
            Ok(Json(json!({ "order": order, "message": place })).into_response())
        }
        None => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "no order with this id has committed",
        )),
    }
}

async fn nothing_here(uri: Uri) -> Response {
    if uri.path().starts_with("/v1/") {
        return crate::http::nothing_here().await.into_response();
    }
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here; GET / lists the URLs")
        .into_response()
}

async fn wrong_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this URL does not take this method; POST /orders places an order",
    )
}
