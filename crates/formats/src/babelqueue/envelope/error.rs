//! Why there is no envelope.

use std::fmt;

use super::check::Refusal;
use crate::json::{ParseError, SerializeError};

/// Why an envelope could not be made, decoded or taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The URN is blank.
    EmptyUrn,
    /// The payload is something else than an object.
    DataNotAnObject,
    /// The payload has what JSON cannot say.
    Data(SerializeError),
    /// The text is no JSON, or over a limit.
    Malformed(ParseError),
    /// The text is JSON, but no object.
    NotAnObject,
    /// The envelope is one, and not to be handled.
    Refused(Vec<Refusal>),
    /// The native property says another schema version: nothing was decoded.
    Gated,
    /// A key was to be set that is the contract's own.
    OwnKey(String),
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyUrn => f.write_str(
                "A polyglot message must expose a stable, non-empty URN, such as \
                 urn:babel:orders:created",
            ),
            Self::DataNotAnObject => f.write_str(
                "the data of a message has to be a JSON object; put a list or a value under a key of it",
            ),
            Self::Data(error) => write!(f, "the data of a message: {error}"),
            Self::Malformed(error) => write!(f, "decoding an envelope: {error}"),
            Self::NotAnObject => f.write_str("decoding an envelope: it is no JSON object"),
            Self::Refused(refusals) => {
                f.write_str("the envelope is refused:")?;
                for (index, refusal) in refusals.iter().enumerate() {
                    write!(f, "{} {}", if index > 0 { "," } else { "" }, refusal.as_str())?;
                }
                f.write_str("; put it aside, do not drop it")
            }
            Self::Gated => write!(
                f,
                "the message's native property says another schema version than {}: it was not decoded; \
                 put it aside, do not drop it",
                super::SCHEMA_VERSION
            ),
            Self::OwnKey(key) => {
                write!(f, "{key:?} is a key of the envelope itself; use the method that sets it")
            }
        }
    }
}

impl std::error::Error for EnvelopeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed(error) => Some(error),
            Self::Data(error) => Some(error),
            _ => None,
        }
    }
}
