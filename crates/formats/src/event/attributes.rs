//! The event and its attributes.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use sendoff_core::time::Timestamp;

use super::invalid::{EventError, Fault};

/// The attributes of the specification: no extension may have one of these names.
const CONTEXT: [&str; 9] = [
    "id",
    "source",
    "specversion",
    "type",
    "datacontenttype",
    "dataschema",
    "subject",
    "time",
    "data",
];

/// An event of CloudEvents 1.0.
///
/// ```
/// use sendoff_formats::event::Event;
/// let event = Event {
///     id: "e-1".to_owned(),
///     source: "/shop".to_owned(),
///     kind: "orders.placed".to_owned(),
///     subject: Some("customer-7".to_owned()),
///     ..Event::default()
/// };
/// assert!(event.validate().is_ok());
/// assert_eq!(
///     Event::default().validate().unwrap_err().to_string(),
///     "the event is invalid: id is required, source is required, type is required",
/// );
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The id, unique within its source. Required.
    pub id: String,
    /// Who speaks. Required.
    pub source: String,
    /// `type`: what happened, names with points between them. Required.
    pub kind: String,
    /// What it happened to.
    pub subject: Option<String>,
    /// `datacontenttype`: what kind of text or bytes the data is.
    pub data_content_type: Option<String>,
    /// `dataschema`: where the data's schema is.
    pub data_schema: Option<String>,
    /// When it happened.
    pub time: Option<Timestamp>,
    /// The data; empty where there is none.
    pub data: Bytes,
    /// Attributes beyond the specification's. Names are lower-case letters and digits.
    pub extensions: BTreeMap<String, String>,
}

impl fmt::Debug for Event {
    /// Names only: the data does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("id", &self.id)
            .field("source", &self.source)
            .field("kind", &self.kind)
            .field("data_bytes", &self.data.len())
            .finish_non_exhaustive()
    }
}

impl Event {
    /// Checks every rule, and tells everything that breaks one.
    ///
    /// # Errors
    /// [`EventError::Invalid`]
    pub fn validate(&self) -> Result<(), EventError> {
        let mut faults = Vec::new();
        let required = [("id", &self.id), ("source", &self.source), ("type", &self.kind)];
        for (name, value) in required {
            if value.is_empty() {
                faults.push(Fault::Required(name));
            }
        }
        if !self.kind.is_empty() && !is_kind(&self.kind) {
            faults.push(Fault::Kind);
        }
        for name in self.extensions.keys() {
            let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            if name.is_empty() || !plain {
                faults.push(Fault::ExtensionName(name.clone()));
            } else if CONTEXT.contains(&name.as_str()) {
                faults.push(Fault::ExtensionIsAttribute(name.clone()));
            }
        }
        for (name, value) in self.texts() {
            if value.chars().any(char::is_control) {
                faults.push(Fault::ControlCharacter(name.to_owned()));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(EventError::Invalid(faults)) }
    }

    /// The attributes that are texts, extensions too, where they have a value. The type has a rule of its
    /// own.
    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let fixed = [
            ("id", Some(self.id.as_str())),
            ("source", Some(self.source.as_str())),
            ("subject", self.subject.as_deref()),
            ("datacontenttype", self.data_content_type.as_deref()),
            ("dataschema", self.data_schema.as_deref()),
        ];
        let fixed = fixed.into_iter().filter_map(|(name, value)| Some((name, value?)));
        fixed.chain(self.extensions.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }

    /// Sets an attribute by its name on the wire; an unknown name is an extension. An empty text is none,
    /// but for an extension's.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), EventError> {
        let some = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "id" => value.clone_into(&mut self.id),
            "source" => value.clone_into(&mut self.source),
            "type" => value.clone_into(&mut self.kind),
            "subject" => self.subject = some(),
            "datacontenttype" => self.data_content_type = some(),
            "dataschema" => self.data_schema = some(),
            "time" => self.time = Some(read_time(value).ok_or(EventError::Time)?),
            extension => {
                self.extensions.insert(extension.to_owned(), value.to_owned());
            }
        }
        Ok(())
    }

    /// The attributes that have a value, in the order of the specification, without the content type.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&str, String)> {
        let some = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let fixed = [
            ("id", Some(self.id.clone())),
            ("source", Some(self.source.clone())),
            ("type", Some(self.kind.clone())),
            ("subject", some(&self.subject)),
            ("dataschema", some(&self.data_schema)),
            // UTC, with as many digits of the second as it has.
            ("time", self.time.map(|time| time.to_string())),
        ];
        let fixed = fixed.into_iter().filter_map(|(name, value)| Some((name, value?)));
        fixed.chain(self.extensions.iter().map(|(name, value)| (name.as_str(), value.clone())))
    }
}

/// Whether a type is names with points between them, none empty, without white space, control characters
/// and the wildcards of brokers: it is a subject too.
pub(super) fn is_kind(kind: &str) -> bool {
    let bad = |c: char| c.is_whitespace() || c.is_control() || c == '*' || c == '>';
    kind.split('.').all(|token| !token.is_empty() && !token.contains(bad))
}

/// A time as RFC 3339 writes it: the reader of the library takes more.
fn read_time(text: &str) -> Option<Timestamp> {
    let form = text.as_bytes();
    let date = form.len() >= 20 && form[4] == b'-' && form[7] == b'-';
    let clock = date && matches!(form[10], b'T' | b't') && form[13] == b':' && form[16] == b':';
    let zone = matches!(form.last(), Some(b'Z' | b'z'))
        || form.len() > 24
            && matches!(form[form.len() - 6], b'+' | b'-')
            && form[form.len() - 3] == b':';
    if clock && zone { text.parse().ok() } else { None }
}
