//! What the outbox needs of a database and of a broker, and the writer.

use std::future::Future;

use bytes::Bytes;

use crate::babelqueue::{DEFAULT_QUEUE, Envelope};

/// A row that waits to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRecord {
    /// The store's own key; not the id in the envelope.
    pub id: String,
    /// The encoded envelope, as it was saved.
    pub body: Bytes,
    /// Where it goes.
    pub queue: String,
    /// How often publishing it failed.
    pub attempts: u32,
}

/// What the outbox needs of a database.
///
/// A store that belongs to a caller's transaction is made for that transaction; `&mut S` is a store
/// where `S` is one.
pub trait OutboxStore: Send {
    /// The database's own error.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Writes an encoded envelope in the transaction that the caller has opened, byte for byte, and
    /// gives the new row's id. Begins and commits nothing.
    fn save(
        &mut self,
        encoded: &[u8],
        queue: &str,
    ) -> impl Future<Output = Result<String, Self::Error>> + Send;

    /// Up to `limit` rows that wait, the oldest first; none for 0. A store should lock what it gives, so
    /// that two relays do not publish the same.
    fn fetch_unpublished(
        &mut self,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<OutboxRecord>, Self::Error>> + Send;

    /// Marks rows as published: they are never given again. No ids: nothing is done.
    fn mark_published(
        &mut self,
        ids: &[String],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Notes a failure: one attempt more, and why. The row goes on waiting.
    fn mark_failed(
        &mut self,
        id: &str,
        error: &str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl<S: OutboxStore> OutboxStore for &mut S {
    type Error = S::Error;

    async fn save(&mut self, encoded: &[u8], queue: &str) -> Result<String, S::Error> {
        (**self).save(encoded, queue).await
    }

    async fn fetch_unpublished(&mut self, limit: usize) -> Result<Vec<OutboxRecord>, S::Error> {
        (**self).fetch_unpublished(limit).await
    }

    async fn mark_published(&mut self, ids: &[String]) -> Result<(), S::Error> {
        (**self).mark_published(ids).await
    }

    async fn mark_failed(&mut self, id: &str, error: &str) -> Result<(), S::Error> {
        (**self).mark_failed(id, error).await
    }
}

/// Why a broker did not take or give something. Its text is stored and shown: no payload, no secret.
pub type TransportError = Box<dyn std::error::Error + Send + Sync>;

/// What the relay needs of a broker.
pub trait OutboxTransport: Send {
    /// Publishes a body to a queue and returns once the broker has it.
    fn publish(
        &mut self,
        queue: &str,
        body: &Bytes,
    ) -> impl Future<Output = Result<(), TransportError>> + Send;
}

impl<T: OutboxTransport> OutboxTransport for &mut T {
    async fn publish(&mut self, queue: &str, body: &Bytes) -> Result<(), TransportError> {
        (**self).publish(queue, body).await
    }
}

/// Writes envelopes into an outbox.
#[derive(Debug)]
pub struct Outbox<S>(S);

impl<S: OutboxStore> Outbox<S> {
    /// An outbox on a store.
    pub fn new(store: S) -> Self {
        Self(store)
    }

    /// Saves an envelope, encoded once, for its queue ([`DEFAULT_QUEUE`] where that is blank), and gives
    /// the row's id. It begins and commits nothing: the row is there when the caller's transaction
    /// commits.
    ///
    /// # Errors
    /// The store's own.
    pub async fn write(&mut self, envelope: &Envelope) -> Result<String, S::Error> {
        let queue =
            if envelope.queue().trim().is_empty() { DEFAULT_QUEUE } else { envelope.queue() };
        self.0.save(&envelope.encode(), queue).await
    }
}
