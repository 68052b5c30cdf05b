//! Changed copies. The trace id has no setter: it is the same on every hop.

use super::{Envelope, EnvelopeError, KEYS, META_KEYS};
use crate::babelqueue::dead_letter::DeadLetter;
use crate::json::{Json, Object};

impl Envelope {
    /// With another count of attempts.
    #[must_use]
    pub fn with_attempts(self, attempts: i64) -> Self {
        self.set("attempts", attempts.into())
    }

    /// With other data: what a protection of its fields makes of it.
    #[must_use]
    pub fn with_data(self, data: Object) -> Self {
        self.set("data", data.into())
    }

    /// With an id of the caller's own, so that a retried request makes the same message.
    #[must_use]
    pub fn with_id(self, id: &str) -> Self {
        self.set_meta("id", id.into())
    }

    /// With another language than [`super::LANG`].
    #[must_use]
    pub fn with_lang(self, lang: &str) -> Self {
        self.set_meta("lang", lang.into())
    }

    /// Made at another time, in milliseconds since 1970.
    #[must_use]
    pub fn with_created_at_ms(self, created_at_ms: i64) -> Self {
        self.set_meta("created_at", created_at_ms.into())
    }

    /// With a key that the contract does not know. A forbidden one is dropped with a warning.
    ///
    /// # Errors
    /// [`EnvelopeError::OwnKey`] for a key of the contract, and for its alias `urn`.
    pub fn with_extra(self, key: &str, value: impl Into<Json>) -> Result<Self, EnvelopeError> {
        if KEYS.contains(&key) || key == "urn" {
            return Err(EnvelopeError::OwnKey(key.to_owned()));
        }
        Ok(self.set(key, value.into()))
    }

    /// With a key in `meta` that the contract does not know. A forbidden one is dropped with a warning.
    ///
    /// # Errors
    /// [`EnvelopeError::OwnKey`] for a key of the contract.
    pub fn with_meta_extra(self, key: &str, value: impl Into<Json>) -> Result<Self, EnvelopeError> {
        if META_KEYS.contains(&key) {
            return Err(EnvelopeError::OwnKey(key.to_owned()));
        }
        Ok(self.set_meta(key, value.into()))
    }

    /// A copy for the dead-letter queue: the same message, with the block that says why.
    #[must_use]
    pub fn annotate(&self, dead_letter: &DeadLetter) -> Self {
        self.clone().set("dead_letter", dead_letter.write().into())
    }

    /// The queue that a dead letter names: the message's own, or else the one it was taken from.
    #[must_use]
    pub fn original_queue<'a>(&'a self, consumed_from: &'a str) -> &'a str {
        if self.queue().is_empty() { consumed_from } else { self.queue() }
    }

    /// A copy as it was before it failed: without the dead letter, with attempts 0, the rest the same.
    #[must_use]
    pub fn reset(&self) -> Self {
        let mut fields = self.fields.clone();
        fields.remove("dead_letter");
        Self { fields, forbidden: Vec::new() }.with_attempts(0)
    }

    fn set(self, key: &str, value: Json) -> Self {
        let Self { mut fields, forbidden: mut noted } = self;
        fields.set(key, value);
        let changed = Self::ordered(fields);
        noted.extend(changed.forbidden);
        Self { fields: changed.fields, forbidden: noted }
    }

    /// Sets a key of `meta`, which is made where there is none.
    fn set_meta(self, key: &str, value: Json) -> Self {
        let mut meta =
            self.fields.get("meta").and_then(Json::as_object).cloned().unwrap_or_default();
        meta.set(key, value);
        self.set("meta", meta.into())
    }
}
