//! A message's headers on an HTTP request, and back. The rules stand in [`crate::webhook`].

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use sendoff_core::{Error, ErrorKind, Headers, Limits, Message, PublishError, Result};

use crate::percent;

pub(super) const WEBHOOK_ID: &str = "webhook-id";
const ID: &str = "sendoff-id";
const SOURCE: &str = "sendoff-source";
const TOPIC: &str = "sendoff-topic";
const KEY: &str = "sendoff-key";
const NAMES: &str = "sendoff-headers";
const ENCODED: &str = "sendoff-encoded";
const OTHER: &str = "sendoff-header-";
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

const RESERVED_PREFIXES: [&str; 4] = ["webhook-", "sendoff-", "proxy-", "x-forwarded-"];
const RESERVED: [&str; 18] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-real-ip",
];

/// The id that a receiver recognises a repetition by.
pub(super) fn webhook_id(message: &Message) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '~' | '/' | ':');
    percent::encode(&message.dedup_id(), |c| !plain(c)).into_owned()
}

/// The headers that are the same at every attempt.
///
/// # Errors
/// A [`PublishError`] of class `Permanent` where the message has more headers than a request can
/// carry.
pub(super) fn render(message: &Message) -> std::result::Result<HeaderMap, PublishError> {
    let mut request = Request::default();
    request.add(WEBHOOK_ID, &webhook_id(message))?;
    request.add(ID, message.id())?;
    request.add(SOURCE, message.source())?;
    request.add(TOPIC, message.topic())?;
    if let Some(key) = message.key() {
        request.add(KEY, key)?;
    }
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for (name, value) in message.headers().iter() {
        let lower = name.to_ascii_lowercase();
        if is_plain(&lower) && !is_reserved(&lower) && taken.insert(lower.clone()) {
            request.add(&lower, value)?;
            names.push(name);
        } else {
            request.add(&format!("{OTHER}{}", hexadecimal(name)), value)?;
        }
    }
    if !names.is_empty() {
        request.add(NAMES, &names.join(" "))?;
    }
    if !request.encoded.is_empty() {
        let encoded = request.encoded.join(" ");
        request.add(ENCODED, &encoded)?;
    }
    request.headers.entry(CONTENT_TYPE).or_insert(OCTETS);
    Ok(request.headers)
}

#[derive(Default)]
struct Request {
    headers: HeaderMap,
    encoded: Vec<String>,
}

