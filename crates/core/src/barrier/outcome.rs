//! What an acknowledgement says of its member.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::json::Json;
use super::refusal::{Refusal, RefusalCode};
use super::{Answer, OUTCOME_BYTES_MAX};

/// A member's outcome: whether it went well, an error text, and a small result.
///
/// A failed outcome resolves its member as a good one does. At most [`OUTCOME_BYTES_MAX`] bytes as
/// encoded; put anything larger elsewhere and send its address as the result.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    #[serde(default = "well")]
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
}

fn well() -> bool {
    true
}

impl Outcome {
    /// It went well.
    #[must_use]
    pub fn ok() -> Self {
        Self { ok: true, error: None, result: None }
    }

    /// It failed.
    #[must_use]
    pub fn failed() -> Self {
        Self { ok: false, ..Self::ok() }
    }

    /// With an error text.
    #[must_use]
    pub fn with_error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// With a result.
    #[must_use]
    pub fn with_result(mut self, result: Json) -> Self {
        self.result = Some(result);
        self
    }

    /// Whether it went well.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.ok
    }

    /// The error text.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The result.
    #[must_use]
    pub fn result(&self) -> Option<&Json> {
        self.result.as_ref()
    }

    /// The encoded form that stores keep and that the limit is about: a JSON object with `ok`,
    /// and `error` and `result` where they are given.
    ///
    /// # Errors
    /// A [`Refusal`] with [`RefusalCode::TooLarge`] over the limit.
    pub fn encode(&self) -> Answer<String> {
        let encoded = serde_json::to_string(self)
            .map_err(|error| Refusal::new(RefusalCode::Invalid, error.to_string()))?;
        if encoded.len() > OUTCOME_BYTES_MAX {
            return Err(Refusal::new(
                RefusalCode::TooLarge,
                format!(
                    "the outcome has {} bytes as JSON, the limit is {OUTCOME_BYTES_MAX}; put what is \
                     larger elsewhere and send its address as the result",
                    encoded.len()
                ),
            ));
        }
        Ok(encoded)
    }

    /// Reads the encoded form. A stored text that is none is taken as a failure that says so.
    #[must_use]
    pub fn decode(encoded: &str) -> Self {
        serde_json::from_str(encoded)
            .unwrap_or_else(|_| Self::failed().with_error("the stored outcome does not decode"))
    }

    /// Whether the two say different things. How the result is written does not matter.
    #[must_use]
    pub fn differs(&self, other: &Self) -> bool {
        let same_result = match (&self.result, &other.result) {
            (Some(one), Some(another)) => one.same_value(another),
            (None, None) => true,
            _ => false,
        };
        self.ok != other.ok || self.error != other.error || !same_result
    }
}

impl fmt::Debug for Outcome {
    /// Without the texts: what a partner sends does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").field("ok", &self.ok).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, Outcome};
    use crate::barrier::{OUTCOME_BYTES_MAX, RefusalCode};

    #[test]
    fn ok_is_the_default_and_nothing_else_is_needed() {
        let outcome: Outcome = serde_json::from_str(r#"{"error":"odd"}"#).unwrap();
        assert!(outcome.is_ok());
        assert_eq!(Outcome::ok().encode().unwrap(), r#"{"ok":true}"#);
    }

    #[test]
    fn the_limit_is_on_the_encoded_bytes() {
        let around = r#"{"ok":true,"error":""}"#.len();
        let fits = Outcome::ok().with_error("x".repeat(OUTCOME_BYTES_MAX - around));
        assert_eq!(fits.encode().unwrap().len(), OUTCOME_BYTES_MAX);
        let over = Outcome::ok().with_error("x".repeat(OUTCOME_BYTES_MAX - around + 1));
        assert_eq!(over.encode().unwrap_err().code(), RefusalCode::TooLarge);
        let escaped = Outcome::ok().with_error("\u{1}".repeat(OUTCOME_BYTES_MAX / 6));
        assert_eq!(escaped.encode().unwrap_err().code(), RefusalCode::TooLarge);
    }

    #[test]
    fn what_was_encoded_decodes_to_the_same() {
        let outcome = Outcome::failed()
            .with_error("a \0 b")
            .with_result(Json::parse("12345678901234567890").unwrap());
        assert_eq!(Outcome::decode(&outcome.encode().unwrap()), outcome);
    }

    #[test]
    fn outcomes_differ_in_what_they_say_not_in_how_it_is_written() {
        let with = |text: &str| Outcome::ok().with_result(Json::parse(text).unwrap());
        assert!(!with(r#"{"a":1}"#).differs(&with(r#"{ "a": 1 }"#)));
        assert!(with("1").differs(&with("2")));
        assert!(Outcome::ok().differs(&Outcome::failed()));
    }
}
