//! Readiness: whether it is ready, and why it is not.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use sendoff::store::{OutboxDesk, SchemaState};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long an answer of the store is good for, so that who asks often does not load it.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// A store that has not answered by then does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    Yes,
    /// The relay has not begun: it waits for the store. Or it has ended.
    Starting,
    /// The last call to the store failed.
    StoreFails,
    /// The schema is not what this program needs.
    Schema,
}

impl IntoResponse for Ready {
    fn into_response(self) -> Response {
        let (reason, detail) = match self {
            Self::Yes => return Json(json!({ "ready": true })).into_response(),
            Self::Starting => ("starting", "the store has not been reached yet; the log says why"),
            Self::StoreFails => ("store", "the store does not answer now; the log says why"),
            Self::Schema => ("schema", "the store's schema is not what this program needs"),
        };
        let value = json!({ "ready": false, "reason": reason, "detail": detail });
        (StatusCode::SERVICE_UNAVAILABLE, Json(value)).into_response()
    }
}

/// Whether a store answers, asked at most once in a while.
#[derive(Debug)]
pub(super) struct Answers {
    desk: Arc<dyn OutboxDesk>,
    last: Mutex<Option<(Instant, Ready)>>,
}

impl Answers {
    pub(super) fn of(desk: Arc<dyn OutboxDesk>) -> Self {
        Self { desk, last: Mutex::new(None) }
    }

    pub(super) async fn ask(&self) -> Ready {
        let mut last = self.last.lock().await;
        if let Some((at, ready)) = *last
            && at.elapsed() < GOOD_FOR
        {
            return ready;
        }
        let ready = match timeout(PATIENCE, self.desk.schema()).await {
            Ok(Ok(schema)) if schema.state == SchemaState::Current => Ready::Yes,
            Ok(Ok(_)) => Ready::Schema,
            Ok(Err(error)) => {
                tracing::warn!(event = "not_ready", kind = error.kind().as_str(), %error, "not ready");
                Ready::StoreFails
            }
            Err(_) => Ready::StoreFails,
        };
        *last = Some((Instant::now(), ready));
        ready
    }
}
