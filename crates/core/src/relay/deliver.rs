//! Delivering rows that are claimed: each is published while nobody else can have it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::policy::Hold;
use super::report::Report;
use crate::error::{Error, ErrorKind};
use crate::message::Message;
use crate::publisher::{PublishClass, PublishError, Publisher};
use crate::store::{
    ClaimStore, ClaimedRow, Content, Mark, MarkVerdict, QuarantineReason, clean_error,
};

/// How rows are delivered.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) store: Arc<dyn ClaimStore>,
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) timeout: Duration,
    pub(super) attempts_max: Option<u32>,
    /// Whether a failure of this class is the message's own, as far as can be told.
    pub(super) counts: fn(PublishClass) -> bool,
}

/// What became of a row.
pub(super) struct Delivered {
    pub(super) seq: i64,
    pub(super) attempts: u32,
    pub(super) end: End,
}

pub(super) enum End {
    Published,
    Failed { message: Message, error: PublishError, counts: bool },
    Quarantined { message: Option<Message>, reason: QuarantineReason, error: Failure },
}

/// What quarantined a row.
pub(super) enum Failure {
    Undecodable(String),
    Publish(PublishError),
}

impl Delivered {
    pub(super) fn mark(&self) -> Mark {
        let verdict = match &self.end {
            End::Published => MarkVerdict::Published,
            End::Failed { error, counts, .. } => {
                MarkVerdict::Failed { error: error.detail().to_owned(), counts: *counts }
            }
            End::Quarantined { reason, error, .. } => {
                MarkVerdict::Quarantined { reason: *reason, error: error.text() }
            }
        };
        Mark { seq: self.seq, verdict }
    }

    /// What the owner is told once the mark is in the store; of a failure also what waits for it.
    pub(super) fn report(self, holds: Hold) -> Option<Report> {
        let seq = self.seq;
        match self.end {
            End::Published => None,
            End::Failed { message, error, .. } => {
                Some(Report::PublishFailed { seq, message, error, holds })
            }
            End::Quarantined { message, reason, error } => {
                let text = error.text();
                let cause = error.into_cause();
                let holds = Hold::None;
                Some(Report::Quarantined { seq, message, reason, error: text, holds, cause })
            }
        }
    }
}

impl Failure {
    fn text(&self) -> String {
        match self {
            Self::Undecodable(detail) => clean_error(detail),
            Self::Publish(error) => error.detail().to_owned(),
        }
    }

    fn into_cause(self) -> Box<dyn std::error::Error + Send + Sync> {
        match self {
            Self::Undecodable(detail) => {
                Box::new(Error::new(ErrorKind::Corrupt, "decoding a message").detail(detail))
            }
            Self::Publish(error) => Box::new(error),
        }
    }
}

impl Delivery {
    /// Publishes one row, bounded in time, and says what became of it.
    pub(super) async fn deliver(&self, row: &ClaimedRow, time: Duration) -> Delivered {
        let end = match &row.content {
            Content::Message(message) => self.deliver_message(row, message, time).await,
            Content::Undecodable(detail) => undecodable(detail.clone()),
            Content::Blocked => {
                undecodable("the store gave the row without its message".to_owned())
            }
        };
        Delivered { seq: row.seq, attempts: row.attempts, end }
    }

    async fn deliver_message(
        &self,
        row: &ClaimedRow,
        message: &Arc<Message>,
        time: Duration,
    ) -> End {
        let (reason, error) = match self.refusal(message) {
            Some(refusal) => refusal,
            None => match self.publish(message, time).await {
                Ok(()) => return End::Published,
                Err(error) => (QuarantineReason::Permanent, error),
            },
        };
        let message = Message::clone(message);
        if error.class() == PublishClass::Permanent {
            let (message, error) = (Some(message), Failure::Publish(error));
            return End::Quarantined { message, reason, error };
        }
        let counts = (self.counts)(error.class());
        let attempts = row.attempts.saturating_add(1);
        if counts && self.attempts_max.is_some_and(|max| attempts >= max) {
            let reason = QuarantineReason::Attempts;
            let (message, error) = (Some(message), Failure::Publish(error));
            return End::Quarantined { message, reason, error };
        }
        End::Failed { message, error, counts }
    }

    async fn publish(&self, message: &Message, time: Duration) -> Result<(), PublishError> {
        // A publisher that panics on one message must not take the others' relay with it.
        let publish = AssertUnwindSafe(async {
            if message.is_reserved() {
                return self.store.attend(message).await;
            }
            self.publisher.publish(message).await
        })
        .catch_unwind();
        let result = match tokio::time::timeout(time, publish).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(panicked()),
            Err(_) => Err(PublishError::new(
                PublishClass::TimedOut,
                format!("no answer within {time:?}; whether it arrived is unknown"),
            )),
        };
        if let Err(error) = &result
            && error.class() == PublishClass::TimedOut
        {
            self.reset().await;
        }
        result
    }

    /// What the client still has buffered must not leave later.
    pub(super) async fn reset(&self) {
        let reset = AssertUnwindSafe(self.publisher.reset()).catch_unwind();
        // Not longer than a publish may take: the rows stay claimed meanwhile.
        if !matches!(tokio::time::timeout(self.timeout / 4, reset).await, Ok(Ok(()))) {
            tracing::warn!("discarding the target's connection failed");
        }
    }

    /// Why the target does not take a message, as far as that can be told before it is sent.
    fn refusal(&self, message: &Message) -> Option<(QuarantineReason, PublishError)> {
        if message.is_reserved() {
            return None;
        }
        let ask = || {
            let (max, size) = (self.publisher.limits().body_bytes_max, message.body().len());
            if size > max {
                let error = format!("the body has {size} bytes, the target takes {max}");
                return Some((QuarantineReason::TooLarge, PublishError::permanent(error)));
            }
            let refused = self.publisher.check(message).err()?;
            // Whatever its class says: it was asked whether it could ever take the message.
            let refused = match refused.class() {
                PublishClass::Permanent => refused,
                _ => PublishError::permanent(refused.detail()),
            };
            Some((QuarantineReason::Permanent, refused))
        };
        catch_unwind(AssertUnwindSafe(ask))
            .unwrap_or_else(|_| Some((QuarantineReason::Permanent, panicked())))
    }
}

fn panicked() -> PublishError {
    PublishError::failed("the publisher panicked")
}

fn undecodable(detail: String) -> End {
    let error = Failure::Undecodable(detail);
    End::Quarantined { message: None, reason: QuarantineReason::Undecodable, error }
}

/// Waits for what a user's code does, and no longer than until a time.
pub(super) async fn until<T>(
    time: tokio::time::Instant,
    what: &'static str,
    subject: &str,
    work: impl Future<Output = crate::Result<T>>,
) -> crate::Result<T> {
    tokio::time::timeout_at(time, work).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Timeout, what)
            .subject(subject)
            .detail("twice the publish timeout was over; what was claimed is free again")
            .advice("the messages are published again, with the same ids"))
    })
}
