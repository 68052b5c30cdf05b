//! Binary mode: headers and a body.

use bytes::Bytes;
use sendoff_formats::event::binary::{
    HeaderMap, decode, encode, headers_from_json, headers_to_json,
};
use sendoff_formats::event::{Event, EventError, Fault};
use sendoff_formats::json::ParseError;

use super::full;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect()
}

const LEAST: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")];

fn with(more: &[(&str, &str)]) -> HeaderMap {
    let mut all = headers(&LEAST);
    all.extend(headers(more));
    all
}

#[test]
fn the_headers_are_those_of_the_contract() {
    let (found, body) = encode(&full()).unwrap();
    let expected = concat!(
        r#"{"ce-alongerextensionnamethantwenty":["1"],"ce-dataschema":["https://example.org/placed.json"],"#,
        r#""ce-id":["e-1"],"ce-source":["/shop"],"ce-specversion":["1.0"],"ce-subject":["customer-7"],"#,
        r#""ce-time":["2026-09-23T13:00:00.123456789Z"],"ce-traceparent":["00-x"],"#,
        r#""ce-type":["orders.placed"],"content-type":["application/json"]}"#
    );
    assert_eq!(headers_to_json(&found), expected);
    assert_eq!(body, full().data);
    assert_eq!(decode(&found, body).unwrap(), full());
    assert_eq!(headers_from_json(expected.as_bytes()).unwrap(), found);
}

#[test]
fn what_an_event_does_not_have_is_no_header() {
    let least = Event {
        id: "1".to_owned(),
        source: "/s".to_owned(),
        kind: "t".to_owned(),
        subject: Some(String::new()),
        ..Event::default()
    };
    let (found, body) = encode(&least).unwrap();
    assert_eq!(found, headers(&LEAST));
    assert!(body.is_empty());
    assert_eq!(decode(&found, body).unwrap(), Event { subject: None, ..least });
}

#[test]
fn names_are_read_in_any_case_and_the_lower_one_wins() {
    let mut mixed = headers(&[
        ("CE-SpecVersion", "1.0"),
        ("Ce-Id", "upper"),
        ("CE-SOURCE", "/s"),
        ("ce-type", "t"),
    ]);
    assert_eq!(decode(&mixed, Bytes::new()).unwrap().id, "upper");
    mixed.extend(headers(&[("ce-id", "lower")]));
    assert_eq!(decode(&mixed, Bytes::new()).unwrap().id, "lower");
    mixed.extend(headers(&[("Content-Type", "text/plain"), ("CE-Mine", "x"), ("X-Other", "y")]));
    let event = decode(&mixed, Bytes::new()).unwrap();
    assert_eq!(event.data_content_type.as_deref(), Some("text/plain"));
    assert_eq!(
        event.extensions.into_iter().collect::<Vec<_>>(),
        [("mine".to_owned(), "x".to_owned())]
    );
}

#[test]
fn the_first_value_counts_and_a_name_without_values_is_absent() {
    let mut some = with(&[]);
    some.insert("ce-subject".to_owned(), vec!["first".to_owned(), "second".to_owned()]);
    some.insert("ce-mine".to_owned(), Vec::new());
    some.insert("CE-ID".to_owned(), Vec::new());
    let event = decode(&some, Bytes::new()).unwrap();
    assert_eq!((event.subject.as_deref(), event.id.as_str()), (Some("first"), "1"));
    assert!(event.extensions.is_empty());
    some.insert("ce-id".to_owned(), Vec::new());
    let missing = EventError::Invalid(vec![Fault::Required("id")]);
    assert_eq!(decode(&some, Bytes::new()), Err(missing));
}

#[test]
fn only_version_1_0_is_read() {
    for version in ["", "1", "1.0 ", "0.3", "1.1"] {
        let found = decode(&with(&[("ce-specversion", version)]), Bytes::new());
        assert_eq!(found, Err(EventError::SpecVersion), "{version:?}");
    }
    assert_eq!(decode(&HeaderMap::new(), Bytes::new()), Err(EventError::SpecVersion));
}

#[test]
fn a_time_is_one_of_rfc_3339() {
    for (text, expected) in [
        ("2026-09-23T13:00:00Z", "2026-09-23T13:00:00Z"),
        ("2026-09-23T15:00:00.5+02:00", "2026-09-23T13:00:00.5Z"),
        ("2026-09-23t13:00:00.000000001z", "2026-09-23T13:00:00.000000001Z"),
    ] {
        let event = decode(&with(&[("ce-time", text)]), Bytes::new()).unwrap();
        assert_eq!(encode(&event).unwrap().0["ce-time"], [expected]);
    }
    for bad in [
        "",
        "now",
        "2026-09-23",
        "2026-09-23T13:00:00",
        "2026-09-23 13:00:00Z",
        "20260923T130000Z",
        "2026-13-23T13:00:00Z",
        "1758632400",
        "2026-09-23T13+00",
    ] {
        let found = decode(&with(&[("ce-time", bad)]), Bytes::new());
        assert_eq!(found, Err(EventError::Time), "{bad:?}");
    }
}

#[test]
fn what_was_decoded_is_checked() {
    assert!(decode(&with(&[("ce-type", "a b")]), Bytes::new()).is_err());
    assert!(decode(&with(&[("ce-Not_Plain", "x")]), Bytes::new()).is_err());
    assert!(decode(&with(&[("ce-datacontenttype", "x")]), Bytes::new()).is_err());
    assert!(encode(&Event::default()).is_err());
}

#[test]
fn a_column_of_another_shape_is_refused() {
    for bad in [
        "[]",
        "7",
        r#"{"ce-id":"1"}"#,
        r#"{"ce-id":[1]}"#,
        r#"{"ce-id":null}"#,
        r#"{"ce-id":[null]}"#,
    ] {
        assert_eq!(headers_from_json(bad.as_bytes()), Err(EventError::Headers), "{bad}");
    }
    let malformed = EventError::Malformed(ParseError::Malformed { at: 1 });
    assert_eq!(headers_from_json(b"{"), Err(malformed));
    // It has the shape, and is still no event.
    let decoded = headers_from_json(br#"{"ce-id":["1"]}"#).unwrap();
    assert_eq!(decode(&decoded, Bytes::new()), Err(EventError::SpecVersion));
}
