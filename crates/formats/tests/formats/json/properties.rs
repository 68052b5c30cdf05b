//! What holds for any value and for any bytes.

use proptest::prelude::*;
use sendoff_formats::json::{Json, Number, Object};

/// Any value, a few levels deep.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u128>().prop_map(|number| Json::from(Number::from(number))),
        any::<f64>().prop_filter_map("finite", |number| Number::from_f64(number).map(Json::from)),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|pairs| Json::from(Object::from_iter(pairs))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(json in any_json()) {
        let text = json.to_vec();
        let read = Json::parse(&text).unwrap();
        prop_assert_eq!(&read, &json);
        prop_assert_eq!(read.to_vec(), text);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(json) = Json::parse(&bytes) {
            prop_assert_eq!(Json::parse(&json.to_vec()).unwrap(), json);
        }
    }

    /// Bytes that look like JSON find more than bytes of any kind.
    #[test]
    fn what_serde_json_reads_is_read_and_nothing_else(
        text in r#"[ \n]{0,2}[\[\{]?("[a\\nu"0]{0,6}"|[-+0-9.eE]{1,6}|true|null|,|:|\{|\[|\]|\}| ){0,12}[\]\}]?"#
    ) {
        let ours = Json::parse(text.as_bytes());
        let theirs: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_str(&text);
        let theirs_deep: Result<serde_json::Value, _> = serde_json::from_str(&text);
        // serde_json refuses numbers that no double can hold when it makes a value; a scan does not.
        if theirs_deep.is_ok() {
            prop_assert!(ours.is_ok(), "{:?}", text);
        }
        if ours.is_ok() {
            prop_assert!(theirs.is_ok(), "{:?}", text);
        }
    }
}
