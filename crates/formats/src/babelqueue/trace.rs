//! Trace ids: from those of envelopes to those of W3C's trace context, and back.
//!
//! Every program of a chain comes to the same ids without having to carry anything but the envelope's
//! own `trace_id`. A `traceparent` header beside the envelope is better where there is one, since it
//! names the very span that sent the message: [`parent`] prefers it.

use std::fmt;

use sha2::{Digest, Sha256};

use super::Envelope;
use super::transport::Headers;

/// The header of W3C's trace context.
pub const TRACEPARENT: &str = "traceparent";
/// Its companion, which is handed on as it is.
pub const TRACESTATE: &str = "tracestate";

/// The span that a message continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The trace's id, not 0.
    pub trace_id: [u8; 16],
    /// The span's id, not 0.
    pub span_id: [u8; 8],
    /// Whether it is recorded.
    pub sampled: bool,
}

impl fmt::Display for Parent {
    /// As a `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{}-{}-{flags:02x}", hex(&self.trace_id), hex(&self.span_id))
    }
}

/// The span that a delivery continues: that of its `traceparent`, or, where there is none or it is
/// malformed, one made from the envelope's trace id. It is another program's.
#[must_use]
pub fn parent(envelope: &Envelope, headers: &Headers) -> Parent {
    let header = headers.get(TRACEPARENT).and_then(|header| read_traceparent(header));
    header.unwrap_or_else(|| Parent {
        trace_id: otel_trace_id(envelope.trace_id()),
        span_id: otel_span_id(envelope.trace_id()),
        sampled: true,
    })
}

/// The trace id of an envelope as one of W3C's: its own digits where it is a UUID in lower case and not
/// 0, else the beginning of a SHA-256.
#[must_use]
pub fn otel_trace_id(trace_id: &str) -> [u8; 16] {
    let digits: String = trace_id.chars().filter(|&c| c != '-').collect();
    bytes_of::<16>(&digits).unwrap_or_else(|| first(&Sha256::digest(trace_id)))
}

/// The id of a span that stands for whoever sent the first message of a chain.
#[must_use]
pub fn otel_span_id(trace_id: &str) -> [u8; 8] {
    let mut hash = Sha256::new();
    hash.update(b"babelqueue-span:");
    hash.update(trace_id);
    let id: [u8; 8] = first(&hash.finalize());
    if id == [0; 8] { [0, 0, 0, 0, 0, 0, 0, 1] } else { id }
}

/// The `trace_id` of an envelope that is sent within a trace: its id in the form of a UUID.
///
/// ```
/// use sendoff_formats::babelqueue::trace::{envelope_trace_id, otel_trace_id};
/// let id = otel_trace_id("7b3f9c2a-e41d-4f88-9b2a-1c0d5e6f7a8b");
/// assert_eq!(envelope_trace_id(id), "7b3f9c2a-e41d-4f88-9b2a-1c0d5e6f7a8b");
/// ```
#[must_use]
pub fn envelope_trace_id(trace_id: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(trace_id).to_string()
}

/// What a span about a message is called and says, by the conventions of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// `publish urn:babel:orders:created`
    pub name: String,
    /// Names with values.
    pub attributes: Vec<(&'static str, String)>,
}

impl Span {
    /// The span of a publish: its kind is producer.
    #[must_use]
    pub fn publish(envelope: &Envelope) -> Self {
        Self::of("publish", envelope, envelope.urn())
    }

    /// The span of a handler's run: its kind is consumer.
    #[must_use]
    pub fn process(envelope: &Envelope, queue: &str) -> Self {
        Self::of("process", envelope, queue)
    }

    fn of(operation: &str, envelope: &Envelope, destination: &str) -> Self {
        Self {
            name: format!("{operation} {}", envelope.urn()),
            attributes: vec![
                ("messaging.system", "babelqueue".to_owned()),
                ("messaging.operation", operation.to_owned()),
                ("messaging.destination.name", destination.to_owned()),
                ("messaging.message.id", envelope.id().to_owned()),
                ("messaging.message.conversation_id", envelope.trace_id().to_owned()),
                ("messaging.babelqueue.attempts", envelope.attempts().to_string()),
            ],
        }
    }
}

/// Reads a `traceparent`; nothing where it breaks a rule of W3C's.
#[must_use]
pub fn read_traceparent(header: &str) -> Option<Parent> {
    let mut parts = header.split('-');
    let (version, trace_id, span_id, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let version = number_of(version)?;
    // Version ff is none, and 00 has no further parts.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    Some(Parent {
        trace_id: bytes_of(trace_id)?,
        span_id: bytes_of(span_id)?,
        sampled: number_of(flags)? & 1 == 1,
    })
}

fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut id = [0; N];
    for (byte, from) in id.iter_mut().zip(digest) {
        *byte = *from;
    }
    id
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

fn digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}

/// Two digits in lower case.
fn number_of(digits: &str) -> Option<u8> {
    let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (digits.len() == 2 && lower).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// So many bytes from digits in lower case; nothing for 0.
fn bytes_of<const N: usize>(digits: &str) -> Option<[u8; N]> {
    if digits.len() != 2 * N || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = number_of(digits.get(2 * index..2 * index + 2)?)?;
    }
    (bytes != [0; N]).then_some(bytes)
}
