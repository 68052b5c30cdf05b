//! A relay without a publisher: a closure takes the messages.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Parts, Progress, Readiness, Relay, RelayBuilder, Routes, Tally, engine};
use crate::error::Result;
use crate::message::Message;
use crate::publisher::{PublishError, Publisher};
use crate::store::{OutboxStore, RelayId};

/// A relay that hands each message to a closure instead of a [`Publisher`].
///
/// Everything else is as with a publisher: messages of one key come in order and one at a time, others at
/// once (at most 1,000, or [`super::RelaySettings::in_flight_max`]); what fails is tried again, what fails
/// with [`PublishError::permanent`] goes to quarantine; [`super::RelaySettings::publish_timeout`] bounds
/// each call.
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::memory::MemoryStore;
/// use sendoff_core::store::OutboxDesk;
/// use sendoff_core::{Outbox, Relay};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new());
/// store.send_all(&[Outbox::new("shop").message("orders.placed").key("ada").build()?]).await?;
///
/// let receiver = Relay::receiver(store).build()?;
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let stop = std::sync::Mutex::new(Some(stop));
/// let tally = receiver
///     .receive(
///         move |message| {
///             assert_eq!(message.topic(), "orders.placed");
///             drop(stop.lock().unwrap().take());
///             async { Ok(()) }
///         },
///         async { drop(stopped.await) },
///     )
///     .await;
/// assert_eq!(tally.settled, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a receiver does nothing until it receives"]
pub struct Receiver {
    parts: Parts,
}

impl Relay {
    /// Begins a relay from `store` to a closure, see [`Receiver`].
    pub fn receiver(store: Arc<dyn OutboxStore>) -> RelayBuilder<Receiver> {
        RelayBuilder::new(store, Routes::single(Arc::new(Nobody)))
    }
}

impl RelayBuilder<Receiver> {
    /// Checks the settings and gives the receiver.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Receiver> {
        self.checked().map(|parts| Receiver { parts })
    }
}

impl Receiver {
    /// The relay's id, as leases show it.
    #[must_use]
    pub fn id(&self) -> &RelayId {
        &self.parts.id
    }

    /// Whether it is ready: a handle to keep while it receives.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.parts.readiness.clone()
    }

    /// How far it is: a handle to keep while it receives.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.parts.progress.clone()
    }

    /// Hands messages to `handler` until `stop` is done, then stops as [`Relay::run`] does. A message is
    /// settled when its handler has returned `Ok`; a handler whose time is over is dropped.
    pub async fn receive<H, F>(mut self, handler: H, stop: impl Future<Output = ()> + Send) -> Tally
    where
        H: Fn(Arc<Message>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), PublishError>> + Send + 'static,
    {
        self.parts.routes = Routes::single(handled_by(handler));
        engine::run(self.parts, stop).await
    }
}

/// A closure in a publisher's place.
pub(super) fn handled_by<H, F>(handler: H) -> Arc<dyn Publisher>
where
    H: Fn(Arc<Message>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), PublishError>> + Send + 'static,
{
    Arc::new(Handler(handler))
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("id", &self.parts.id)
            .field("from", &self.parts.store.address())
            .finish_non_exhaustive()
    }
}

/// The address of a closure.
const ADDRESS: &str = "handler:";

struct Handler<H>(H);

impl<H> fmt::Debug for Handler<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

#[async_trait]
impl<H, F> Publisher for Handler<H>
where
    H: Fn(Arc<Message>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), PublishError>> + Send + 'static,
{
    fn address(&self) -> &str {
        ADDRESS
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        // Its body is shared, not copied.
        (self.0)(Arc::new(message.clone())).await
    }
}

/// In the place of a closure that is not there yet.
#[derive(Debug)]
pub(super) struct Nobody;

#[async_trait]
impl Publisher for Nobody {
    fn address(&self) -> &str {
        ADDRESS
    }

    async fn publish(&self, _: &Message) -> Result<(), PublishError> {
        Err(PublishError::unreachable("there is no handler"))
    }
}
