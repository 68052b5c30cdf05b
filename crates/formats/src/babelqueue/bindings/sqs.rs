//! Amazon SQS (§3): message attributes, at most ten of them.

use std::collections::BTreeMap;

use super::{Facts, at_least, count_of, listed, merge};

/// SQS refuses a message with more.
pub const ATTRIBUTES_MAX: usize = 10;

/// A message attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// `String` or `Number`.
    pub data_type: &'static str,
    /// The value, which is text in both cases.
    pub string_value: String,
}

/// What a FIFO queue needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fifo {
    /// `MessageGroupId`: what is kept in order.
    pub group_id: String,
    /// `MessageDeduplicationId`; nothing where the queue deduplicates by content.
    pub deduplication_id: Option<String>,
}

fn text(string_value: String) -> Attribute {
    Attribute { data_type: "String", string_value }
}

fn number(value: i64) -> Attribute {
    Attribute { data_type: "Number", string_value: value.to_string() }
}

/// The attributes of a body, with the caller's own behind them as far as there is room.
#[must_use]
pub fn project(body: &[u8], own: &BTreeMap<String, String>) -> Option<Vec<(String, Attribute)>> {
    let facts = Facts::of(body)?;
    let mut attributes = listed([
        ("bq-job", facts.urn().map(text)),
        ("bq-trace-id", facts.trace_id().map(text)),
        ("bq-message-id", facts.id().map(text)),
        ("bq-schema-version", facts.schema_version().map(number)),
        ("bq-source-lang", facts.lang().map(text)),
        ("bq-created-at", facts.created_at_ms().map(number)),
    ]);
    merge(&mut attributes, own, |value| text(value.to_owned()));
    attributes.truncate(ATTRIBUTES_MAX);
    Some(attributes)
}

/// What a FIFO queue needs: the group is the caller's, or else the queue.
#[must_use]
pub fn fifo(body: &[u8], queue: &str, group: Option<&str>, dedup_by_content: bool) -> Fifo {
    let id = || Facts::of(body).and_then(|facts| facts.id());
    Fifo {
        group_id: group.filter(|group| !group.is_empty()).unwrap_or(queue).to_owned(),
        deduplication_id: if dedup_by_content { None } else { id() },
    }
}

/// The larger of the body's attempts and `ApproximateReceiveCount - 1`; what is no count is ignored.
#[must_use]
pub fn attempts(body_attempts: i64, approximate_receive_count: Option<&str>) -> i64 {
    let count = approximate_receive_count.and_then(count_of);
    at_least(body_attempts, count.map(|count| count.saturating_sub(1)))
}
