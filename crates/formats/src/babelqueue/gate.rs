//! The gate before decoding: what the native property `bq-schema-version` says of a message.
//!
//! A message of a later version may not even be JSON. So the property is looked at first, and what it
//! speaks against is put aside undecoded.

/// The property's name, as brokers carry it.
pub const PROPERTY: &str = "bq-schema-version";
/// The same on Artemis, where a name has to be one of Java.
pub const PROPERTY_ARTEMIS: &str = "bq_schema_version";

/// What the broker says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Native<'a> {
    /// The message has no such property.
    Absent,
    /// A text, as the broker gives it.
    Text(&'a str),
    /// Bytes, as Kafka gives them.
    Bytes(&'a [u8]),
    /// An integer of whatever width.
    Integer(i128),
    /// Something else: a fraction, a truth, a list.
    Other,
}

/// What to do with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Decode it.
    Decode,
    /// Put it aside without decoding it.
    Reject,
}

/// Decides: absent, empty or blank in ASCII decodes, `1` decodes, anything else is rejected.
///
/// Nothing is trimmed: `" 1"` is rejected, and so is a blank of Unicode's.
///
/// ```
/// use sendoff_formats::babelqueue::gate::{check, Gate, Native};
/// assert_eq!(check(Native::Absent), Gate::Decode);
/// assert_eq!(check(Native::Text("2")), Gate::Reject);
/// ```
#[must_use]
pub fn check(version: Native<'_>) -> Gate {
    let blank = |bytes: &[u8]| {
        bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r'))
    };
    let decode = match version {
        Native::Absent => true,
        Native::Text(text) => text == "1" || blank(text.as_bytes()),
        Native::Bytes(bytes) => bytes == b"1" || blank(bytes),
        Native::Integer(version) => version == i128::from(super::SCHEMA_VERSION),
        Native::Other => false,
    };
    if decode { Gate::Decode } else { Gate::Reject }
}
