//! Checks of what an envelope carries, against a schema for its URN.
//!
//! The schema is a part of JSON Schema, draft 07: `type` (one name), `required`, `properties`,
//! `additionalProperties` (only `false` says something), `items` (one schema), `enum`, `const`,
//! `minLength` (in code points) and `minimum`. Every other keyword is ignored. Without a `type` only
//! `enum` and `const` are looked at.
//!
//! ```
//! use sendoff_formats::babelqueue::payload::Schema;
//! use sendoff_formats::json::Json;
//!
//! let schema = Schema::parse(br#"{"type":"object","required":["order_id"]}"#)?;
//! let violations = schema.violations(&Json::parse(b"{}")?);
//! assert_eq!(violations[0].to_string(), "order_id: missing_required");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;

use std::collections::BTreeMap;
use std::fmt;

use super::Envelope;
use crate::json::{Json, Object, ParseError};

/// Where data does not match its schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The place: names with points between, `[2]` for a place in a list; empty for the whole.
    pub path: String,
    /// What is wrong there.
    pub kind: ViolationKind,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "<root>" } else { &self.path };
        write!(f, "{path}: {}", self.kind.as_str())
    }
}

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ViolationKind {
    /// It is not the one value that is allowed.
    WrongConst,
    /// It is none of the values that are allowed.
    NotInEnum,
    /// It is no object.
    NotAnObject,
    /// It has to be there.
    MissingRequired,
    /// It may not be there.
    AdditionalNotAllowed,
    /// It is no list.
    NotAnArray,
    /// It is no text.
    NotAString,
    /// It has too few characters.
    BelowMinLength,
    /// It is no whole number.
    NotAnInteger,
    /// It is no number.
    NotANumber,
    /// It is too small.
    BelowMinimum,
    /// It is neither true nor false.
    NotABoolean,
    /// It is something, and has to be `null`.
    NotNull,
}

impl ViolationKind {
    /// The kind as a stable word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongConst => "wrong_const",
            Self::NotInEnum => "not_in_enum",
            Self::NotAnObject => "not_an_object",
            Self::MissingRequired => "missing_required",
            Self::AdditionalNotAllowed => "additional_not_allowed",
            Self::NotAnArray => "not_an_array",
            Self::NotAString => "not_a_string",
            Self::BelowMinLength => "below_min_length",
            Self::NotAnInteger => "not_an_integer",
            Self::NotANumber => "not_a_number",
            Self::BelowMinimum => "below_minimum",
            Self::NotABoolean => "not_a_boolean",
            Self::NotNull => "not_null",
        }
    }
}

/// A schema for the data of one URN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(Object);

/// Why a text is no schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is no JSON.
    Malformed(ParseError),
    /// It is no object.
    NotAnObject,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "reading a schema: {error}"),
            Self::NotAnObject => f.write_str("reading a schema: it is no JSON object"),
        }
    }
}

impl std::error::Error for SchemaError {}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// [`SchemaError`]
    pub fn parse(text: &[u8]) -> Result<Self, SchemaError> {
        match Json::parse(text).map_err(SchemaError::Malformed)? {
            Json::Object(schema) => Ok(Self(schema)),
            _ => Err(SchemaError::NotAnObject),
        }
    }

    /// Every violation, in the order in which they are met: of a value first `const` and `enum`, then the
    /// type, what is required, the properties in the schema's order, and what may not be there.
    #[must_use]
    pub fn violations(&self, data: &Json) -> Vec<Violation> {
        let mut found = Vec::new();
        check::check(&self.0, data, &mut String::new(), &mut found);
        found
    }

    pub(super) fn object(&self) -> &Object {
        &self.0
    }
}

/// Data that does not match the schema of its URN: a message that is tried again and then put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPayload {
    /// What the message is.
    pub urn: String,
    /// What is wrong, at least one.
    pub violations: Vec<Violation>,
}

impl fmt::Display for InvalidPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message data for \"{}\" does not match its URN schema: ", self.urn)?;
        match self.violations.first() {
            Some(first) => write!(f, "{first}."),
            None => f.write_str("."),
        }
    }
}

impl std::error::Error for InvalidPayload {}

/// Schemas by URN.
#[derive(Debug, Clone, Default)]
pub struct Schemas(BTreeMap<String, Schema>);

impl Schemas {
    /// No schemas.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the schema of a URN; gives the earlier one.
    pub fn set(&mut self, urn: impl Into<String>, schema: Schema) -> Option<Schema> {
        self.0.insert(urn.into(), schema)
    }

    /// The schema of a URN.
    #[must_use]
    pub fn get(&self, urn: &str) -> Option<&Schema> {
        self.0.get(urn)
    }

    /// Checks an envelope's data, before it is sent or before it is handled. A URN without a schema is
    /// not checked.
    ///
    /// # Errors
    /// [`InvalidPayload`]
    pub fn check(&self, envelope: &Envelope) -> Result<(), InvalidPayload> {
        let Some(schema) = self.get(envelope.urn()) else { return Ok(()) };
        let data = envelope.data().map_or(Json::Null, |data| Json::Object(data.clone()));
        let violations = schema.violations(&data);
        if violations.is_empty() {
            return Ok(());
        }
        Err(InvalidPayload { urn: envelope.urn().to_owned(), violations })
    }
}
