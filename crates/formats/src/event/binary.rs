//! Binary mode: the attributes are headers, the body is the data.
//!
//! ```
//! use sendoff_formats::event::{binary, Event};
//! let event = Event {
//!     id: "e-1".to_owned(),
//!     source: "/shop".to_owned(),
//!     kind: "orders.placed".to_owned(),
//!     data_content_type: Some("application/json".to_owned()),
//!     data: r#"{"order":1}"#.into(),
//!     ..Event::default()
//! };
//! let (headers, body) = binary::encode(&event)?;
//! assert_eq!(headers["ce-type"], ["orders.placed"]);
//! assert_eq!(binary::decode(&headers, body)?, event);
//! # Ok::<(), sendoff_formats::event::EventError>(())
//! ```

use std::collections::BTreeMap;

use bytes::Bytes;
use sendoff_core::message::Headers;

use super::{Event, EventError};
use crate::json::{Json, Object};

/// Names with their values, as an outbox's column `header` keeps them.
pub type HeaderMap = BTreeMap<String, Vec<String>>;

/// The version of the specification.
pub(super) const SPEC_VERSION: &str = "1.0";

const PREFIX: &str = "ce-";
const CONTENT_TYPE: &str = "content-type";

/// The headers and the body of an event.
///
/// # Errors
/// [`EventError::Invalid`]
pub fn encode(event: &Event) -> Result<(HeaderMap, Bytes), EventError> {
    event.validate()?;
    let mut headers = HeaderMap::new();
    let mut set = |name: &str, value: String| headers.insert(name.to_owned(), vec![value]);
    set("ce-specversion", SPEC_VERSION.to_owned());
    for (name, value) in event.attributes() {
        set(&format!("{PREFIX}{name}"), value);
    }
    if let Some(content_type) = event.data_content_type.clone().filter(|kind| !kind.is_empty()) {
        set(CONTENT_TYPE, content_type);
    }
    Ok((headers, event.data.clone()))
}

/// The event of headers and a body.
///
/// Names are compared without their case; where one stands in both, the lower-case one counts. Of a
/// name's values the first counts; a name without values is as good as absent. Headers that do not begin
/// with `ce-` are not the event's, but for `content-type`.
///
/// # Errors
/// [`EventError::SpecVersion`], [`EventError::Time`], and [`EventError::Invalid`] where the event breaks
/// a rule.
pub fn decode(headers: &HeaderMap, body: Bytes) -> Result<Event, EventError> {
    let mut found: BTreeMap<String, &str> = BTreeMap::new();
    for (name, values) in headers {
        let Some(first) = values.first() else { continue };
        let lower = name.to_ascii_lowercase();
        let is_lower = lower == *name;
        if is_lower || !found.contains_key(&lower) {
            found.insert(lower, first);
        }
    }
    if found.remove("ce-specversion") != Some(SPEC_VERSION) {
        return Err(EventError::SpecVersion);
    }
    let mut event = Event { data: body, ..Event::default() };
    for (name, value) in found {
        match name.strip_prefix(PREFIX) {
            // The content type has a header of its own, and no attribute carries data.
            Some(name @ ("datacontenttype" | "data")) => {
                event.extensions.insert(name.to_owned(), value.to_owned());
            }
            Some(name) => event.set(name, value)?,
            None if name == CONTENT_TYPE => event.set("datacontenttype", value)?,
            None => {}
        }
    }
    event.validate()?;
    Ok(event)
}

/// The event of a message of Sendoff's.
///
/// # Errors
/// Those of [`decode`].
pub fn decode_message(headers: &Headers, body: Bytes) -> Result<Event, EventError> {
    let lists = headers.iter().map(|(name, value)| (name.to_owned(), vec![value.to_owned()]));
    decode(&lists.collect(), body)
}

/// Headers as the text of a column: a JSON object of lists of texts.
#[must_use]
pub fn headers_to_json(headers: &HeaderMap) -> String {
    let list = |values: &Vec<String>| {
        Json::Array(values.iter().map(|value| Json::from(value.as_str())).collect())
    };
    let object: Object =
        headers.iter().map(|(name, values)| (name.as_str(), list(values))).collect();
    Json::from(object).to_string()
}

/// Headers from the text of a column.
///
/// # Errors
/// [`EventError::Malformed`], and [`EventError::Headers`] for JSON of another shape.
pub fn headers_from_json(text: &[u8]) -> Result<HeaderMap, EventError> {
    let json = Json::parse(text).map_err(EventError::Malformed)?;
    let Json::Object(object) = json else { return Err(EventError::Headers) };
    let mut headers = HeaderMap::new();
    for (name, list) in object {
        let Json::Array(list) = list else { return Err(EventError::Headers) };
        let texts: Option<Vec<String>> = list
            .into_iter()
            .map(|value| match value {
                Json::String(text) => Some(text),
                _ => None,
            })
            .collect();
        headers.insert(name, texts.ok_or(EventError::Headers)?);
    }
    Ok(headers)
}
