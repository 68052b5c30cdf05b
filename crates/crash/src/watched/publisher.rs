//! A publisher that marks what is handed over and confirmed, and fails some messages on purpose.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sendoff::publisher::{PublishClass, PublisherLimits};
use sendoff::{Message, PublishError, Publisher};
use uuid::Uuid;

use super::must;
use crate::marks::{Marks, Phase};
use crate::order::POISON_TOPIC;

/// Which publishes fail on purpose, before anything is sent.
#[derive(Debug)]
pub struct Trouble {
    /// Of so many messages one fails the first time that this process tries it.
    pub fails_one_in: u128,
    /// Messages to [`POISON_TOPIC`] fail for good until this file is there.
    pub healed: PathBuf,
}

/// A publisher that marks what is handed over and confirmed.
#[derive(Debug)]
pub struct WatchedPublisher {
    inner: Arc<dyn Publisher>,
    marks: Arc<Marks>,
    trouble: Trouble,
    failed: Mutex<HashSet<u128>>,
}

impl WatchedPublisher {
    /// Watches a publisher.
    #[must_use]
    pub fn new(inner: Arc<dyn Publisher>, marks: Arc<Marks>, trouble: Trouble) -> Self {
        Self { inner, marks, trouble, failed: Mutex::default() }
    }

    fn fails(&self, message: &Message, id: u128) -> Option<PublishError> {
        if message.topic() == POISON_TOPIC && !self.trouble.healed.exists() {
            return Some(PublishError::permanent("poison, on purpose"));
        }
        let picked = id.is_multiple_of(self.trouble.fails_one_in);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        (picked && failed.insert(id)).then(|| PublishError::failed("a failure on purpose"))
    }
}

#[async_trait]
impl Publisher for WatchedPublisher {
    fn address(&self) -> &str {
        self.inner.address()
    }

    fn limits(&self) -> PublisherLimits {
        self.inner.limits()
    }

    fn check(&self, message: &Message) -> Result<(), PublishError> {
        self.inner.check(message)
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        let Ok(id) = Uuid::try_parse(message.id()).map(|id| id.as_u128()) else {
            return Err(PublishError::permanent("the harness sends UUIDs only"));
        };
        if let Some(error) = self.fails(message, id) {
            return Err(error);
        }
        must(self.marks.enter(Phase::Published, id));
        let mut ended = Ended { marks: &self.marks, id, phase: Phase::Unknown };
        let result = self.inner.publish(message).await;
        ended.phase = match result.as_ref().map_err(PublishError::class) {
            Ok(()) => Phase::Confirmed,
            Err(PublishClass::Lost | PublishClass::TimedOut) => Phase::Unknown,
            Err(_) => Phase::Refused,
        };
        drop(ended);
        result
    }

    async fn reset(&self) {
        self.inner.reset().await;
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// Marks how a publish ended, also when the relay dropped it at its timeout.
struct Ended<'a> {
    marks: &'a Marks,
    id: u128,
    phase: Phase,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        must(self.marks.enter(self.phase, self.id));
    }
}
