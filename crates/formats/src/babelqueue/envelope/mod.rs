//! The envelope: what is on the wire, in its order, and how it is read.

mod change;
mod check;
mod codec;
mod error;
mod make;

use std::fmt;

pub use check::Refusal;
pub use codec::ForbiddenKey;
pub use error::EnvelopeError;
pub use make::PolyglotMessage;

use super::dead_letter::DeadLetter;
use crate::json::{Json, Object};

/// The one version of the envelope.
pub const SCHEMA_VERSION: i64 = 1;

/// The queue of a message that names none.
pub const DEFAULT_QUEUE: &str = "default";

/// What `meta.lang` says of an envelope that was made here. The producers' schema lists the languages of
/// the published SDKs; consumers accept any.
pub const LANG: &str = "rust";

/// Keys of the envelope, in the order in which they are written.
const KEYS: [&str; 6] = ["job", "trace_id", "data", "meta", "attempts", "dead_letter"];

/// Keys of `meta`, in the order in which they are written.
const META_KEYS: [&str; 5] = ["id", "queue", "lang", "schema_version", "created_at"];

/// An envelope, as it was read or made.
///
/// It has the wire's order already: the keys of the contract first, then whatever else was there, in the
/// order in which it came. What was decoded and is encoded again has the same values with the same types,
/// unknown keys too; missing and wrongly typed ones stay as they are, and their getters answer nothing,
/// an empty text or 0. Whether it may be handled says [`Envelope::accepts`].
///
/// ```
/// use sendoff_formats::babelqueue::Envelope;
/// use sendoff_formats::json::Json;
///
/// let data = Json::parse(br#"{"order_id":1042}"#)?;
/// let placed = Envelope::make("urn:babel:orders:created", data, "orders", None)?;
/// let received = Envelope::decode(&placed.encode())?;
/// assert!(received.accepts());
/// assert_eq!(received.urn(), "urn:babel:orders:created");
/// assert_eq!(received.trace_id(), placed.trace_id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Envelope {
    fields: Object,
    forbidden: Vec<ForbiddenKey>,
}

impl PartialEq for Envelope {
    /// By their content; what was dropped on the way in is not compared.
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Eq for Envelope {}

impl fmt::Debug for Envelope {
    /// Names only: the payload does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("urn", &self.urn())
            .field("id", &self.id())
            .field("trace_id", &self.trace_id())
            .field("queue", &self.queue())
            .field("attempts", &self.attempts())
            .finish_non_exhaustive()
    }
}

impl Envelope {
    /// What the message is: its URN, which is `job` on the wire. Empty where there is none.
    #[must_use]
    pub fn urn(&self) -> &str {
        self.text("job")
    }

    /// The id of the causal chain, the same on every hop. Empty where there is none.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.text("trace_id")
    }

    /// The payload; nothing where it is missing or no object.
    #[must_use]
    pub fn data(&self) -> Option<&Object> {
        self.fields.get("data").and_then(Json::as_object)
    }

    /// The payload as a type of Rust.
    ///
    /// # Errors
    /// serde_json's own, where the payload is not what the type needs.
    pub fn data_as<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.fields.get("data").unwrap_or(&Json::Null).to()
    }

    /// The id of this message, by which it is deduplicated. Empty where there is none.
    #[must_use]
    pub fn id(&self) -> &str {
        self.meta_text("id")
    }

    /// The logical queue. Empty where there is none.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.meta_text("queue")
    }

    /// The language of the program that made it. Empty where there is none.
    #[must_use]
    pub fn lang(&self) -> &str {
        self.meta_text("lang")
    }

    /// The version of the envelope; 0 where it is missing or no integer.
    #[must_use]
    pub fn schema_version(&self) -> i64 {
        self.meta("schema_version").and_then(Json::as_i64).unwrap_or(0)
    }

    /// When it was made, in milliseconds since 1970; 0 where that is missing or no integer.
    #[must_use]
    pub fn created_at_ms(&self) -> i64 {
        self.meta("created_at").and_then(Json::as_i64).unwrap_or(0)
    }

    /// How often it was tried before; 0 where that is missing or no integer.
    #[must_use]
    pub fn attempts(&self) -> i64 {
        self.fields.get("attempts").and_then(Json::as_i64).unwrap_or(0)
    }

    /// Why it is on a dead-letter queue, where it is on one.
    #[must_use]
    pub fn dead_letter(&self) -> Option<DeadLetter> {
        DeadLetter::read(self.fields.get("dead_letter")?.as_object()?)
    }

    /// A key of the envelope that the contract does not know.
    #[must_use]
    pub fn extra(&self, key: &str) -> Option<&Json> {
        if KEYS.contains(&key) { None } else { self.fields.get(key) }
    }

    /// All keys of the envelope that the contract does not know, in their order.
    pub fn extras(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.fields.iter().filter(|(key, _)| !KEYS.contains(key))
    }

    /// All keys of `meta` that the contract does not know, in their order.
    pub fn meta_extras(&self) -> impl Iterator<Item = (&str, &Json)> {
        let meta = self.fields.get("meta").and_then(Json::as_object);
        meta.into_iter().flat_map(Object::iter).filter(|(key, _)| !META_KEYS.contains(key))
    }

    /// The forbidden keys that were dropped when this envelope was decoded or changed.
    #[must_use]
    pub fn forbidden(&self) -> &[ForbiddenKey] {
        &self.forbidden
    }

    fn text(&self, key: &str) -> &str {
        self.fields.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    fn meta(&self, key: &str) -> Option<&Json> {
        self.fields.get("meta")?.as_object()?.get(key)
    }

    fn meta_text(&self, key: &str) -> &str {
        self.meta(key).and_then(Json::as_str).unwrap_or_default()
    }
}
