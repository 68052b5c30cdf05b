//! Whether an envelope may be handled.

use super::{Envelope, SCHEMA_VERSION};
use crate::json::{Json, Number};

/// Why an envelope is not to be handled. An unsupported version is to be put aside and not dropped:
/// a later program may know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Neither `job` nor `urn` says what the message is.
    MissingUrn,
    /// `meta` is missing or no object.
    MissingMeta,
    /// `meta.schema_version` is not the integer 1.
    UnsupportedSchemaVersion,
    /// `data` is missing or no object.
    InvalidData,
    /// `trace_id` is missing, no text or blank.
    MissingTraceId,
    /// `attempts` is missing or no integer.
    InvalidAttempts,
}

impl Refusal {
    /// The refusal as a stable word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingUrn => "missing_urn",
            Self::MissingMeta => "missing_meta",
            Self::UnsupportedSchemaVersion => "unsupported_schema_version",
            Self::InvalidData => "invalid_data",
            Self::MissingTraceId => "missing_trace_id",
            Self::InvalidAttempts => "invalid_attempts",
        }
    }
}

impl Envelope {
    /// Whether the envelope may be handled: nothing stands in [`Envelope::refusals`].
    ///
    /// The language, the id, the queue and the time are not looked at.
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.refusals().is_empty()
    }

    /// Everything that speaks against handling it, in the contract's order.
    ///
    /// Types are strict: a version `1.0`, `"1"` or `true` is not 1, and attempts `true` or `1.0` are no
    /// integer.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        let meta = self.fields.get("meta").and_then(Json::as_object);
        let attempts = self.fields.get("attempts");
        let attempts_are_integer =
            matches!(attempts, Some(Json::Number(number)) if Number::is_integer(number));
        let checks = [
            (self.urn().trim().is_empty(), Refusal::MissingUrn),
            (meta.is_none(), Refusal::MissingMeta),
            (
                meta.is_some() && self.schema_version() != SCHEMA_VERSION,
                Refusal::UnsupportedSchemaVersion,
            ),
            (self.data().is_none(), Refusal::InvalidData),
            (self.trace_id().trim().is_empty(), Refusal::MissingTraceId),
            (!attempts_are_integer, Refusal::InvalidAttempts),
        ];
        checks.into_iter().filter_map(|(broken, refusal)| broken.then_some(refusal)).collect()
    }
}
