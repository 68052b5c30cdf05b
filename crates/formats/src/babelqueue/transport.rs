//! A queue as a consumer and [`super::redrive`] need it, and one in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::outbox::{OutboxTransport, TransportError};

/// Headers that travel beside the envelope.
pub type Headers = BTreeMap<String, String>;

/// A message that was taken and is not yet acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<H> {
    /// The envelope's bytes.
    pub body: Bytes,
    /// The queue that it was taken from.
    pub queue: String,
    /// What the broker wants back with the acknowledgement.
    pub handle: H,
    /// Headers beside the envelope.
    pub headers: Headers,
}

/// A broker's queues.
pub trait Transport: OutboxTransport {
    /// What the broker wants back with an acknowledgement.
    type Handle: Send + Sync;

    /// Takes the next message, or nothing where none came within the time.
    fn pop(
        &mut self,
        queue: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Delivery<Self::Handle>>, TransportError>> + Send;

    /// Acknowledges: the broker forgets the message.
    fn ack(
        &mut self,
        delivery: &Delivery<Self::Handle>,
    ) -> impl Future<Output = Result<(), TransportError>> + Send;

    /// Whether headers of the caller's own reach the consumer.
    fn carries_headers(&self) -> bool {
        false
    }

    /// Publishes with headers. A transport that does not carry them drops them.
    fn publish_with_headers(
        &mut self,
        queue: &str,
        body: &Bytes,
        headers: &Headers,
    ) -> impl Future<Output = Result<(), TransportError>> + Send {
        let _ = headers;
        self.publish(queue, body)
    }
}

/// What waits, by queue, the oldest first.
type Queues = HashMap<String, VecDeque<(Bytes, Headers)>>;

/// Queues in memory, for tests and demonstrations. Clones share them. What is taken is gone: an
/// acknowledgement does nothing.
#[derive(Debug, Clone, Default)]
pub struct InMemoryTransport {
    queues: Arc<Mutex<Queues>>,
    without_headers: bool,
}

impl InMemoryTransport {
    /// Queues that carry headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues that drop headers.
    #[must_use]
    pub fn without_headers() -> Self {
        Self { without_headers: true, ..Self::default() }
    }

    /// What waits in a queue, the oldest first.
    #[must_use]
    pub fn bodies(&self, queue: &str) -> Vec<Bytes> {
        self.lock().get(queue).into_iter().flatten().map(|(body, _)| body.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        // No code of a caller runs under the lock, so that a poisoned one is whole.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, queue: &str, body: &Bytes, headers: Headers) {
        self.lock().entry(queue.to_owned()).or_default().push_back((body.clone(), headers));
    }
}

impl OutboxTransport for InMemoryTransport {
    async fn publish(&mut self, queue: &str, body: &Bytes) -> Result<(), TransportError> {
        self.push(queue, body, Headers::new());
        Ok(())
    }
}

impl Transport for InMemoryTransport {
    type Handle = ();

    async fn pop(
        &mut self,
        queue: &str,
        _timeout: Duration,
    ) -> Result<Option<Delivery<()>>, TransportError> {
        let taken = self.lock().get_mut(queue).and_then(VecDeque::pop_front);
        Ok(taken.map(|(body, headers)| Delivery {
            body,
            queue: queue.to_owned(),
            handle: (),
            headers,
        }))
    }

    async fn ack(&mut self, _delivery: &Delivery<()>) -> Result<(), TransportError> {
        Ok(())
    }

    fn carries_headers(&self) -> bool {
        !self.without_headers
    }

    async fn publish_with_headers(
        &mut self,
        queue: &str,
        body: &Bytes,
        headers: &Headers,
    ) -> Result<(), TransportError> {
        let kept = if self.without_headers { Headers::new() } else { headers.clone() };
        self.push(queue, body, kept);
        Ok(())
    }
}
