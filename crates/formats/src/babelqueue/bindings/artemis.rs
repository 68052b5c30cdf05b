//! Apache ActiveMQ Artemis, AMQP 1.0 (§7): what a peer that speaks JMS reads. Names have underscores,
//! since a property of JMS has to be a name of Java.

use std::collections::BTreeMap;

use super::{Facts, Properties, at_least, listed, merge};

/// The annotation that JMS reads as the message's type.
pub const JMS_TYPE_ANNOTATION: &str = "x-opt-jms-type";

/// What to set on a message. The body is an AMQP value, a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// The annotation [`JMS_TYPE_ANNOTATION`]: the URN.
    pub jms_type: Option<String>,
    /// `correlation-id`: the trace id.
    pub correlation_id: Option<String>,
    /// `creation-time`, in milliseconds.
    pub creation_time_ms: Option<i64>,
    /// Application properties.
    pub properties: Properties,
}

/// The projection of a body, with properties of the caller's own.
#[must_use]
pub fn project(body: &[u8], own: &BTreeMap<String, String>) -> Option<Projection> {
    let facts = Facts::of(body)?;
    let mut properties = listed([
        ("bq_schema_version", facts.schema_version().map(|version| version.to_string())),
        ("bq_source_lang", facts.lang()),
        ("bq_attempts", Some(facts.attempts().to_string())),
        ("bq_app_id", Some("babelqueue".to_owned())),
    ]);
    merge(&mut properties, own, str::to_owned);
    Some(Projection {
        jms_type: facts.urn(),
        correlation_id: facts.trace_id(),
        creation_time_ms: facts.created_at_ms(),
        properties,
    })
}

/// The larger of the body's attempts and `delivery-count`, which begins with 0. (JMS shows it as
/// `JMSXDeliveryCount`, which begins with 1: subtract it.)
#[must_use]
pub fn attempts(body_attempts: i64, delivery_count: Option<u64>) -> i64 {
    at_least(body_attempts, delivery_count)
}
