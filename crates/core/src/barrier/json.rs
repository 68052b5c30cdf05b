//! JSON that is kept as it was written.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// A JSON value as text: numbers, order and spaces stay as they were given.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Takes text that is one JSON value.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] where it is not, with the place and never the text.
    pub fn parse(text: impl Into<String>) -> Result<Self> {
        RawValue::from_string(text.into())
            .map(Self)
            .map_err(|error| Error::invalid("reading JSON", error.to_string()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Whether both say the same, however it is written.
    #[must_use]
    pub fn same_value(&self, other: &Self) -> bool {
        let value = |json: &Self| serde_json::from_str::<serde_json::Value>(json.as_str()).ok();
        self == other || value(self) == value(other)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    /// Its size only: what a service hands on does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.as_str().len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        Box::<RawValue>::deserialize(from).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn numbers_and_order_stay_as_they_were_written() {
        let text = r#"{"b": 12345678901234567890123, "a": 1.10}"#;
        assert_eq!(Json::parse(text).unwrap().as_str(), text);
    }

    #[test]
    fn the_same_value_may_be_written_otherwise() {
        let json = |text: &str| Json::parse(text).unwrap();
        assert!(json(r#"{"a":1,"b":2}"#).same_value(&json(r#"{ "b": 2, "a": 1 }"#)));
        assert!(!json("1").same_value(&json("2")));
    }

    #[test]
    fn what_is_no_json_is_refused_without_being_quoted() {
        let error = Json::parse("{secret").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
