//! The outbox: a message is written in the transaction that the caller opened.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::message::{Limits, Message, MessageBuilder};

/// Sends messages of one source.
///
/// It holds a name and limits, no connection: make one per service and share it. A send adds one
/// statement to the caller's transaction and nothing else; the message exists if and only if that
/// transaction commits, savepoints included (G1).
#[derive(Debug, Clone)]
pub struct Outbox {
    source: String,
    limits: Limits,
}

impl Outbox {
    /// An outbox for the service `source`, with the default [`Limits`].
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), limits: Limits::default() }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Begins a message to `topic`.
    ///
    /// With the feature `opentelemetry` the message carries the span that is current when it is built,
    /// in the headers `traceparent` and `tracestate`, unless it has a `traceparent` already.
    pub fn message(&self, topic: impl Into<String>) -> MessageBuilder {
        Message::builder(self.source.clone(), topic).limits(self.limits).traced()
    }

    /// Writes a message into the caller's transaction.
    ///
    /// # Errors
    /// The driver's own error. A second send of the same source and id is a unique violation.
    pub async fn send<D, T: Transaction<D>>(
        &self,
        transaction: &mut T,
        message: &Message,
    ) -> Result<(), T::Error> {
        transaction.append(std::slice::from_ref(message)).await
    }

    /// Writes messages into the caller's transaction, in this order, with one statement.
    ///
    /// # Errors
    /// The driver's own error. A second send of the same source and id is a unique violation.
    pub async fn send_all<D, T: Transaction<D>>(
        &self,
        transaction: &mut T,
        messages: &[Message],
    ) -> Result<(), T::Error> {
        transaction.append(messages).await
    }

    /// [`Outbox::send`] for drivers that block, as rusqlite does.
    ///
    /// # Errors
    /// The driver's own error. A second send of the same source and id is a unique violation.
    pub fn send_blocking<D, T: BlockingTransaction<D>>(
        &self,
        transaction: &T,
        message: &Message,
    ) -> Result<(), T::Error> {
        transaction.append(std::slice::from_ref(message))
    }

    /// [`Outbox::send_all`] for drivers that block, as rusqlite does.
    ///
    /// # Errors
    /// The driver's own error. A second send of the same source and id is a unique violation.
    pub fn send_all_blocking<D, T: BlockingTransaction<D>>(
        &self,
        transaction: &T,
        messages: &[Message],
    ) -> Result<(), T::Error> {
        transaction.append(messages)
    }
}

/// A transaction that the caller opened: the one place where a driver's transaction type is named.
///
/// Implemented only on transaction types, so forgetting to open one does not compile. `D` is the
/// implementing crate's own marker for the driver; callers never write it.
pub trait Transaction<D>: Send {
    /// The driver's own error, so that `?` works in the caller's function.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Writes messages, in order, with as few statements as the database allows.
    ///
    /// # Errors
    /// The driver's own error.
    fn append(
        &mut self,
        messages: &[Message],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Commits.
    ///
    /// # Errors
    /// The driver's own error.
    fn commit(self) -> impl Future<Output = Result<(), Self::Error>> + Send
    where
        Self: Sized;
}

/// [`Transaction`] for drivers that block.
pub trait BlockingTransaction<D> {
    /// The driver's own error.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Writes messages, in order.
    ///
    /// # Errors
    /// The driver's own error.
    fn append(&self, messages: &[Message]) -> Result<(), Self::Error>;

    /// Commits.
    ///
    /// # Errors
    /// The driver's own error.
    fn commit(self) -> Result<(), Self::Error>
    where
        Self: Sized;
}

/// Tells a relay in the same process that something was committed, so that it looks at once.
///
/// A hint: without it, or when it is lost, the relay's poll finds the message. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// A wake-up to give to a relay and to those who send.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Call it after the commit. Never blocks; many calls between two looks are one.
    pub fn wake(&self) {
        self.0.notify_one();
    }

    /// Commits, then wakes.
    ///
    /// # Errors
    /// The driver's own error of the commit; then nothing is woken.
    pub async fn commit<D, T: Transaction<D>>(&self, transaction: T) -> Result<(), T::Error> {
        transaction.commit().await?;
        self.wake();
        Ok(())
    }

    /// [`Wake::commit`] for drivers that block.
    ///
    /// # Errors
    /// The driver's own error of the commit; then nothing is woken.
    pub fn commit_blocking<D, T: BlockingTransaction<D>>(
        &self,
        transaction: T,
    ) -> Result<(), T::Error> {
        transaction.commit()?;
        self.wake();
        Ok(())
    }

    /// Waits for the next wake-up, or returns at once if one came since the last wait.
    pub async fn woken(&self) {
        self.0.notified().await;
    }
}