impl Request {
    fn add(&mut self, name: &str, value: &str) -> std::result::Result<(), PublishError> {
        let refused = || PublishError::permanent("its headers do not fit into an HTTP request");
        let carried = encode_value(value);
        if let Cow::Owned(_) = carried {
            self.encoded.push(name.to_owned());
        }
        let name = HeaderName::try_from(name).map_err(|_| refused())?;
        let value = HeaderValue::try_from(&*carried).map_err(|_| refused())?;
        self.headers.try_append(name, value).map_err(|_| refused())?;
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Encodes a value where HTTP would change or refuse it; borrowed where it stays as it is.
fn encode_value(value: &str) -> Cow<'_, str> {
    let inner = value.trim_matches(' ');
    let printable = |c: char| c.is_ascii_graphic() || c == ' ';
    if inner.len() == value.len() && value.chars().all(printable) {
        return Cow::Borrowed(value);
    }
    let start = value.len() - value.trim_start_matches(' ').len();
    let end = start + inner.len();
    let mut encoded = String::with_capacity(value.len() + 16);
    for (at, character) in value.char_indices() {
        if character == '%' || !printable(character) || at < start || at >= end {
            percent::push(&mut encoded, character);
        } else {
            encoded.push(character);
        }
    }
    Cow::Owned(encoded)
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Option<String> {
    let digits: Vec<char> = text.chars().collect();
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    String::from_utf8(bytes?).ok()
}

/// Reads a request of a Sendoff publisher back to the message that was sent. Headers that somebody
/// on the way has added are left out; the due time is not carried. It does not check the signature.
///
/// # Errors
/// [`ErrorKind::Corrupt`] where it is not the request of a Sendoff publisher.
pub fn read_delivery(headers: &HeaderMap, body: impl Into<Bytes>) -> Result<Message> {
    let raw = |name: &str| -> Result<Option<&str>> {
        headers
            .get(name)
            .map(|value| value.to_str().map_err(|_| corrupt(format!("{name} is not ASCII"))))
            .transpose()
    };
    let encoded: HashSet<&str> = raw(ENCODED)?.unwrap_or_default().split(' ').collect();
    let value = |name: &str| -> Result<Option<String>> {
        let Some(value) = raw(name)? else {
            return Ok(None);
        };
        if !encoded.contains(name) {
            return Ok(Some(value.to_owned()));
        }
        percent::decode(value)
            .map(|value| Some(value.into_owned()))
            .ok_or_else(|| corrupt(format!("the header {name} does not decode")))
    };
    let needed =
        |name: &str| value(name)?.ok_or_else(|| corrupt(format!("there is no header {name}")));
    let mut own = Headers::new();
    for name in raw(NAMES)?.unwrap_or_default().split(' ').filter(|name| !name.is_empty()) {
        own.set(name, needed(&name.to_ascii_lowercase())?);
    }
    for name in headers.keys() {
        if let Some(digits) = name.as_str().strip_prefix(OTHER) {
            let decoded = from_hexadecimal(digits)
                .ok_or_else(|| corrupt("a header's name does not decode"))?;
            own.set(decoded, needed(name.as_str())?);
        }
    }
    let mut message = Message::builder(needed(SOURCE)?, needed(TOPIC)?)
        .id(needed(ID)?)
        .headers(own)
        .body(body)
        .limits(Limits::UNBOUNDED);
    if let Some(key) = value(KEY)? {
        message = message.key(key);
    }
    let message = message.build()?;
    if raw(WEBHOOK_ID)? != Some(&webhook_id(&message)) {
        return Err(corrupt("webhook-id is not that of source and id"));
    }
    Ok(message)
}

fn corrupt(detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, "reading a delivery").detail(detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sendoff_core::Message;

    use super::{read_delivery, render, webhook_id};

    fn tricky() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("Webhook-Id".to_owned()),
            Just("Content-Type".to_owned()),
            Just("content-length".to_owned()),
            Just(" ".to_owned()),
            Just("%20".to_owned()),
            Just(".1".to_owned()),
            Just("sendoff-header-61".to_owned()),
            "[ -~]{0,6}",
            "\\PC{0,6}",
        ]
    }

    fn name() -> impl Strategy<Value = String> {
        (tricky(), tricky(), "[a-zA-Z]?")
            .prop_map(|(a, b, c)| format!("{a}{c}{b}").replace([':', ' '], "-"))
            .prop_filter("white space is refused before", |n| {
                !n.is_empty() && !n.contains(|c: char| c.is_whitespace() || c.is_control())
            })
    }

