//! JSON values that keep what they were.
//!
//! A [`Json`] that was read and is written again says the same: keys in their order, numbers digit for
//! digit, whatever their size. Values compare strictly by type: `1`, `1.0`, `"1"` and `true` are four
//! values. What is read is bounded in size, depth and number of values ([`Limits`]).
//!
//! The parser is serde_json's only where a value becomes a type of Rust ([`Json::to`]). It is not used
//! for more, because its features that keep numbers and order hold for every crate of a program at
//! once, whoever asked for them.

mod number;
mod object;
mod parse;
mod serialize;
mod write;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use number::Number;
pub use object::Object;
pub use parse::{Limits, ParseError};
pub use serialize::SerializeError;

pub(crate) use write::object as write_object;

/// A JSON value.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Json {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it was written.
    Number(Number),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// Keys with values, in their order.
    Object(Object),
}

impl Json {
    /// Reads one value, with the default [`Limits`].
    ///
    /// ```
    /// use sendoff_formats::json::Json;
    /// let text = r#"{"z":123456789012345678901234567890,"a":1.0}"#;
    /// assert_eq!(Json::parse(text.as_bytes())?.to_string(), text);
    /// # Ok::<(), sendoff_formats::json::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// [`ParseError`] where it is no JSON, has something behind the value, or is over a limit.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        Self::parse_within(text, &Limits::default())
    }

    /// [`Json::parse`] with other limits.
    ///
    /// # Errors
    /// Those of [`Json::parse`].
    pub fn parse_within(text: &[u8], limits: &Limits) -> Result<Self, ParseError> {
        parse::parse(text, limits)
    }

    /// The value that a type of Rust is in JSON.
    ///
    /// # Errors
    /// [`SerializeError`] for what JSON cannot say: not-a-number, infinity, a key that is no text. Such
    /// a number is refused and never becomes `null`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, SerializeError> {
        value.serialize(serialize::Serializer)
    }

    /// The value as a type of Rust.
    ///
    /// # Errors
    /// serde_json's own, where the value is not what the type needs.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.to_vec())
    }

    /// As compact text: no white space; `/`, `<`, `>`, `&` and every other character above U+001F but
    /// `"` and `\` as it is.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut text = Vec::new();
        write::value(&mut text, self);
        text
    }

    /// The text, where it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, where it is one of 64 bits, written without point and exponent.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// The object, where it is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The list, where it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_vec()))
    }
}

impl fmt::Debug for Json {
    /// The kind only: a payload does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(_) => f.write_str("Bool"),
            Self::Number(_) => f.write_str("Number"),
            Self::String(text) => write!(f, "String({} bytes)", text.len()),
            Self::Array(list) => write!(f, "Array({} values)", list.len()),
            Self::Object(object) => write!(f, "Object({} keys)", object.len()),
        }
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<Number> for Json {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Self {
        Self::Number(Number::from(number))
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}
