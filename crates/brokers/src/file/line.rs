//! A message as a line of JSON, and back. The fields stand in [`crate::file`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, ErrorKind, Limits, Message, Result};
use serde::{Deserialize, Serialize, Serializer};

#[derive(Serialize)]
struct Written<'a> {
    id: &'a str,
    source: &'a str,
    topic: &'a str,
    key: Option<&'a str>,
    headers: HeadersOf<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
}

struct HeadersOf<'a>(&'a Message);

impl Serialize for HeadersOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.headers().iter())
    }
}

/// Appends a message's line, with its line feed.
///
/// # Errors
/// What cannot be written as JSON; no message is known to do that.
pub(crate) fn write_line(message: &Message, lines: &mut Vec<u8>) -> serde_json::Result<()> {
    let body = std::str::from_utf8(message.body()).ok();
    let written = Written {
        id: message.id(),
        source: message.source(),
        topic: message.topic(),
        key: message.key(),
        headers: HeadersOf(message),
        body,
        body_base64: body.is_none().then(|| BASE64_STANDARD.encode(message.body())),
        due_at: message.due_at(),
    };
    serde_json::to_writer(&mut *lines, &written)?;
    lines.push(b'\n');
    Ok(())
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    #[serde(borrow)]
    body_base64: Option<Cow<'a, str>>,
    due_at: Option<Timestamp>,
}

/// Reads a line, with or without its line feed, back to the message that was sent. Fields that are
/// not known are ignored.
///
/// # Errors
/// [`ErrorKind::Corrupt`] where it is not a line of a [`crate::file::FilePublisher`].
pub fn read_line(line: &[u8]) -> Result<Message> {
    let corrupt = |detail: &str| Error::new(ErrorKind::Corrupt, "reading a line").detail(detail);
    // The parser's own message is not passed on: it can quote a body.
    let read: Read<'_> =
        serde_json::from_slice(line).map_err(|_| corrupt("it is not a message in JSON"))?;
    let body = match (read.body, read.body_base64) {
        (Some(body), None) => body.into_bytes(),
        (None, Some(encoded)) => BASE64_STANDARD
            .decode(encoded.as_bytes())
            .map_err(|_| corrupt("body_base64 is not Base64"))?,
        _ => return Err(corrupt("it has to have one of body and body_base64")),
    };
    let mut message = Message::builder(read.source, read.topic)
        .id(read.id)
        .headers(read.headers.into_iter().collect())
        .body(body)
        .limits(Limits::UNBOUNDED);
    if let Some(key) = read.key {
        message = message.key(key);
    }
    if let Some(due_at) = read.due_at {
        message = message.due_at(due_at);
    }
    message.build()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sendoff_core::{ErrorKind, Message};

    use super::{read_line, write_line};

    fn line_of(message: &Message) -> Vec<u8> {
        let mut line = Vec::new();
        write_line(message, &mut line).unwrap();
        line
    }

    fn name() -> impl Strategy<Value = String> {
        "\\PC{1,12}".prop_filter("control characters are refused before", |name| {
            !name.chars().any(char::is_control)
        })
    }

    prop_compose! {
        fn message()(
            id in name(),
            source in name(),
            topic in name(),
            key in proptest::option::of("(?s)[^\0]{0,8}"),
            headers in proptest::collection::btree_map("[!-9;-~]{1,6}", "[^\0\r\n]{0,8}", 0..4),
            body in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..64),
                any::<String>().prop_map(String::into_bytes),
            ],
            due_micros in proptest::option::of(0_i64..4_000_000_000_000_000),
        ) -> Message {
            let mut message = Message::builder(source, topic)
                .id(id)
                .headers(headers.into_iter().collect())
                .body(body);
            if let Some(key) = key {
                message = message.key(key);
            }
            if let Some(micros) = due_micros {
                message = message.due_at(sendoff_core::time::Timestamp::from_microsecond(micros).unwrap());
            }
            message.build().expect("the strategies keep the rules")
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_message_comes_back_from_its_line(message in message()) {
            prop_assert_eq!(read_line(&line_of(&message)).unwrap(), message);
        }

        #[test]
        fn a_line_has_one_line_feed_and_that_at_its_end(message in message()) {
            let line = line_of(&message);
            prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        }
    }

    #[test]
    fn the_fields_are_those_of_the_contract() {
        let message = Message::builder("shop", "orders")
            .id("1")
            .header("a", "b")
            .body("{\"n\":1}\0")
            .build()
            .unwrap();
        assert_eq!(
            String::from_utf8(line_of(&message)).unwrap(),
            "{\"id\":\"1\",\"source\":\"shop\",\"topic\":\"orders\",\"key\":null,\"headers\":{\"a\":\"b\"},\
             \"body\":\"{\\\"n\\\":1}\\u0000\"}\n"
        );
        let message = Message::builder("shop", "orders")
            .id("1")
            .key("k")
            .body(vec![0xff, 0xfe])
            .due_at("2030-01-02T03:04:05.000006Z".parse().unwrap())
            .build()
            .unwrap();
        assert_eq!(
            String::from_utf8(line_of(&message)).unwrap(),
            "{\"id\":\"1\",\"source\":\"shop\",\"topic\":\"orders\",\"key\":\"k\",\"headers\":{},\
             \"body_base64\":\"//4=\",\"due_at\":\"2030-01-02T03:04:05.000006Z\"}\n"
        );
    }

    #[test]
    fn what_is_not_a_line_is_refused_without_quoting_it() {
        let whole = r#"{"id":"1","source":"s","topic":"t","key":null,"headers":{},"body":"hush"}"#;
        assert!(read_line(whole.as_bytes()).is_ok());
        for broken in [
            "",
            "{}",
            &whole[..whole.len() - 1],
            r#"{"id":"1","source":"s","topic":"t","key":null,"headers":{}}"#,
            r#"{"id":"1","source":"s","topic":"t","key":null,"headers":{},"body":"hush","body_base64":""}"#,
            r#"{"id":"1","source":"s","topic":"t","key":null,"headers":{},"body_base64":"hush!"}"#,
            r#"{"id":"1","source":"s","topic":"t","key":null,"headers":{"a":1},"body":"hush"}"#,
        ] {
            let error = read_line(broken.as_bytes()).expect_err(broken);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{broken}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
