//! What is wrong with an event.

use std::fmt;

use crate::json::ParseError;

/// A rule that an event breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An attribute has to be there.
    Required(&'static str),
    /// The type is not names with points between them.
    Kind,
    /// An extension's name is empty, or has other characters than lower-case letters and digits.
    ExtensionName(String),
    /// An extension has the name of an attribute.
    ExtensionIsAttribute(String),
    /// An attribute's value has a control character.
    ControlCharacter(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required(name) => write!(f, "{name} is required"),
            Self::Kind => f.write_str(
                "type has to be names with points between them, without white space, control characters, \
                 * and >",
            ),
            Self::ExtensionName(name) => {
                write!(f, "the extension {name:?} has other characters than a-z and 0-9, or none")
            }
            Self::ExtensionIsAttribute(name) => {
                write!(f, "the extension {name:?} has the name of an attribute")
            }
            Self::ControlCharacter(name) => write!(f, "{name} has a control character"),
        }
    }
}

/// Why something is no event. It never quotes an attribute's value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventError {
    /// It breaks these rules.
    Invalid(Vec<Fault>),
    /// `specversion` is missing or not 1.0.
    SpecVersion,
    /// `time` is none of RFC 3339.
    Time,
    /// The headers are no JSON object of lists of texts.
    Headers,
    /// The text is no JSON.
    Malformed(ParseError),
    /// The text is JSON, but no object.
    NotAnObject,
    /// An attribute in JSON is neither a text nor a number nor a truth.
    AttributeType(String),
    /// There are both `data` and `data_base64`.
    TwoData,
    /// `data_base64` is no Base64.
    Base64,
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(faults) => {
                f.write_str("the event is invalid:")?;
                for (index, fault) in faults.iter().enumerate() {
                    write!(f, "{} {fault}", if index > 0 { "," } else { "" })?;
                }
                Ok(())
            }
            Self::SpecVersion => f.write_str("decoding an event: specversion has to be 1.0"),
            Self::Time => f.write_str("decoding an event: time has to be one of RFC 3339"),
            Self::Headers => {
                f.write_str("decoding an event: the headers are no JSON object of lists of texts")
            }
            Self::Malformed(error) => write!(f, "decoding an event: {error}"),
            Self::NotAnObject => f.write_str("decoding an event: it is no JSON object"),
            Self::AttributeType(name) => {
                write!(f, "decoding an event: {name:?} is no text, number or truth")
            }
            Self::TwoData => f.write_str("decoding an event: there are both data and data_base64"),
            Self::Base64 => f.write_str("decoding an event: data_base64 is no Base64"),
        }
    }
}

impl std::error::Error for EventError {}
