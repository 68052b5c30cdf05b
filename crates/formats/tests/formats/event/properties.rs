//! What holds for any event and for any bytes.

use bytes::Bytes;
use proptest::prelude::*;
use sendoff_formats::event::{Event, binary, structured};

fn any_event() -> impl Strategy<Value = Event> {
    let text = || "[ -~é]{1,12}";
    let seconds = -60_000_000_000_i64..200_000_000_000;
    let time = (seconds, 0_i32..1_000_000_000)
        .prop_map(|(second, nano)| sendoff_core::time::Timestamp::new(second, nano).ok());
    let content_type = prop::option::of(prop::sample::select(vec![
        "application/json",
        "text/plain",
        "application/octet-stream",
        "application/x+json",
    ]));
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::sample::select(vec!["{\"a\":1.0}", "\"x\"", "[1]", "null"])
            .prop_map(|json| json.as_bytes().to_vec()),
    ];
    let extensions = prop::collection::btree_map("x[a-z0-9]{0,25}", "[ -~]{0,8}", 0..4);
    (
        (text(), text(), "[a-z]{1,5}(\\.[a-z]{1,5}){0,3}", prop::option::of(text())),
        (content_type, prop::option::of(text()), time, data, extensions),
    )
        .prop_map(
            |((id, source, kind, subject), (content_type, data_schema, time, data, extensions))| {
                Event {
                    id,
                    source,
                    kind,
                    subject,
                    data_content_type: content_type.map(str::to_owned),
                    data_schema,
                    time,
                    data: Bytes::from(data),
                    extensions,
                }
            },
        )
}

proptest! {
    #[test]
    fn an_event_comes_back_from_its_headers(event in any_event()) {
        let (headers, body) = binary::encode(&event).unwrap();
        prop_assert_eq!(&binary::decode(&headers, body).unwrap(), &event);
        let column = binary::headers_to_json(&headers);
        prop_assert_eq!(binary::headers_from_json(column.as_bytes()).unwrap(), headers);
    }

    #[test]
    fn an_event_comes_back_from_its_json(event in any_event()) {
        let text = structured::encode(&event).unwrap();
        let back = structured::decode(&text).unwrap();
        prop_assert_eq!(structured::encode(&back).unwrap(), text);
        // White space within JSON is the one thing that is not kept.
        if serde_json::from_slice::<serde_json::Value>(&event.data).is_err() {
            prop_assert_eq!(back, event);
        }
    }

    #[test]
    fn any_bytes_are_an_event_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), event in any_event(), at in any::<prop::sample::Index>()) {
        let _ = structured::decode(&bytes);
        let _ = binary::headers_from_json(&bytes);
        let mut text = structured::encode(&event).unwrap();
        let at = at.index(text.len());
        text[at] ^= 1;
        if let Ok(event) = structured::decode(&text) {
            prop_assert!(event.validate().is_ok());
        }
    }
}
