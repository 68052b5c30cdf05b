//! What a store kept of a message, topics, and texts of errors.

use sendoff_core::message::{Headers, TopicPattern};
use sendoff_core::store::{ERROR_CHARS_MAX, clean_error};

use crate::{SECRET, Target, assert_discreet, lines};

/// The headers of a stored row.
pub(crate) const HEADERS: Target = Target {
    name: "headers",
    run: headers,
    seeds: &[b"{}", br#"{"content-type":"application/json","a":""}"#, br#"{"a":1}"#, b"[\"a\"]"],
};

fn headers(data: &[u8]) {
    match Headers::from_json(data) {
        Ok(headers) => {
            let again = Headers::from_json(headers.to_json().as_bytes());
            assert_eq!(again.ok().as_ref(), Some(&headers));
        }
        Err(error) => {
            let value = String::from_utf8_lossy(data).replace(char::is_whitespace, "");
            // Short values may be words of the error's own.
            if value.len() > 60 {
                assert!(!error.to_string().contains(&value), "the row is quoted: {error}");
            }
        }
    }
}

/// A pattern and topics, one on each line.
pub(crate) const PATTERN: Target = Target {
    name: "pattern",
    run: pattern,
    seeds: &[b"orders.>\norders.placed", b"*.placed\na.placed\n.placed", b">\n\na", b"a.b\na.b\na"],
};

fn pattern(data: &[u8]) {
    let mut lines = lines(data);
    let Ok(pattern) = lines.next().unwrap_or_default().parse::<TopicPattern>() else {
        return;
    };
    assert_eq!(pattern.to_string().parse::<TopicPattern>().ok().as_ref(), Some(&pattern));
    let is_plain = !pattern.as_str().contains(['*', '>']);
    for topic in lines {
        let matches = pattern.matches(topic);
        assert!(!is_plain || matches == (topic == pattern.as_str()), "{pattern} {topic}");
        assert!(TopicPattern::any().matches(topic), "{topic}");
    }
}

/// What is kept of an error's text.
pub(crate) const ERROR_TEXT: Target = Target {
    name: "error_text",
    run: error_text,
    seeds: &[b"no route to nats://me:pw@host/x", b"a\0b\r\nc", b"x://a@b@c y://@z"],
};

fn error_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let clean = clean_error(&text);
    assert!(clean.chars().count() <= ERROR_CHARS_MAX);
    assert!(!clean.chars().any(char::is_control), "{clean:?}");
    assert_eq!(clean_error(&clean), clean);
    assert_discreet(&(), &clean_error(&format!("{text} nats://me:{SECRET}@host")));
}
