//! The recorder: runs a command and writes what it raises.

use std::fmt;

use sendoff_core::outbox::{BlockingTransaction, Transaction};
use sendoff_core::time::Clock;
use sendoff_core::{Error, Result};
use uuid::Uuid;

use super::Event;
use super::kind::Raised;
use super::sink::{OutboxSink, Sink, SinkError};
use crate::json::SerializeError;

/// What a command has raised so far.
#[derive(Debug, Default)]
pub struct EventQueue {
    raised: Vec<Raised>,
    failure: Option<(String, SerializeError)>,
}

impl EventQueue {
    /// Raises an event whose data is encoded already. [`super::EventKind::raise`] encodes it.
    pub fn push(&mut self, raised: Raised) {
        self.raised.push(raised);
    }

    /// Notes that an event could not be encoded: the first one fails the command.
    pub(super) fn fail(&mut self, kind: &str, error: SerializeError) {
        self.failure.get_or_insert_with(|| (kind.to_owned(), error));
    }
}

/// Why a command failed. Its transaction has not committed.
#[derive(Debug)]
pub enum RecordError<C, E> {
    /// The command's own error.
    Command(C),
    /// What the command raised cannot be said in JSON.
    Raise {
        /// The event's type.
        kind: String,
        /// What JSON cannot say.
        error: SerializeError,
    },
    /// The events could not be written.
    Sink(SinkError<E>),
    /// The commit failed.
    Commit(E),
}

impl<C: fmt::Display, E: fmt::Display> fmt::Display for RecordError<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(error) => error.fmt(f),
            Self::Raise { kind, error } => write!(f, "raising an event {kind}: {error}"),
            Self::Sink(error) => error.fmt(f),
            Self::Commit(error) => write!(f, "committing a command: {error}"),
        }
    }
}

impl<C, E> std::error::Error for RecordError<C, E>
where
    C: std::error::Error + 'static,
    E: std::error::Error + 'static,
{
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Command(error) => Some(error),
            Self::Raise { error, .. } => Some(error),
            Self::Sink(error) => Some(error),
            Self::Commit(error) => Some(error),
        }
    }
}

/// Runs commands, and writes the events that they raise in the commands' own transactions: an event
/// exists if and only if the state that it reports was committed.
///
/// Events are stamped when the command's body has ended: an id (UUID version 7), the service's source,
/// and one time for all of them. A command that raises nothing does not touch the sink.
///
/// ```
/// use sendoff_core::memory::MemoryStore;
/// use sendoff_core::store::OutboxDesk;
/// use sendoff_formats::event::{EventKind, OutboxSink, Recorder};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// # store.migrate().await?;
/// let recorder = Recorder::new(OutboxSink::new(), "/shop")?;
/// let placed = EventKind::<u64>::define("orders.placed")?;
///
/// let order = recorder
///     .emit(store.begin(), async |_transaction, events| {
///         // The command's own statements come here, in the same transaction.
///         placed.raise(events, Some("customer-7"), &1042);
///         Ok::<_, std::convert::Infallible>(1042)
///     })
///     .await?;
/// assert_eq!(order, 1042);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Recorder<S = OutboxSink> {
    sink: S,
    source: String,
    clock: Clock,
    ids: fn() -> String,
}

fn new_id() -> String {
    Uuid::now_v7().to_string()
}

impl<S> Recorder<S> {
    /// A recorder for the service `source`.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] for an empty source.
    pub fn new(sink: S, source: impl Into<String>) -> Result<Self> {
        let source = source.into();
        if source.is_empty() {
            return Err(Error::invalid("making a recorder of events", "the source is empty"));
        }
        Ok(Self { sink, source, clock: Clock::system(), ids: new_id })
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// With ids of the caller's own.
    #[must_use]
    pub fn with_ids(mut self, ids: fn() -> String) -> Self {
        self.ids = ids;
        self
    }

    /// Runs a command in the caller's transaction, writes what it raised, and commits. On an error, and
    /// where the future is dropped, the transaction is dropped, which rolls it back.
    ///
    /// # Errors
    /// [`RecordError`]
    pub async fn emit<D, T, R, C>(
        &self,
        mut transaction: T,
        body: impl AsyncFnOnce(&mut T, &mut EventQueue) -> std::result::Result<R, C>,
    ) -> std::result::Result<R, RecordError<C, T::Error>>
    where
        T: Transaction<D>,
        S: Sink<D, T>,
    {
        let answer = self.record(&mut transaction, body).await?;
        transaction.commit().await.map_err(RecordError::Commit)?;
        Ok(answer)
    }

    /// [`Recorder::emit`] without the commit: for a transaction that goes on. After an error the caller
    /// has to roll it back.
    ///
    /// # Errors
    /// [`RecordError`]
    pub async fn record<D, T, R, C>(
        &self,
        transaction: &mut T,
        body: impl AsyncFnOnce(&mut T, &mut EventQueue) -> std::result::Result<R, C>,
    ) -> std::result::Result<R, RecordError<C, T::Error>>
    where
        T: Transaction<D>,
        S: Sink<D, T>,
    {
        let mut queue = EventQueue::default();
        let answer = body(transaction, &mut queue).await.map_err(RecordError::Command)?;
        let events = self.stamp(queue)?;
        if !events.is_empty() {
            self.sink.write(transaction, &events).await.map_err(RecordError::Sink)?;
        }
        Ok(answer)
    }

    fn stamp<C, E>(&self, queue: EventQueue) -> std::result::Result<Vec<Event>, RecordError<C, E>> {
        if let Some((kind, error)) = queue.failure {
            return Err(RecordError::Raise { kind, error });
        }
        let now = self.clock.now();
        let stamped = queue.raised.into_iter().map(|raised| Event {
            id: (self.ids)(),
            source: self.source.clone(),
            kind: raised.kind,
            subject: raised.subject,
            data_content_type: raised.data_content_type,
            data_schema: raised.data_schema,
            time: Some(now),
            data: raised.data,
            extensions: raised.extensions,
        });
        Ok(stamped.collect())
    }
}

impl Recorder<OutboxSink> {
    /// [`Recorder::emit`] for drivers that block, as rusqlite does.
    ///
    /// # Errors
    /// [`RecordError`]
    pub fn emit_blocking<D, T, R, C>(
        &self,
        transaction: T,
        body: impl FnOnce(&T, &mut EventQueue) -> std::result::Result<R, C>,
    ) -> std::result::Result<R, RecordError<C, T::Error>>
    where
        T: BlockingTransaction<D>,
    {
        let mut queue = EventQueue::default();
        let answer = body(&transaction, &mut queue).map_err(RecordError::Command)?;
        let events = self.stamp(queue)?;
        if !events.is_empty() {
            self.sink.write_blocking(&transaction, &events).map_err(RecordError::Sink)?;
        }
        transaction.commit().map_err(RecordError::Commit)?;
        Ok(answer)
    }
}
