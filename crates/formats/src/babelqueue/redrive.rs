//! Redrive: messages of a dead-letter queue go back to where they failed.

use std::fmt;
use std::time::Duration;

use super::outbox::TransportError;
use super::transport::{Delivery, Headers, Transport};
use super::{Envelope, Reason, replay};

/// So much is taken off a dead-letter queue at once, in bytes of bodies. What is left is for the next
/// redrive: [`Report::more`].
const HELD_BYTES_MAX: usize = 256 << 20;

/// Which messages are redriven.
type Select<'a> = Box<dyn Fn(&Envelope) -> bool + Send + Sync + 'a>;

/// What to redrive, and how.
///
/// All messages are taken off the queue first and then looked at one by one, so that one that is put
/// back is not met again. A message is acknowledged only after it has been published, to its target or
/// back to the dead-letter queue. Dropping the future leaves the rest unacknowledged with the broker.
#[must_use = "a redrive does nothing before `run`"]
pub struct Redrive<'a> {
    dead_letter_queue: String,
    max: usize,
    to_queue: Option<String>,
    select: Option<Select<'a>>,
    dry_run: bool,
    bypass_external_effects: bool,
}

impl fmt::Debug for Redrive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redrive")
            .field("dead_letter_queue", &self.dead_letter_queue)
            .field("max", &self.max)
            .field("to_queue", &self.to_queue)
            .field("selects", &self.select.is_some())
            .field("dry_run", &self.dry_run)
            .field("bypass_external_effects", &self.bypass_external_effects)
            .finish()
    }
}

/// What became of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The message's id; empty where the body does not decode.
    pub message_id: String,
    /// Its trace id.
    pub trace_id: String,
    /// Its URN.
    pub urn: String,
    /// Why it was put aside, where it says so.
    pub reason: Option<Reason>,
    /// The dead-letter queue.
    pub from: String,
    /// Where it went, or would go; empty where it stays.
    pub to: String,
    /// Whether it was published to its target.
    pub redriven: bool,
    /// Whether it carries the wish that external effects do not happen again.
    pub bypassed: bool,
}

/// What became of all messages, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One for each message.
    pub items: Vec<Item>,
    /// So many were published to their targets.
    pub redriven: usize,
    /// So many are on the dead-letter queue as before.
    pub skipped: usize,
    /// The queue was not taken whole, since it holds more than memory should: redrive again.
    pub more: bool,
}

/// A redrive that a broker's failure ended. What had been taken was put back, as far as the broker took
/// it; what it did not take is unacknowledged.
#[derive(Debug)]
pub struct RedriveError {
    /// What had become of the messages before.
    pub report: Report,
    doing: &'static str,
    source: TransportError,
}

impl fmt::Display for RedriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} after {} redriven messages: {}; redrive again, the rest is on the dead-letter queue",
            self.doing, self.report.redriven, self.source
        )
    }
}

impl std::error::Error for RedriveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.source.as_ref())
    }
}

