//! What is not read, and the bounds of what is.

use sendoff_formats::json::{Json, Limits, ParseError};

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    let malformed = [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "'a'",
        "01",
        "1.",
        "+1",
        "NaN",
        "nul",
        "truee",
        "\"\\x\"",
        "\"\u{1}\"",
        "\"\\ud800\"",
        "[1 2]",
        "{\"a\" 1}",
        "{1:2}",
        "\u{feff}{}",
    ];
    for text in malformed {
        let error = Json::parse(text.as_bytes()).unwrap_err();
        assert!(
            matches!(error, ParseError::Malformed { .. } | ParseError::Trailing { .. }),
            "{text:?}: {error:?}"
        );
    }
    assert_eq!(Json::parse(b"[1, x]"), Err(ParseError::Malformed { at: 5 }));
    assert_eq!(Json::parse(b"{} {}"), Err(ParseError::Trailing { at: 3 }));
    assert!(Json::parse(b"\"\xff\"").is_err(), "no UTF-8");
}

#[test]
fn the_error_does_not_quote_the_text() {
    let error = Json::parse(br#"{"password":"secret"#.as_slice()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
}

#[test]
fn size_depth_and_number_of_values_are_bounded() {
    let limits = Limits { bytes_max: 20, depth_max: 3, values_max: 5 };
    let within = |text: &str| Json::parse_within(text.as_bytes(), &limits);
    assert!(within("[[[1]]]").is_ok());
    assert_eq!(within("[[[[]]]]"), Err(ParseError::TooDeep { depth_max: 3 }));
    assert!(within("[1,2,3,4]").is_ok());
    assert_eq!(within("[1,2,3,4,5]"), Err(ParseError::TooMany { values_max: 5 }));
    assert_eq!(within("\"a text of 22 bytes..\""), Err(ParseError::TooLarge { bytes_max: 20 }));
    let deep = "[".repeat(1_000_000);
    assert_eq!(Json::parse(deep.as_bytes()), Err(ParseError::TooDeep { depth_max: 128 }));
    let unbounded = Limits { depth_max: usize::MAX, ..Limits::default() };
    let error = Json::parse_within(deep.as_bytes(), &unbounded).unwrap_err();
    assert_eq!(error, ParseError::TooDeep { depth_max: 512 });
}
