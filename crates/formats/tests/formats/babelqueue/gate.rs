//! The gate before decoding.

use sendoff_formats::babelqueue::gate::{Gate, Native, check};
use sendoff_formats::babelqueue::{Envelope, EnvelopeError};

#[test]
fn absent_blank_and_one_decode() {
    for text in ["", "1", " ", " \t\n\u{b}\u{c}\r"] {
        assert_eq!(check(Native::Text(text)), Gate::Decode, "{text:?}");
        assert_eq!(check(Native::Bytes(text.as_bytes())), Gate::Decode, "{text:?}");
    }
    assert_eq!(check(Native::Absent), Gate::Decode);
    assert_eq!(check(Native::Integer(1)), Gate::Decode);
}

#[test]
fn anything_else_is_rejected_and_nothing_is_trimmed() {
    let others = [
        "2", "0", "01", "1.0", " 1", "1 ", "one", "-1", "+1", "\u{a0}", "\u{85}", "\u{3000}",
        "\u{feff}", "1\0", "\u{661}",
    ];
    for text in others {
        assert_eq!(check(Native::Text(text)), Gate::Reject, "{text:?}");
        assert_eq!(check(Native::Bytes(text.as_bytes())), Gate::Reject, "{text:?}");
    }
    assert_eq!(check(Native::Bytes(b"\xff")), Gate::Reject);
    for number in [0, 2, -1, i128::from(u64::MAX)] {
        assert_eq!(check(Native::Integer(number)), Gate::Reject);
    }
    assert_eq!(check(Native::Other), Gate::Reject);
}

#[test]
fn what_the_gate_rejects_is_not_decoded() {
    let later = b"\x00not json of a later version";
    assert_eq!(Envelope::receive(later, Native::Text("2")), Err(EnvelopeError::Gated));
    assert!(matches!(Envelope::receive(later, Native::Absent), Err(EnvelopeError::Malformed(_))));
}

#[test]
fn what_is_received_is_checked() {
    let error = Envelope::receive(br#"{"job":"urn:a"}"#, Native::Integer(1)).unwrap_err();
    let words = "missing_meta, invalid_data, missing_trace_id, invalid_attempts";
    assert!(error.to_string().contains(words), "{error}");
    let good =
        br#"{"job":"urn:a","trace_id":"t","data":{},"meta":{"schema_version":1},"attempts":0}"#;
    assert!(Envelope::receive(good, Native::Text("1")).is_ok());
}
