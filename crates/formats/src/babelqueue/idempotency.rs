//! A handler that does not repeat its effect for a message that was handled before.
//!
//! It is a set of ids that were handled, looked at before and written after. It is no lock: two
//! deliveries of one message at the same time both run, and so does a second one after a crash between
//! the handler's commit and the note. Where that matters, the note belongs into the handler's own
//! transaction.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Envelope;

/// Ids of messages that were handled.
pub trait IdempotencyStore: Send {
    /// The store's own error.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Whether the id was noted.
    fn seen(&mut self, id: &str) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Notes the id.
    fn remember(&mut self, id: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes the note back, so that the message may be handled again.
    fn forget(&mut self, id: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What [`idempotent`] did. In both cases the delivery is to be acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<R> {
    /// The handler ran, with this answer.
    Ran(R),
    /// The message was handled before: nothing ran.
    Skipped,
}

/// Why [`idempotent`] failed. The delivery is not to be acknowledged.
#[derive(Debug)]
pub enum IdempotentError<H, S> {
    /// The handler failed; its message is not noted and runs again.
    Handler(H),
    /// The store could not say whether the message was handled. Nothing ran.
    Store(S),
}

impl<H: fmt::Display, S: fmt::Display> fmt::Display for IdempotentError<H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(error) => write!(f, "handling a message: {error}"),
            Self::Store(error) => {
                write!(f, "looking whether a message was handled before: {error}; nothing ran")
            }
        }
    }
}

impl<H, S> std::error::Error for IdempotentError<H, S>
where
    H: std::error::Error + 'static,
    S: std::error::Error + 'static,
{
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handler(error) => Some(error),
            Self::Store(error) => Some(error),
        }
    }
}

/// Runs a handler unless the message was handled before, by the id in its `meta`. A message without an
/// id cannot be recognised: it always runs.
///
/// # Errors
/// [`IdempotentError`]. That an id could not be noted after its handler succeeded is logged and no
/// error: the delivery is to be acknowledged.
pub async fn idempotent<S, F, R, H>(
    store: &mut S,
    envelope: &Envelope,
    handler: impl FnOnce() -> F,
) -> Result<Effect<R>, IdempotentError<H, S::Error>>
where
    S: IdempotencyStore,
    F: Future<Output = Result<R, H>>,
{
    let id = envelope.id();
    if !id.is_empty() && store.seen(id).await.map_err(IdempotentError::Store)? {
        return Ok(Effect::Skipped);
    }
    let answer = handler().await.map_err(IdempotentError::Handler)?;
    if !id.is_empty()
        && let Err(error) = store.remember(id).await
    {
        tracing::warn!(%error, id, "a handled message could not be noted: a repetition will run");
    }
    Ok(Effect::Ran(answer))
}

/// Ids in memory, the newest of them. Clones share them.
#[derive(Debug, Clone)]
pub struct InMemoryIdempotencyStore(Arc<Mutex<Ids>>);

#[derive(Debug)]
struct Ids {
    seen: HashSet<String>,
    order: VecDeque<String>,
    max: usize,
}

impl InMemoryIdempotencyStore {
    /// A store that keeps 100,000 ids.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(100_000)
    }

    /// A store that keeps so many ids; the oldest makes room.
    #[must_use]
    pub fn with_capacity(max: usize) -> Self {
        Self(Arc::new(Mutex::new(Ids { seen: HashSet::new(), order: VecDeque::new(), max })))
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        // No code of a caller runs under the lock, so that a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for InMemoryIdempotencyStore {
    fn default() -> Self {
        Self::new()
    }
}

impl IdempotencyStore for InMemoryIdempotencyStore {
    type Error = Infallible;

    async fn seen(&mut self, id: &str) -> Result<bool, Infallible> {
        Ok(self.ids().seen.contains(id))
    }

    async fn remember(&mut self, id: &str) -> Result<(), Infallible> {
        let mut ids = self.ids();
        if ids.seen.insert(id.to_owned()) {
            ids.order.push_back(id.to_owned());
        }
        while ids.order.len() > ids.max
            && let Some(oldest) = ids.order.pop_front()
        {
            ids.seen.remove(&oldest);
        }
        Ok(())
    }

    async fn forget(&mut self, id: &str) -> Result<(), Infallible> {
        let mut ids = self.ids();
        if ids.seen.remove(id) {
            ids.order.retain(|noted| noted != id);
        }
        Ok(())
    }
}
