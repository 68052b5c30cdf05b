//! Many publishes handed over at once, without a future for each of them.

use std::fmt;
use std::sync::Arc;

use super::PublishError;
use crate::message::Message;

/// Messages to publish, each under a ticket, and where to say what became of them.
///
/// See [`super::Publisher::hand_over`].
#[derive(Debug)]
pub struct HandOver {
    /// Tickets and messages, in the order in which they are to leave.
    pub messages: Vec<(u64, Arc<Message>)>,
    /// Takes the answers.
    pub answers: Arc<dyn Answers>,
}

/// Takes what became of messages that were handed over. Every call is cheap and never blocks.
pub trait Answers: fmt::Debug + Send + Sync {
    /// Whether messages may still leave. A publisher asks right before it gives them to the target:
    /// the relay's lease may have ended while they waited, or the relay may be gone.
    fn may_leave(&self) -> bool;

    /// The target has confirmed the message, durably, or the publish failed. The first answer under
    /// a ticket counts; one that comes after the publish timeout is ignored.
    fn answer(&self, ticket: u64, result: Result<(), PublishError>);

    /// The message was not sent and will not be, since it might not leave any more.
    fn not_sent(&self, ticket: u64);
}
