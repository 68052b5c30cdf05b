//! Redis (§1): a list whose elements are the envelopes. There are no properties and no projection.
//!
//! Produce: `RPUSH queue body`. Reserve: `BLMOVE queue queue:processing LEFT RIGHT`. Acknowledge: `LREM
//! queue:processing 1 element`, with the element as it was stored. Only where headers of the caller's own
//! have to travel is the element a frame around the body.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::json::{Json, Object};

const SENTINEL: &str = "__bq_frame";

/// What an element of the list carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The envelope's bytes.
    pub body: Bytes,
    /// Headers beside it.
    pub headers: BTreeMap<String, String>,
}

/// The element for a body: its very bytes, or a frame where there are headers. Blank names and values are
/// left out. A body that is not UTF-8 is never framed: its headers are dropped.
#[must_use]
pub fn frame(body: &Bytes, headers: &BTreeMap<String, String>) -> Bytes {
    let kept: Vec<(&str, &str)> = headers
        .iter()
        .filter(|(name, value)| !name.trim().is_empty() && !value.trim().is_empty())
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let Ok(text) = std::str::from_utf8(body) else { return body.clone() };
    if kept.is_empty() {
        return body.clone();
    }
    let frame = Object::from_iter([
        (SENTINEL, Json::from(1)),
        ("headers", Json::from(Object::from_iter(kept))),
        ("body", Json::from(text)),
    ]);
    Bytes::from(Json::from(frame).to_vec())
}

/// What an element carries. What is no frame is a bare body.
#[must_use]
pub fn unframe(element: &Bytes) -> Element {
    let bare = || Element { body: element.clone(), headers: BTreeMap::new() };
    // Most elements are bare: only what can be a frame is read.
    if !element.windows(SENTINEL.len()).any(|bytes| bytes == SENTINEL.as_bytes()) {
        return bare();
    }
    let Ok(Json::Object(frame)) = Json::parse(element) else { return bare() };
    let framed = match frame.get(SENTINEL) {
        Some(Json::Bool(truth)) => *truth,
        Some(Json::Number(number)) => number.to_f64() != 0.0,
        Some(Json::String(text)) => !text.is_empty(),
        Some(Json::Array(_) | Json::Object(_)) => true,
        Some(Json::Null) | None => false,
    };
    let Some(body) = frame.get("body").and_then(Json::as_str).filter(|_| framed) else {
        return bare();
    };
    let headers = frame.get("headers").and_then(Json::as_object);
    let texts = headers
        .into_iter()
        .flat_map(Object::iter)
        .filter_map(|(name, value)| Some((name.to_owned(), value.as_str()?.to_owned())));
    Element { body: Bytes::from(body.to_owned()), headers: texts.collect() }
}

/// A list counts nothing: what the body says counts.
#[must_use]
pub fn attempts(body_attempts: i64) -> i64 {
    body_attempts
}
