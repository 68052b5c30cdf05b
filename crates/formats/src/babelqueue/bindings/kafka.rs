//! Apache Kafka (§6): headers of the record, and topics for retries.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Facts, Properties, count_of, merge};

/// The header that says how long a message waits in a retry topic, in milliseconds.
pub const HEADER_DELAY: &str = "bq-delay";
/// The header that says where a message in a retry topic came from.
pub const HEADER_ORIGINAL_TOPIC: &str = "bq-original-topic";
/// The delays of PHP's retry topics, in milliseconds.
pub const RETRY_TIERS_MS: [u64; 4] = [5_000, 30_000, 300_000, 1_800_000];
/// So often PHP's consumers try at most.
pub const RETRIES_MAX: u32 = 5;

/// What to set on a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// The headers; on the wire their values are UTF-8.
    pub headers: Properties,
    /// The record's timestamp, in milliseconds.
    pub timestamp_ms: Option<i64>,
}

/// The projection of a body, with headers of the caller's own.
#[must_use]
pub fn project(body: &[u8], own: &BTreeMap<String, String>) -> Option<Projection> {
    let facts = Facts::of(body)?;
    let mut headers = facts.six();
    merge(&mut headers, own, str::to_owned);
    Some(Projection { headers, timestamp_ms: facts.created_at_ms() })
}

/// The header `bq-attempts` where the record has it, also where it is lower; else the body's. What is no
/// count is as good as absent.
#[must_use]
pub fn attempts(body_attempts: i64, bq_attempts: Option<&[u8]>) -> i64 {
    let text = bq_attempts.and_then(|value| std::str::from_utf8(value).ok());
    let count = text.and_then(count_of).and_then(|count| i64::try_from(count).ok());
    count.unwrap_or(body_attempts)
}

/// PHP's retry topic for a delay: `orders.retry.5000`.
#[must_use]
pub fn retry_topic_by_delay(topic: &str, delay: Duration) -> String {
    format!("{topic}.retry.{}", delay.as_millis())
}

/// The retry topic of Java and Node for the nth retry: `orders.retry.1`.
#[must_use]
pub fn retry_topic_by_number(topic: &str, number: u32) -> String {
    format!("{topic}.retry.{number}")
}