type Failure = (&'static str, TransportError);

impl<'a> Redrive<'a> {
    /// A redrive of all messages of a dead-letter queue, each to the queue that it came from.
    pub fn of(dead_letter_queue: impl Into<String>) -> Self {
        Self {
            dead_letter_queue: dead_letter_queue.into(),
            max: 0,
            to_queue: None,
            select: None,
            dry_run: false,
            bypass_external_effects: false,
        }
    }

    /// Not more than so many; 0 is all.
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// All to this queue, wherever they came from.
    pub fn to_queue(mut self, queue: impl Into<String>) -> Self {
        self.to_queue = Some(queue.into());
        self
    }

    /// Only those for which this answers true; the others are put back.
    pub fn select(mut self, select: impl Fn(&Envelope) -> bool + Send + Sync + 'a) -> Self {
        self.select = Some(Box::new(select));
        self
    }

    /// Says what would be done, and puts everything back.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Marks what is redriven as a replay, see [`replay`]. A transport that carries no headers cannot;
    /// its messages are redriven without the mark, and [`Item::bypassed`] says so.
    pub fn bypass_external_effects(mut self) -> Self {
        self.bypass_external_effects = true;
        self
    }

    /// Does it. A message goes back as it was: without its dead letter, with attempts 0, the rest the
    /// same.
    ///
    /// # Errors
    /// [`RedriveError`] where the broker fails.
    pub async fn run<T: Transport>(&self, transport: &mut T) -> Result<Report, RedriveError> {
        let mut report = Report::default();
        let (taken, mut failure) = self.take(transport, &mut report).await;
        for delivery in taken {
            let done = match failure {
                None => self.redrive(transport, &delivery, &mut report).await,
                // The rest is put back; the first failure is the one to tell.
                Some(_) => self.put_back(transport, &delivery).await,
            };
            if let (Err(error), None) = (done, &failure) {
                failure = Some(error);
            }
        }
        match failure {
            None => Ok(report),
            Some((doing, source)) => Err(RedriveError { report, doing, source }),
        }
    }

    async fn take<T: Transport>(
        &self,
        transport: &mut T,
        report: &mut Report,
    ) -> (Vec<Delivery<T::Handle>>, Option<Failure>) {
        let mut taken = Vec::new();
        let mut held_bytes = 0;
        while self.max == 0 || taken.len() < self.max {
            match transport.pop(&self.dead_letter_queue, Duration::ZERO).await {
                Ok(Some(delivery)) => {
                    held_bytes += delivery.body.len();
                    taken.push(delivery);
                }
                Ok(None) => break,
                Err(error) => {
                    return (taken, Some(("taking messages off a dead-letter queue", error)));
                }
            }
            if held_bytes >= HELD_BYTES_MAX {
                report.more = true;
                break;
            }
        }
        (taken, None)
    }

    async fn redrive<T: Transport>(
        &self,
        transport: &mut T,
        delivery: &Delivery<T::Handle>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let envelope = Envelope::decode(&delivery.body).ok();
        let mut item = self.item(envelope.as_ref());
        let selected = envelope.filter(|envelope| {
            self.select.as_ref().is_none_or(|select| select(envelope)) && !item.to.is_empty()
        });
        let Some(envelope) = selected else {
            item.to.clear();
            return self.skip(transport, delivery, report, item).await;
        };
        if self.dry_run {
            return self.skip(transport, delivery, report, item).await;
        }
        let mut headers = delivery.headers.clone();
        headers.remove(replay::HEADER);
        item.bypassed = self.bypass_external_effects && transport.carries_headers();
        if item.bypassed {
            headers.insert(replay::HEADER.to_owned(), "1".to_owned());
        }
        let body = envelope.reset().encode().into();
        if let Err(error) = publish(transport, &item.to, &body, &headers).await {
            // What cannot be put back either stays unacknowledged with the broker.
            let _ = self.put_back(transport, delivery).await;
            return Err(("redriving a message", error));
        }
        item.redriven = true;
        report.redriven += 1;
        report.items.push(item);
        transport.ack(delivery).await.map_err(|error| ("acknowledging a redriven message", error))
    }

    async fn skip<T: Transport>(
        &self,
        transport: &mut T,
        delivery: &Delivery<T::Handle>,
        report: &mut Report,
        item: Item,
    ) -> Result<(), Failure> {
        self.put_back(transport, delivery).await?;
        report.skipped += 1;
        report.items.push(item);
        Ok(())
    }

    /// Puts a message back as it came, with its headers.
    async fn put_back<T: Transport>(
        &self,
        transport: &mut T,
        delivery: &Delivery<T::Handle>,
    ) -> Result<(), Failure> {
        let doing = "putting a message back on a dead-letter queue";
        let (queue, headers) = (&self.dead_letter_queue, &delivery.headers);
        publish(transport, queue, &delivery.body, headers).await.map_err(|error| (doing, error))?;
        transport.ack(delivery).await.map_err(|error| (doing, error))
    }

    fn item(&self, envelope: Option<&Envelope>) -> Item {
        let text = |of: fn(&Envelope) -> &str| envelope.map(of).unwrap_or_default().to_owned();
        let dead_letter = envelope.and_then(Envelope::dead_letter);
        let queue = text(Envelope::queue);
        let original = dead_letter.as_ref().map(|dead| dead.original_queue.clone());
        let to = self.to_queue.clone().or(original.filter(|queue| !queue.is_empty()));
        Item {
            message_id: text(Envelope::id),
            trace_id: text(Envelope::trace_id),
            urn: text(Envelope::urn),
            reason: dead_letter.map(|dead| dead.reason),
            from: self.dead_letter_queue.clone(),
            to: to.unwrap_or(queue),
            redriven: false,
            bypassed: false,
        }
    }
}

async fn publish<T: Transport>(
    transport: &mut T,
    queue: &str,
    body: &bytes::Bytes,
    headers: &Headers,
) -> Result<(), TransportError> {
    if headers.is_empty() {
        transport.publish(queue, body).await
    } else {
        transport.publish_with_headers(queue, body, headers).await
    }
}
