//! A publisher that tells when a message was confirmed. What is noted of it is the measurement's
//! business.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sendoff_brokers::nats::NatsPublisher;
use sendoff_core::publisher::{Answers, HandOver, PublisherLimits};
use sendoff_core::{Message, PublishError, Publisher};

/// What is called with each message when its acknowledgement has come.
type Note = Arc<dyn Fn(&Message) + Send + Sync>;

/// The product's publisher, which calls `note` with each message when its acknowledgement has come.
pub(crate) struct Noting {
    inner: NatsPublisher,
    note: Note,
}

impl Noting {
    /// Notes what `inner` confirms.
    pub(crate) fn new(
        inner: NatsPublisher,
        note: impl Fn(&Message) + Send + Sync + 'static,
    ) -> Self {
        Self { inner, note: Arc::new(note) }
    }
}

impl fmt::Debug for Noting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noting").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Publisher for Noting {
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
        self.inner.publish(message).await?;
        (self.note)(message);
        Ok(())
    }

    fn hand_over(&self, batch: HandOver) -> Result<(), HandOver> {
        let answers = Arc::clone(&batch.answers);
        let messages = batch.messages.clone();
        let noted = Arc::new(NotedAnswers { answers, messages, note: Arc::clone(&self.note) });
        self.inner
            .hand_over(HandOver { messages: batch.messages, answers: noted })
            .map_err(|HandOver { messages, .. }| HandOver { messages, answers: batch.answers })
    }

    async fn reset(&self) {
        self.inner.reset().await;
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// The answers to messages that were handed over, noted on their way to the relay.
struct NotedAnswers {
    answers: Arc<dyn Answers>,
    messages: Vec<(u64, Arc<Message>)>,
    note: Note,
}

impl fmt::Debug for NotedAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotedAnswers").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl Answers for NotedAnswers {
    fn may_leave(&self) -> bool {
        self.answers.may_leave()
    }

    fn answer(&self, ticket: u64, result: Result<(), PublishError>) {
        // Tickets go up by one, but for those of errands, which are not handed over.
        let place = self.messages.binary_search_by_key(&ticket, |(ticket, _)| *ticket);
        if let (Ok(()), Ok(place)) = (&result, place) {
            (self.note)(&self.messages[place].1);
        }
        self.answers.answer(ticket, result);
    }

    fn not_sent(&self, ticket: u64) {
        self.answers.not_sent(ticket);
    }
}
