//! From bytes and back.

use super::{Envelope, EnvelopeError, KEYS, META_KEYS};
use crate::babelqueue::gate::{self, Gate, Native};
use crate::json::{Json, Limits, Object};

/// A key that no envelope may carry. It is dropped when one is decoded and never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForbiddenKey(&'static str);

impl ForbiddenKey {
    /// The code of the warning in the log.
    pub const CODE: &'static str = "BABELQUEUE_FORBIDDEN_KEY";

    /// The place of the key, as a JSON pointer: `/meta/max_retries`.
    #[must_use]
    pub fn pointer(self) -> &'static str {
        self.0
    }
}

/// Under the envelope itself, and under `meta`: the key and its pointer.
const FORBIDDEN: [(&str, &str); 1] = [("timestamp", "/timestamp")];
const META_FORBIDDEN: [(&str, &str); 4] = [
    ("max_retries", "/meta/max_retries"),
    ("attempts", "/meta/attempts"),
    ("source", "/meta/source"),
    ("ts", "/meta/ts"),
];

impl Envelope {
    /// Reads an envelope. It does not check it: that is [`Envelope::accepts`].
    ///
    /// `urn` is taken for `job` where `job` is missing or blank. A forbidden key is dropped with a
    /// warning in the log, and noted in [`Envelope::forbidden`].
    ///
    /// # Errors
    /// [`EnvelopeError::Malformed`] for what is no JSON, has something behind it or is over the limits
    /// of [`Limits::default`]; [`EnvelopeError::NotAnObject`].
    pub fn decode(body: &[u8]) -> Result<Self, EnvelopeError> {
        Self::decode_within(body, &Limits::default())
    }

    /// [`Envelope::decode`] with other limits.
    ///
    /// # Errors
    /// Those of [`Envelope::decode`].
    pub fn decode_within(body: &[u8], limits: &Limits) -> Result<Self, EnvelopeError> {
        let json = Json::parse_within(body, limits).map_err(EnvelopeError::Malformed)?;
        let Json::Object(read) = json else { return Err(EnvelopeError::NotAnObject) };
        Ok(Self::ordered(read))
    }

    /// Decides by the native property, decodes, and checks: what a consumer does with a delivery.
    ///
    /// # Errors
    /// [`EnvelopeError::Gated`], those of [`Envelope::decode`], and [`EnvelopeError::Refused`].
    pub fn receive(body: &[u8], version: Native<'_>) -> Result<Self, EnvelopeError> {
        if gate::check(version) == Gate::Reject {
            return Err(EnvelopeError::Gated);
        }
        let envelope = Self::decode(body)?;
        let refusals = envelope.refusals();
        if refusals.is_empty() { Ok(envelope) } else { Err(EnvelopeError::Refused(refusals)) }
    }

    /// The bytes of the wire: compact, the contract's keys in their order, then the others.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(512);
        crate::json::write_object(&mut body, &self.fields);
        body
    }

    /// Brings keys into the wire's order, resolves the alias and drops what is forbidden.
    pub(super) fn ordered(mut read: Object) -> Self {
        let mut forbidden = Vec::new();
        let alias = read.remove("urn");
        let blank = |json: Option<&Json>| {
            json.and_then(Json::as_str).is_none_or(|text| text.trim().is_empty())
        };
        if let Some(alias) = alias.filter(|alias| !blank(Some(alias)))
            && blank(read.get("job"))
        {
            read.set("job", alias);
        }
        drop_forbidden(&mut read, &FORBIDDEN, &mut forbidden);
        if let Some(Json::Object(meta)) = read.get_mut("meta") {
            drop_forbidden(meta, &META_FORBIDDEN, &mut forbidden);
            in_order(meta, &META_KEYS);
        }
        in_order(&mut read, &KEYS);
        for key in &forbidden {
            tracing::warn!(
                code = ForbiddenKey::CODE,
                pointer = key.pointer(),
                "a key that no envelope may carry was dropped"
            );
        }
        Self { fields: read, forbidden }
    }
}

fn drop_forbidden(
    fields: &mut Object,
    keys: &[(&str, &'static str)],
    dropped: &mut Vec<ForbiddenKey>,
) {
    for (key, pointer) in keys {
        if fields.remove(key).is_some() {
            dropped.push(ForbiddenKey(pointer));
        }
    }
}

/// Puts these keys first, in this order; the others keep theirs.
fn in_order(fields: &mut Object, keys: &[&str]) {
    let mut place = 0;
    for key in keys {
        if fields.place(key, place) {
            place += 1;
        }
    }
}
