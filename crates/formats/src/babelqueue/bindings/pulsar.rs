//! Apache Pulsar (§5): properties, all of them texts.

use std::collections::BTreeMap;

use super::{Facts, Properties, at_least, merge};

/// The properties of a body, with the caller's own behind them.
#[must_use]
pub fn project(body: &[u8], own: &BTreeMap<String, String>) -> Option<Properties> {
    let mut properties = Facts::of(body)?.six();
    merge(&mut properties, own, str::to_owned);
    Some(properties)
}

/// The larger of the body's attempts and `RedeliveryCount`, which begins with 0.
#[must_use]
pub fn attempts(body_attempts: i64, redelivery_count: Option<u64>) -> i64 {
    at_least(body_attempts, redelivery_count)
}
