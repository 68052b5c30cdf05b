//! Bindings: what of an envelope a broker shows natively, and how attempts are counted on the way back.
//!
//! The body of a message is the envelope's bytes on every broker. What is here is a redundant view of
//! them, so that a consumer can route without reading the body. A body that does not decode is published
//! as it is, without one: each `project` then answers nothing. What the envelope lacks is left out.
//!
//! A binding has the same names everywhere: `project` for the way out, `attempts` for the number that
//! counts on the way in, and [`reconcile`] that writes it into the body where it differs. No client of a
//! broker is used: what to put where is data.

pub mod artemis;
pub mod kafka;
pub mod nats;
pub mod pulsar;
pub mod rabbitmq;
pub mod redis;
pub mod service_bus;
pub mod sqs;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Envelope;

/// Names with texts, in the order in which they are sent.
pub type Properties = Vec<(String, String)>;

/// A value of a broker whose properties have types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
}

/// What the projections have in common, read from a body.
struct Facts(Envelope);

impl Facts {
    fn of(body: &[u8]) -> Option<Self> {
        Envelope::decode(body).ok().map(Self)
    }

    /// A text that is not empty.
    fn some(text: &str) -> Option<String> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn urn(&self) -> Option<String> {
        Self::some(self.0.urn())
    }

    fn trace_id(&self) -> Option<String> {
        Self::some(self.0.trace_id())
    }

    fn id(&self) -> Option<String> {
        Self::some(self.0.id())
    }

    fn lang(&self) -> Option<String> {
        Self::some(self.0.lang())
    }

    /// 0 is what a missing version reads as, and no version.
    fn schema_version(&self) -> Option<i64> {
        Some(self.0.schema_version()).filter(|&version| version != 0)
    }

    fn created_at_ms(&self) -> Option<i64> {
        Some(self.0.created_at_ms()).filter(|&at| at > 0)
    }

    fn attempts(&self) -> i64 {
        self.0.attempts()
    }

    /// The six properties that Pulsar, Kafka and NATS carry, as texts.
    fn six(&self) -> Properties {
        listed([
            ("bq-job", self.urn()),
            ("bq-trace-id", self.trace_id()),
            ("bq-message-id", self.id()),
            ("bq-schema-version", self.schema_version().map(|version| version.to_string())),
            ("bq-source-lang", self.lang()),
            ("bq-attempts", Some(self.attempts().to_string())),
        ])
    }
}

/// Those that have a value.
fn listed<V>(pairs: impl IntoIterator<Item = (&'static str, Option<V>)>) -> Vec<(String, V)> {
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Adds headers of the caller's own behind the contract's, in the order of their names. The contract wins
/// where a name is its own; blank names and values are left out.
fn merge<V>(
    contract: &mut Vec<(String, V)>,
    own: &BTreeMap<String, String>,
    value: impl Fn(&str) -> V,
) {
    for (name, text) in own {
        let blank = name.trim().is_empty() || text.trim().is_empty();
        if !blank && contract.iter().all(|(taken, _)| taken != name) {
            contract.push((name.clone(), value(text)));
        }
    }
}

/// A count as brokers write it: digits and nothing else.
fn count_of(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The larger of what the body says and what the broker has counted.
fn at_least(body_attempts: i64, counted: Option<u64>) -> i64 {
    counted.map_or(body_attempts, |counted| {
        body_attempts.max(i64::try_from(counted).unwrap_or(i64::MAX))
    })
}

/// The body with these attempts. Where they are the body's own, or it does not decode, it is the very
/// same bytes.
#[must_use]
pub fn reconcile(body: &Bytes, attempts: impl FnOnce(i64) -> i64) -> Bytes {
    let Ok(envelope) = Envelope::decode(body) else { return body.clone() };
    let counted = attempts(envelope.attempts());
    if counted == envelope.attempts() {
        return body.clone();
    }
    Bytes::from(envelope.with_attempts(counted).encode())
}
