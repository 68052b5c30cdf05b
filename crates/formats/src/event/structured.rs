//! Structured mode: the whole event is one JSON text, `application/cloudevents+json`.
//!
//! Data that is JSON stands in it as JSON, with its keys in their order and every digit of its numbers,
//! without its white space; a text stands in it as a text; anything else as Base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::binary::SPEC_VERSION;
use super::{Event, EventError};
use crate::json::{Json, Object};

/// The media type of an event in this mode.
pub const CONTENT_TYPE: &str = "application/cloudevents+json";

/// The text of an event.
///
/// ```
/// use sendoff_formats::event::{structured, Event};
/// let event = Event {
///     id: "e-1".to_owned(),
///     source: "/shop".to_owned(),
///     kind: "orders.placed".to_owned(),
///     data: r#"{"order": 1}"#.into(),
///     ..Event::default()
/// };
/// assert_eq!(
///     structured::encode(&event)?,
///     br#"{"specversion":"1.0","id":"e-1","source":"/shop","type":"orders.placed","data":{"order":1}}"#,
/// );
/// # Ok::<(), sendoff_formats::event::EventError>(())
/// ```
///
/// # Errors
/// [`EventError::Invalid`]; also for an extension that is called `data_base64`, which no name is.
pub fn encode(event: &Event) -> Result<Vec<u8>, EventError> {
    event.validate()?;
    let mut object = Object::from_iter([("specversion", SPEC_VERSION)]);
    for (name, value) in event.attributes() {
        object.set(name, value);
    }
    let content_type = event.data_content_type.as_deref().filter(|kind| !kind.is_empty());
    if let Some(content_type) = content_type {
        object.set("datacontenttype", content_type);
    }
    if !event.data.is_empty() {
        let (key, value) = data(content_type, &event.data);
        object.set(key, value);
    }
    Ok(Json::from(object).to_vec())
}

fn data(content_type: Option<&str>, data: &[u8]) -> (&'static str, Json) {
    if is_json(content_type) {
        if let Ok(json) = Json::parse(data) {
            return ("data", json);
        }
    } else if is_text(content_type)
        && let Ok(text) = std::str::from_utf8(data)
    {
        return ("data", Json::from(text));
    }
    ("data_base64", Json::from(STANDARD.encode(data)))
}

/// The event of a text.
///
/// # Errors
/// [`EventError`], also where the event breaks a rule.
pub fn decode(text: &[u8]) -> Result<Event, EventError> {
    let json = Json::parse(text).map_err(EventError::Malformed)?;
    let Json::Object(mut object) = json else { return Err(EventError::NotAnObject) };
    if object.remove("specversion").as_ref().and_then(Json::as_str) != Some(SPEC_VERSION) {
        return Err(EventError::SpecVersion);
    }
    let (data, base64) = (object.remove("data"), object.remove("data_base64"));
    let mut event = Event::default();
    for (name, value) in object {
        let text = match value {
            // What is null is absent.
            Json::Null => continue,
            Json::String(text) => text,
            Json::Number(number) => number.as_str().to_owned(),
            Json::Bool(truth) => truth.to_string(),
            Json::Array(_) | Json::Object(_) => return Err(EventError::AttributeType(name)),
        };
        event.set(&name, &text)?;
    }
    event.data = match (data, base64) {
        (Some(_), Some(_)) => return Err(EventError::TwoData),
        (Some(data), None) => bytes_of(event.data_content_type.as_deref(), data),
        (None, Some(Json::String(text))) => {
            Bytes::from(STANDARD.decode(text).map_err(|_| EventError::Base64)?)
        }
        (None, Some(_)) => return Err(EventError::Base64),
        (None, None) => Bytes::new(),
    };
    event.validate()?;
    Ok(event)
}

/// A text is the data itself where the content type is not JSON's; everything else is JSON.
fn bytes_of(content_type: Option<&str>, data: Json) -> Bytes {
    match data {
        Json::String(text) if !is_json(content_type) => Bytes::from(text),
        data => Bytes::from(data.to_vec()),
    }
}

/// JSON, also where nothing is said: that is what the specification takes it for.
fn is_json(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else { return true };
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type.ends_with("/json") || media_type.ends_with("+json")
}

fn is_text(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/"))
}