    prop_compose! {
        fn message()(
            id in (tricky(), tricky()),
            source in (tricky(), tricky()),
            key in proptest::option::of("(?s).{0,6}"),
            headers in proptest::collection::btree_map(name(), "[^\0\r\n]{0,8}| %a|x\t|a, b", 0..4),
            body in proptest::collection::vec(any::<u8>(), 0..16),
        ) -> Message {
            let mut message = Message::builder(format!("{}s{}", source.0, source.1), "t")
                .id(format!("{}i{}", id.0, id.1))
                .headers(headers.into_iter().collect())
                .body(body);
            if let Some(key) = key {
                message = message.key(key.replace('\0', ""));
            }
            message.build().expect("the strategies keep the rules")
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_message_comes_back_from_its_request(message in message()) {
            let headers = render(&message).unwrap();
            prop_assert_eq!(read_delivery(&headers, message.body().clone()).unwrap(), message);
        }

        #[test]
        fn what_is_added_on_the_way_is_left_out(message in message()) {
            let mut headers = render(&message).unwrap();
            for name in ["via", "x-added-by-a-proxy", "x-forwarded-for"] {
                if !headers.contains_key(name) {
                    headers.insert(name, "proxy".parse().unwrap());
                }
            }
            prop_assert_eq!(read_delivery(&headers, message.body().clone()).unwrap(), message);
        }

        #[test]
        fn every_header_stands_once_and_is_printable(message in message()) {
            let headers = render(&message).unwrap();
            for name in headers.keys() {
                prop_assert_eq!(headers.get_all(name).iter().count(), 1, "{}", name);
                let value = headers[name].to_str().unwrap();
                prop_assert_eq!(value.trim(), value);
                prop_assert!(value.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{}", value);
            }
        }

        #[test]
        fn an_id_has_no_dot_and_no_two_messages_share_one(one in message(), other in message()) {
            prop_assert!(!webhook_id(&one).contains(['.', ' ']));
            prop_assert_eq!(
                webhook_id(&one) == webhook_id(&other),
                (one.source(), one.id()) == (other.source(), other.id())
            );
        }
    }

    #[test]
    fn a_messages_own_headers_cannot_forge_what_frames_routes_or_authorizes_the_request() {
        let mut message = Message::builder("my.shop", "t").id("1");
        for name in [
            "Host",
            "content-length",
            "Transfer-Encoding",
            "webhook-id",
            "Webhook-Signature",
            "sendoff-id",
            "Authorization",
            "Cookie",
            "Connection",
            "X-Forwarded-For",
            "X-HTTP-Method-Override",
            "proxy-authorization",
        ] {
            message = message.header(name, "forged");
        }
        let message =
            message.header("Content-Type", "text/plain").header("X-Own", "1").build().unwrap();
        let headers = render(&message).unwrap();
        for (name, value) in &headers {
            assert!(value != "forged" || name.as_str().starts_with("sendoff-header-"), "{name}");
        }
        assert_eq!(headers["webhook-id"], "my%2Eshop/1");
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(headers["sendoff-headers"], "Content-Type X-Own");
        assert_eq!(headers["sendoff-header-486f7374"], "forged");
        assert_eq!(read_delivery(&headers, "").unwrap(), message);
    }

    #[test]
    fn what_http_can_carry_is_carried_as_it_is() {
        let message = Message::builder("shop", "t")
            .id("order-1")
            .header("x-url", "https://a/b%20c")
            .header("x-name", "Zo\u{eb}")
            .build()
            .unwrap();
        let headers = render(&message).unwrap();
        assert_eq!(headers["webhook-id"], "shop/order-1");
        assert_eq!(headers["x-url"], "https://a/b%20c");
        assert_eq!(headers["x-name"], "Zo%C3%AB");
        assert_eq!(headers["sendoff-encoded"], "x-name");
        assert_eq!(headers["content-type"], "application/octet-stream");
    }

    #[test]
    fn what_is_no_delivery_is_refused() {
        let message = Message::builder("shop", "t").id("1").header("x", "y").build().unwrap();
        let whole = render(&message).unwrap();
        for missing in ["webhook-id", "sendoff-id", "sendoff-source", "sendoff-topic", "x"] {
            let mut headers = whole.clone();
            headers.remove(missing);
            assert!(read_delivery(&headers, "").is_err(), "{missing}");
        }
        for (name, value) in [
            ("webhook-id", "other"),
            ("sendoff-encoded", "sendoff-id x"),
            ("sendoff-header-6", "x"),
            ("sendoff-header-zz", "x"),
        ] {
            let mut headers = whole.clone();
            headers.insert(name, value.parse().unwrap());
            headers.insert("x", "%".parse().unwrap());
            assert!(read_delivery(&headers, "").is_err(), "{name}");
        }
    }
}
