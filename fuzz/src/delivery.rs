//! Deliveries on their way back to the message that was sent.

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use sendoff_brokers::{file, nats, webhook};

use crate::{SECRET, Target, assert_discreet, lines};

/// A line of a file.
pub(crate) const LINE: Target = Target {
    name: "line",
    run: line,
    seeds: &[
        br#"{"id":"1","source":"s","topic":"t","key":null,"headers":{"a":"b"},"body":"x"}"#,
        br#"{"id":"1","source":"s","topic":"t","headers":{},"body_base64":"/w=="}"#,
        br#"{"id":"1","source":"s","topic":"t","headers":{},"body":"x","due_at":"2026-01-01T00:00:00Z"}"#,
        br#"{"id":"","source":"s","topic":"t","headers":{},"body":"x"}"#,
    ],
};

fn line(data: &[u8]) {
    let data = [data, SECRET.as_bytes()].concat();
    for data in [&data[..], &data[..data.len() - SECRET.len()]] {
        match file::read_line(data) {
            Ok(message) => assert_discreet(&message, ""),
            Err(error) => assert_discreet(&error, &error.to_string()),
        }
    }
}

/// Headers on lines, an empty line, the body.
fn parted(data: &[u8]) -> (Vec<(&str, &str)>, &[u8]) {
    let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
    let headers = lines(&data[..end]).filter_map(|line| line.split_once(": ")).collect();
    (headers, data.get(end + 2..).unwrap_or_default())
}

/// A delivery of JetStream.
pub(crate) const NATS: Target = Target {
    name: "nats",
    run: from_nats,
    seeds: &[
        b"Sendoff-Id: 1\nSendoff-Source: s\nSendoff-Topic: t\nSendoff-Key: k\n\nbody",
        b"Sendoff-Id: 1\nSendoff-Source: s\nSendoff-Topic: t%20\nSendoff-Encoded: Sendoff-Topic\n\n",
    ],
};

fn from_nats(data: &[u8]) {
    let (pairs, body) = parted(data);
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.append(name, value);
        }
    }
    let delivery = async_nats::Message {
        subject: "ORDERS.t".into(),
        reply: None,
        payload: Bytes::copy_from_slice(body),
        headers: Some(headers),
        status: None,
        description: None,
        length: body.len(),
    };
    if let Ok(message) = nats::read_delivery(&delivery) {
        assert_eq!(message.body().as_ref(), body);
    }
}

/// A request to a webhook.
pub(crate) const WEBHOOK: Target = Target {
    name: "webhook",
    run: from_webhook,
    seeds: &[
        b"sendoff-id: 1\nsendoff-source: s\nsendoff-topic: t\nsendoff-key: k\n\nbody",
        b"webhook-id: s/1\nsendoff-id: 1\nsendoff-source: s\nsendoff-topic: t\nsendoff-encoded: 61\n\n",
    ],
};

fn from_webhook(data: &[u8]) {
    let (pairs, body) = parted(data);
    let mut headers = hyper::HeaderMap::new();
    for (name, value) in pairs {
        let name = hyper::header::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, hyper::header::HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    if let Ok(message) = webhook::read_delivery(&headers, Bytes::copy_from_slice(body)) {
        assert_eq!(message.body().as_ref(), body);
    }
}

/// A topic as a subject of NATS, and back.
pub(crate) const SUBJECT: Target = Target {
    name: "subject",
    run: subject,
    seeds: &[b"orders.placed", b"50% off *", b".a..b.", b"ORDERS.%GG", "\u{eb}".as_bytes()],
};

fn subject(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if !text.is_empty() {
        let subject = nats::subject_of("ORDERS", &text);
        assert_eq!(nats::topic_of("ORDERS", &subject).as_deref(), Some(text.as_ref()));
        assert!(!subject.contains([' ', '*', '>', '\r', '\n']), "{subject}");
        assert!(subject.split('.').all(|token| !token.is_empty()), "{subject}");
    }
    // What somebody else has published has any subject.
    let _ = nats::topic_of("", &text);
}
