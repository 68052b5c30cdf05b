//! NATS JetStream: a binding of our own, since the family has none.
//!
//! The subject is the queue, the payload the envelope's bytes. The headers are the six that Kafka and
//! Pulsar carry, and `Nats-Msg-Id` with the message's id, by which a stream drops repetitions within its
//! window. JetStream counts deliveries from 1.
//!
//! An envelope that leaves through Sendoff's outbox is the message that [`message`] makes; there the
//! relay sets `Nats-Msg-Id` itself, from source and id.

use std::collections::BTreeMap;

use sendoff_core::Outbox;
use sendoff_core::message::MessageBuilder;

use super::{Facts, Properties, at_least, merge};
use crate::babelqueue::{DEFAULT_QUEUE, Envelope};

/// The header by which a stream recognises a repetition.
pub const MSG_ID: &str = "Nats-Msg-Id";

/// The headers of a body, with the caller's own behind them.
#[must_use]
pub fn project(body: &[u8], own: &BTreeMap<String, String>) -> Option<Properties> {
    let facts = Facts::of(body)?;
    let mut headers: Properties =
        facts.id().map(|id| (MSG_ID.to_owned(), id)).into_iter().collect();
    headers.extend(facts.six());
    merge(&mut headers, own, str::to_owned);
    Some(headers)
}

/// The larger of the body's attempts and what JetStream has counted, less the first delivery.
#[must_use]
pub fn attempts(body_attempts: i64, delivered: Option<u64>) -> i64 {
    at_least(body_attempts, delivered.map(|delivered| delivered.saturating_sub(1)))
}

/// The message that carries an envelope through Sendoff's own outbox: the queue is its topic, the
/// envelope's id its id, and the six properties its headers.
///
/// ```
/// use sendoff_core::Outbox;
/// use sendoff_formats::babelqueue::{Envelope, bindings::nats};
/// use sendoff_formats::json::Json;
///
/// let outbox = Outbox::new("shop");
/// let envelope = Envelope::make("urn:babel:orders:created", Json::Null, "orders", None)?;
/// let message = nats::message(&outbox, &envelope).key("customer-7").build()?;
/// assert_eq!(message.topic(), "orders");
/// assert_eq!(message.headers().get("bq-job"), Some("urn:babel:orders:created"));
/// assert_eq!(message.body(), &envelope.encode());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn message(outbox: &Outbox, envelope: &Envelope) -> MessageBuilder {
    let queue = if envelope.queue().trim().is_empty() { DEFAULT_QUEUE } else { envelope.queue() };
    let mut builder = outbox.message(queue).body(envelope.encode());
    if !envelope.id().is_empty() {
        builder = builder.id(envelope.id());
    }
    for (name, value) in Facts(envelope.clone()).six() {
        builder = builder.header(name, value);
    }
    builder
}
