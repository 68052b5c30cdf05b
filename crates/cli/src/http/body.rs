//! Request bodies: read within a limit, decoded without blocking the runtime.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Problem;
use crate::members::misread;

/// The most bytes of a creation.
pub(super) const CREATE_BYTES_MAX: usize = 32 << 20;
/// The most bytes of acknowledgements, or of a request for tokens.
pub(super) const ACKS_BYTES_MAX: usize = 8 << 20;
/// The most bytes of a partner's acknowledgement: an outcome with every byte escaped.
pub(super) const CALLBACK_BYTES_MAX: usize = 64 << 10;
/// All bodies that are in memory at once, in KiB. Further ones wait.
const TOGETHER_KIB_MAX: u32 = 96 << 10;
/// A body that is larger is decoded on a thread that may take its time.
const SMALL: usize = 64 << 10;

/// Bounds the memory that bodies take together.
#[derive(Debug)]
pub(super) struct Bodies(Arc<Semaphore>);

/// A body, and its share of the memory.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(usize::try_from(TOGETHER_KIB_MAX).unwrap_or(usize::MAX))))
    }

    /// Reads a body of at most `limit` bytes.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Result<Held, Problem> {
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse::<u64>().ok());
        let bound = u64::try_from(limit).unwrap_or(u64::MAX);
        // Without a length it may become as large as the limit.
        let length = length.unwrap_or(bound);
        if length > bound {
            return Err(Problem::too_large(limit));
        }
        let kib = u32::try_from(length / 1_024 + 1).unwrap_or(u32::MAX).min(TOGETHER_KIB_MAX);
        // The semaphore is never closed.
        let share = Arc::clone(&self.0).acquire_many_owned(kib).await.ok();
        match to_bytes(body, limit).await {
            Ok(bytes) => Ok(Held { bytes, _share: share }),
            Err(error) if is_limit(&error) => Err(Problem::too_large(limit)),
            Err(_) => Err(Problem::new("invalid", "the body ended before it was whole")),
        }
    }
}

fn is_limit(error: &axum::Error) -> bool {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = source {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        source = error.source();
    }
    false
}

impl Held {
    /// Decodes JSON. `example` is what it should look like.
    pub(super) async fn json<T: DeserializeOwned + Send + 'static>(
        self,
        example: &'static str,
    ) -> Result<T, Problem> {
        let decode = move |held: &Self| {
            serde_json::from_slice(&held.bytes).map_err(|error| {
                Problem::new(
                    "invalid",
                    format!(
                        "the body is not what is expected: {}; write {example}",
                        misread(&error)
                    ),
                )
            })
        };
        if self.bytes.len() <= SMALL {
            return decode(&self);
        }
        tokio::task::spawn_blocking(move || decode(&self))
            .await
            .unwrap_or_else(|_| Err(Problem::new("unavailable", "decoding the body failed")))
    }
}
