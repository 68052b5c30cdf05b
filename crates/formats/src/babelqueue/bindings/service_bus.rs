//! Azure Service Bus (§4): the message's own fields and typed application properties.

use std::collections::BTreeMap;

use super::{Facts, Typed, at_least, listed, merge};

/// What to set on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// `Subject`: the URN.
    pub subject: Option<String>,
    /// `CorrelationId`: the trace id.
    pub correlation_id: Option<String>,
    /// `MessageId`: the message's id.
    pub message_id: Option<String>,
    /// `ContentType`.
    pub content_type: &'static str,
    /// `ApplicationProperties`: integers stay integers.
    pub application_properties: Vec<(String, Typed)>,
}

/// The projection of a body, with properties of the caller's own.
#[must_use]
pub fn project(body: &[u8], own: &BTreeMap<String, String>) -> Option<Projection> {
    let facts = Facts::of(body)?;
    let mut application_properties = listed([
        ("bq-schema-version", facts.schema_version().map(Typed::Integer)),
        ("bq-source-lang", facts.lang().map(Typed::Text)),
        ("bq-created-at", facts.created_at_ms().map(Typed::Integer)),
    ]);
    merge(&mut application_properties, own, |text| Typed::Text(text.to_owned()));
    Some(Projection {
        subject: facts.urn(),
        correlation_id: facts.trace_id(),
        message_id: facts.id(),
        content_type: "application/json",
        application_properties,
    })
}

/// The larger of the body's attempts and `DeliveryCount - 1`.
#[must_use]
pub fn attempts(body_attempts: i64, delivery_count: Option<u64>) -> i64 {
    at_least(body_attempts, delivery_count.map(|count| count.saturating_sub(1)))
}
