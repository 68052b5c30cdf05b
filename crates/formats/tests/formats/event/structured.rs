//! Structured mode: one JSON text.

use bytes::Bytes;
use sendoff_formats::event::structured::{decode, encode};
use sendoff_formats::event::{Event, EventError};

use super::full;

fn text(event: &Event) -> String {
    String::from_utf8(encode(event).unwrap()).unwrap()
}

fn with_data(content_type: Option<&str>, data: &'static [u8]) -> Event {
    Event {
        id: "1".to_owned(),
        source: "/s".to_owned(),
        kind: "t".to_owned(),
        data_content_type: content_type.map(str::to_owned),
        data: Bytes::from_static(data),
        ..Event::default()
    }
}

#[test]
fn an_event_with_everything_goes_both_ways() {
    let expected = concat!(
        r#"{"specversion":"1.0","id":"e-1","source":"/shop","type":"orders.placed","subject":"customer-7","#,
        r#""dataschema":"https://example.org/placed.json","time":"2026-09-23T13:00:00.123456789Z","#,
        r#""alongerextensionnamethantwenty":"1","traceparent":"00-x","datacontenttype":"application/json","#,
        r#""data":{"z":12345678901234567890123,"a":1.0}}"#
    );
    assert_eq!(text(&full()), expected);
    assert_eq!(decode(expected.as_bytes()).unwrap(), full());
}

#[test]
fn data_stands_as_json_as_a_text_or_as_base64() {
    let cases: [(Option<&str>, &'static [u8], &str); 11] = [
        (None, b"{\"a\":1}", r#""data":{"a":1}"#),
        (None, b"\"text\"", r#""data":"text""#),
        (None, b"null", r#""data":null"#),
        (None, b"no json", r#""data_base64":"bm8ganNvbg==""#),
        (Some("application/json; charset=utf-8"), b"[1]", r#""data":[1]"#),
        (Some("application/vnd.shop+json"), b"1.50", r#""data":1.50"#),
        (Some("application/json"), b"\xff", r#""data_base64":"/w==""#),
        (Some("text/plain"), b"\"hello\"", r#""data":"\"hello\"""#),
        (Some("text/plain"), b"\xff", r#""data_base64":"/w==""#),
        (Some("application/octet-stream"), b"{}", r#""data_base64":"e30=""#),
        (Some("text/plain"), b"", r#""datacontenttype":"text/plain"}"#),
    ];
    for (content_type, data, expected) in cases {
        let event = with_data(content_type, data);
        assert!(text(&event).contains(expected), "{}", text(&event));
        assert_eq!(decode(&encode(&event).unwrap()).unwrap(), event);
    }
}

#[test]
fn attributes_of_other_types_become_texts_and_null_is_absent() {
    let event = decode(
        br#"{"specversion":"1.0","id":"1","source":"/s","type":"t","count":7,"yes":true,"subject":null,"data":null}"#,
    )
    .unwrap();
    assert_eq!(
        (event.extensions["count"].as_str(), event.extensions["yes"].as_str()),
        ("7", "true")
    );
    assert_eq!((event.subject, &event.data[..]), (None, &b"null"[..]));
}

#[test]
fn what_is_no_event_is_refused() {
    let least = r#""id":"1","source":"/s","type":"t""#;
    let cases = [
        ("[]".to_owned(), EventError::NotAnObject),
        (format!("{{{least}}}"), EventError::SpecVersion),
        (format!(r#"{{"specversion":1.0,{least}}}"#), EventError::SpecVersion),
        (
            format!(r#"{{"specversion":"1.0",{least},"mine":[]}}"#),
            EventError::AttributeType("mine".to_owned()),
        ),
        (format!(r#"{{"specversion":"1.0",{least},"time":"now"}}"#), EventError::Time),
        (
            format!(r#"{{"specversion":"1.0",{least},"data":1,"data_base64":"AA=="}}"#),
            EventError::TwoData,
        ),
        (format!(r#"{{"specversion":"1.0",{least},"data_base64":"%"}}"#), EventError::Base64),
        (format!(r#"{{"specversion":"1.0",{least},"data_base64":7}}"#), EventError::Base64),
    ];
    for (text, expected) in cases {
        assert_eq!(decode(text.as_bytes()), Err(expected), "{text}");
    }
    assert!(decode(b"{").is_err());
    assert!(decode(br#"{"specversion":"1.0","id":"1"}"#).is_err());
    assert!(encode(&Event::default()).is_err());
}
