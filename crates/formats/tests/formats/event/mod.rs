//! CloudEvents: headers, JSON, and the events of a command.

mod binary;
mod permanent;
mod properties;
mod recorder;
mod structured;
mod validate;

use bytes::Bytes;
use sendoff_formats::event::Event;

/// An event with every attribute.
pub(crate) fn full() -> Event {
    Event {
        id: "e-1".to_owned(),
        source: "/shop".to_owned(),
        kind: "orders.placed".to_owned(),
        subject: Some("customer-7".to_owned()),
        data_content_type: Some("application/json".to_owned()),
        data_schema: Some("https://example.org/placed.json".to_owned()),
        time: Some("2026-09-23T13:00:00.123456789Z".parse().unwrap()),
        data: Bytes::from_static(br#"{"z":12345678901234567890123,"a":1.0}"#),
        extensions: [("traceparent", "00-x"), ("alongerextensionnamethantwenty", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    }
}
