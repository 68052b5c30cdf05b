//! Sinks: where the events of a command are written, in its transaction.

use std::fmt;
use std::future::Future;

use sendoff_core::message::Limits;
use sendoff_core::outbox::{BlockingTransaction, Outbox, Transaction};
use sendoff_core::{Headers, Message};

use super::{Event, EventError, binary};

/// Writes events in a transaction that the caller has opened. `D` is the driver's marker, which callers
/// never write.
pub trait Sink<D, T: Transaction<D>>: Sync {
    /// Writes all events, in their order, or none. An invalid one fails before anything is written.
    ///
    /// # Errors
    /// [`SinkError`]
    fn write(
        &self,
        transaction: &mut T,
        events: &[Event],
    ) -> impl Future<Output = Result<(), SinkError<T::Error>>> + Send;
}

/// Why events were not written.
#[derive(Debug)]
pub enum SinkError<E> {
    /// An event breaks a rule. Nothing was written.
    Event(EventError),
    /// An event is no message: a name is too long, or the data too large. Nothing was written.
    Message(sendoff_core::Error),
    /// The database's own error: a unique violation where the source and id were written before.
    Store(E),
}

impl<E: fmt::Display> fmt::Display for SinkError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(error) => error.fmt(f),
            Self::Message(error) => error.fmt(f),
            Self::Store(error) => write!(f, "writing the events of a command: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for SinkError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Event(error) => Some(error),
            Self::Message(error) => Some(error),
            Self::Store(error) => Some(error),
        }
    }
}

/// The sink that is Sendoff's own outbox.
///
/// An event is a message with the event's id and source, the event's type as its topic, its subject as
/// its key (so that the events of one thing keep their order), its attributes as headers in binary mode,
/// and its data as the body.
#[derive(Debug, Clone, Default)]
pub struct OutboxSink {
    limits: Limits,
}

impl OutboxSink {
    /// A sink with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The message of an event.
    ///
    /// # Errors
    /// [`SinkError::Event`] and [`SinkError::Message`]
    pub fn message<E>(&self, event: &Event) -> Result<Message, SinkError<E>> {
        let (headers, body) = binary::encode(event).map_err(SinkError::Event)?;
        let headers: Headers = headers
            .into_iter()
            .filter_map(|(name, values)| Some((name, values.into_iter().next()?)))
            .collect();
        let mut message = Message::builder(event.source.as_str(), event.kind.as_str())
            .id(event.id.as_str())
            .headers(headers)
            .body(body)
            .limits(self.limits);
        if let Some(subject) = event.subject.as_deref().filter(|subject| !subject.is_empty()) {
            message = message.key(subject);
        }
        message.build().map_err(SinkError::Message)
    }

    fn messages<E>(&self, events: &[Event]) -> Result<Vec<Message>, SinkError<E>> {
        events.iter().map(|event| self.message(event)).collect()
    }

    /// [`Sink::write`] for drivers that block, as rusqlite does.
    ///
    /// # Errors
    /// [`SinkError`]
    pub fn write_blocking<D, T: BlockingTransaction<D>>(
        &self,
        transaction: &T,
        events: &[Event],
    ) -> Result<(), SinkError<T::Error>> {
        let messages = self.messages(events)?;
        // The messages have sources of their own: the outbox's name is not used.
        Outbox::new("").send_all_blocking(transaction, &messages).map_err(SinkError::Store)
    }
}

impl<D, T: Transaction<D>> Sink<D, T> for OutboxSink {
    async fn write(
        &self,
        transaction: &mut T,
        events: &[Event],
    ) -> Result<(), SinkError<T::Error>> {
        let messages = self.messages(events)?;
        transaction.append(&messages).await.map_err(SinkError::Store)
    }
}
