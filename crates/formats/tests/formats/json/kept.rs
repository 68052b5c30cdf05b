//! What survives reading and writing.

use std::collections::BTreeMap;

use sendoff_formats::json::{Json, Number, Object};
use serde::{Deserialize, Serialize};

fn again(text: &str) -> String {
    Json::parse(text.as_bytes()).unwrap().to_string()
}

#[test]
fn numbers_keep_every_digit() {
    for number in ["123456789012345678901234567890", "-0", "1.0", "1.50", "1e3", "1E+3", "0.1e-9"] {
        assert_eq!(again(number), number);
    }
}

#[test]
fn keys_keep_their_order_and_the_later_of_two_counts() {
    assert_eq!(
        again(r#"{ "z": 1, "a": [ 2 , { } ], "m": null }"#),
        r#"{"z":1,"a":[2,{}],"m":null}"#
    );
    assert_eq!(again(r#"{"a":1,"b":2,"a":3}"#), r#"{"a":3,"b":2}"#);
}

#[test]
fn escapes_are_as_few_as_json_allows() {
    let text = r#""\u0041\u00e9\/<>&\u2028 \"\\\b\f\n\r\t\u0001\u001f\ud83e\udd80""#;
    let expected = "\"A\u{e9}/<>&\u{2028} \\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u{1f980}\"";
    assert_eq!(again(text), expected);
    // serde_json's compact text is this form too.
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(value.to_string(), expected);
}

#[test]
fn values_compare_strictly_by_type_and_objects_without_order() {
    let read = |text: &str| Json::parse(text.as_bytes()).unwrap();
    let kinds = ["1", "1.0", "\"1\"", "true", "null", "[1]", "{}", "[]", "0", "false", "\"\""];
    for (index, one) in kinds.iter().enumerate() {
        for (other_index, other) in kinds.iter().enumerate() {
            assert_eq!(read(one) == read(other), index == other_index, "{one} and {other}");
        }
    }
    assert_eq!(read(r#"{"a":1,"b":[2]}"#), read(r#"{"b":[2],"a":1}"#));
    assert_ne!(read("[1,2]"), read("[2,1]"));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Plain,
    Pair(u8, String),
    Named { size: f64 },
    One(Option<bool>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    zebra: i64,
    apple: u128,
    ratio: f32,
    kinds: Vec<Kind>,
    map: BTreeMap<u16, ()>,
    text: char,
}

#[test]
fn a_type_of_rust_comes_back_as_it_was() {
    let one = Everything {
        zebra: i64::MIN,
        apple: u128::from(u64::MAX),
        ratio: 0.1,
        kinds: vec![
            Kind::Plain,
            Kind::Pair(7, "x".to_owned()),
            Kind::Named { size: 2.0 },
            Kind::One(None),
            Kind::One(Some(true)),
        ],
        map: BTreeMap::from([(3, ())]),
        text: '\u{e9}',
    };
    let json = Json::of(&one).unwrap();
    assert_eq!(json.to_string(), serde_json::to_string(&one).unwrap());
    assert_eq!(json.to::<Everything>().unwrap(), one);
    assert_eq!(Json::of(&json).unwrap(), json);
    assert_eq!(serde_json::to_string(&json).unwrap(), json.to_string());
}

#[test]
fn what_json_cannot_say_is_refused_and_does_not_become_null() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(Json::of(&[bad]).is_err());
        assert!(Number::from_f64(bad).is_none());
    }
    assert!(Json::of(&Some(f32::NAN)).is_err());
    assert!(Json::of(&BTreeMap::from([(vec![1], 1)])).is_err());
    assert_eq!(serde_json::to_string(&f64::NAN).unwrap(), "null", "serde_json does it so");
}

#[test]
fn an_object_is_changed_in_place_and_keeps_its_order() {
    let mut object: Object = [("a", 1), ("b", 2), ("c", 3)].into_iter().collect();
    assert_eq!(object.set("b", 20), Some(Json::from(2)));
    assert_eq!(object.remove("a"), Some(Json::from(1)));
    object.set("a", 10);
    assert_eq!(Json::from(object).to_string(), r#"{"b":20,"c":3,"a":10}"#);
}

#[test]
fn a_log_line_of_a_value_says_no_payload() {
    let json = Json::parse(br#"{"name":"Ada","card":[4242424242424242]}"#).unwrap();
    let log = format!("{json:?} {:?}", json.as_object());
    assert!(!log.contains("Ada") && !log.contains("4242"), "{log}");
}
