//! The port of a broker: where messages go.

mod hand_over;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use hand_over::{Answers, HandOver};

use async_trait::async_trait;

use crate::message::Message;
use crate::store::clean_error;

/// Publishes messages. Implement it to send to a target of your own.
///
/// The relay calls [`Publisher::publish`] for up to [`PublisherLimits::in_flight_max`] messages at
/// once, and never for two messages of one key at a time. A publisher does not retry: the relay
/// owns retry. A publisher that gains by batching collects the calls that are waiting, or takes
/// many messages with [`Publisher::hand_over`].
///
/// A panic does not end the relay: in [`Publisher::check`] or [`Publisher::publish`] it is a failed
/// attempt of that message, in [`Publisher::limits`] the target is down until they can be had.
///
/// ```
/// use async_trait::async_trait;
/// use sendoff_core::{Message, PublishError, Publisher};
///
/// #[derive(Debug)]
/// struct Print;
///
/// #[async_trait]
/// impl Publisher for Print {
///     fn address(&self) -> &str {
///         "print:"
///     }
///     async fn publish(&self, message: &Message) -> Result<(), PublishError> {
///         println!("{} {}", message.topic(), message.dedup_id());
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Publisher: fmt::Debug + Send + Sync + 'static {
    /// The target's address for people: no password.
    fn address(&self) -> &str;

    /// Bounds that the relay keeps.
    fn limits(&self) -> PublisherLimits {
        PublisherLimits::default()
    }

    /// Says before the publish whether the target could ever take the message. Costs no round trip.
    ///
    /// # Errors
    /// A [`PublishError`] of class [`PublishClass::Permanent`].
    fn check(&self, message: &Message) -> Result<(), PublishError> {
        let _ = message;
        Ok(())
    }

    /// Publishes one message and returns once the target has confirmed that it has it, durably.
    ///
    /// Dropping the future (the relay does so at the publish timeout) leaves the outcome unknown;
    /// [`Publisher::reset`] follows.
    ///
    /// # Errors
    /// A [`PublishError`] whose class says what the relay does about it.
    async fn publish(&self, message: &Message) -> Result<(), PublishError>;

    /// Takes many messages at once, each to be published as by [`Publisher::publish`]; what becomes of
    /// each is told to [`HandOver::answers`]. For targets that take so many that a future for each
    /// is what costs most. Never blocks. The relay bounds how long it waits for an answer, and
    /// [`Publisher::reset`] follows where one is missing.
    ///
    /// # Errors
    /// The messages, all of them and untouched, where the publisher does not take them now (as none
    /// does that has not implemented this): the relay then publishes them one by one.
    fn hand_over(&self, batch: HandOver) -> Result<(), HandOver> {
        Err(batch)
    }

    /// Discards the connection with everything that it has buffered, after a publish that timed
    /// out: what is still in a buffer must not leave later. The next publish connects anew.
    async fn reset(&self) {}

    /// Flushes and closes; nothing is published afterwards. Called by whoever made the publisher, once
    /// the relays that share it have stopped.
    async fn close(&self) {}
}

/// Bounds of a publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublisherLimits {
    /// The most publishes that are in flight at once.
    pub in_flight_max: usize,
    /// The largest body that the target takes, in bytes.
    pub body_bytes_max: usize,
}

impl Default for PublisherLimits {
    fn default() -> Self {
        Self { in_flight_max: 1_000, body_bytes_max: usize::MAX }
    }
}

/// What a failed publish means for the message and for the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishClass {
    /// The target as a whole takes nothing now: no connection, no such stream. The message was not
    /// sent. Nobody's attempts are used up; the relay waits and tries again.
    Unreachable,
    /// The target asks to wait. Nobody's attempts are used up.
    Throttled {
        /// For how long.
        wait: Duration,
    },
    /// The target refused this message now, and may take it later. Counts as an attempt.
    Failed,
    /// The target can never take this message. It goes to quarantine.
    Permanent,
    /// The connection ended after the message was sent, before an answer: the outcome is unknown.
    Lost,
    /// No answer came in time: the outcome is unknown, and the connection has to be discarded.
    TimedOut,
}

/// A failed publish. Two are equal where class and detail are.
#[derive(Debug, Clone)]
pub struct PublishError {
    class: PublishClass,
    detail: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl PartialEq for PublishError {
    fn eq(&self, other: &Self) -> bool {
        (self.class, &self.detail) == (other.class, &other.detail)
    }
}

impl Eq for PublishError {}

impl PublishError {
    /// A failure of `class`; `detail` is cleaned by [`clean_error`] and must not quote the body.
    #[must_use]
    pub fn new(class: PublishClass, detail: impl AsRef<str>) -> Self {
        Self { class, detail: clean_error(detail.as_ref()), source: None }
    }

    /// Shorthand for a failure that no retry mends.
    #[must_use]
    pub fn permanent(detail: impl AsRef<str>) -> Self {
        Self::new(PublishClass::Permanent, detail)
    }

    /// Shorthand for a failure of this message that may pass.
    #[must_use]
    pub fn failed(detail: impl AsRef<str>) -> Self {
        Self::new(PublishClass::Failed, detail)
    }

    /// Shorthand for a target that takes nothing now.
    #[must_use]
    pub fn unreachable(detail: impl AsRef<str>) -> Self {
        Self::new(PublishClass::Unreachable, detail)
    }

    /// Keeps the failure behind this one reachable through [`std::error::Error::source`], for whoever takes
    /// the relay's reports. It is not stored, and not shown.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What the failure means.
    #[must_use]
    pub fn class(&self) -> PublishClass {
        self.class
    }

    /// What went wrong, fit to be stored and shown.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for PublishError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
