//! RabbitMQ, AMQP 0-9-1 (§2): the message's own properties and typed headers.

use std::collections::BTreeMap;

use super::{Facts, Typed, listed, merge};

/// What to set on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// `type`: the URN.
    pub kind: Option<String>,
    /// `correlation_id`: the trace id.
    pub correlation_id: Option<String>,
    /// `message_id`: the message's id.
    pub message_id: Option<String>,
    /// `app_id`.
    pub app_id: &'static str,
    /// `content_type`.
    pub content_type: &'static str,
    /// `content_encoding`.
    pub content_encoding: &'static str,
    /// `delivery_mode`: 2, which survives a restart of the broker.
    pub delivery_mode: u8,
    /// `timestamp`, in seconds, as Laravel's driver sets it.
    pub timestamp_s: Option<i64>,
    /// The headers.
    pub headers: Vec<(String, Typed)>,
}

/// The projection of a body, with headers of the caller's own.
#[must_use]
pub fn project(body: &[u8], own: &BTreeMap<String, String>) -> Option<Projection> {
    let facts = Facts::of(body)?;
    let mut headers = listed([
        ("x-schema-version", facts.schema_version().map(Typed::Integer)),
        ("x-source-lang", facts.lang().map(Typed::Text)),
        ("x-attempts", Some(Typed::Integer(facts.attempts()))),
    ]);
    merge(&mut headers, own, |text| Typed::Text(text.to_owned()));
    Some(Projection {
        kind: facts.urn(),
        correlation_id: facts.trace_id(),
        message_id: facts.id(),
        app_id: "babelqueue",
        content_type: "application/json",
        content_encoding: "utf-8",
        delivery_mode: 2,
        timestamp_s: facts.created_at_ms().map(|ms| ms / 1000),
        headers,
    })
}

/// `x-attempts` where the message has it as a whole number that is not negative, else what the body says.
///
/// The SDKs differ here: Laravel's driver counts in the header, the others in the body, and each writes
/// the other one too.
#[must_use]
pub fn attempts(body_attempts: i64, x_attempts: Option<i64>) -> i64 {
    x_attempts.filter(|&attempts| attempts >= 0).unwrap_or(body_attempts)
}
