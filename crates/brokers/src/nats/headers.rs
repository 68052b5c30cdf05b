//! From a message to NATS headers and back. The rule stands in [`crate::nats`].
//!
//! Two things about the server decide it. It skips spaces before a value, so a source that begins
//! with one would share its `Nats-Msg-Id` with another. And it looks for the text `Nats-Msg-Id`
//! in all headers and gives up where the first find is not the header itself (seen on 2.9.10), so
//! that text must not stand in any other name or value.

use std::borrow::Cow;

use async_nats::header::IntoHeaderName;
use async_nats::{HeaderMap, HeaderName};
use sendoff_core::{Error, ErrorKind, Headers, Message, Result};

use crate::percent;

const MSG_ID: &str = "Nats-Msg-Id";
const ID: &str = "Sendoff-Id";
const SOURCE: &str = "Sendoff-Source";
const TOPIC: &str = "Sendoff-Topic";
const KEY: &str = "Sendoff-Key";
const ENCODED: &str = "Sendoff-Encoded";

/// The headers of a delivery, names and values in turn, each with a NUL after it: NATS can have
/// none inside.
///
/// One text instead of the client library's map, which takes some twenty allocations: those are
/// better made and freed on one thread, the connection's.
#[derive(Debug)]
pub(crate) struct Packed {
    text: String,
    count: usize,
}

impl Packed {
    /// The headers of a message's delivery.
    pub(crate) fn of(message: &Message) -> Self {
        let mut packed = Self { text: String::with_capacity(192), count: 0 };
        let mut encoded = String::new();
        packed.push(MSG_ID, &msg_id(message));
        packed.carry(ID, message.id(), &mut encoded);
        packed.carry(SOURCE, message.source(), &mut encoded);
        packed.carry(TOPIC, message.topic(), &mut encoded);
        if let Some(key) = message.key() {
            packed.carry(KEY, key, &mut encoded);
        }
        for (name, value) in message.headers().iter() {
            packed.carry(&encode_name(name), value, &mut encoded);
        }
        if !encoded.is_empty() {
            packed.push(ENCODED, &encoded);
        }
        packed
    }

    /// Adds a header; where its value has to be encoded, its name goes to `encoded`.
    fn carry(&mut self, name: &str, value: &str, encoded: &mut String) {
        if can_be_carried(value) {
            return self.push(name, value);
        }
        self.push(name, &encode_value(value));
        if !encoded.is_empty() {
            encoded.push(' ');
        }
        encoded.push_str(name);
    }

    fn push(&mut self, name: &str, value: &str) {
        self.count += 1;
        for part in [name, value] {
            self.text.push_str(part);
            self.text.push('\0');
        }
    }

    /// How many bytes the headers have on the wire: what counts, with the body, against the
    /// server's `max_payload`.
    pub(crate) fn wire_bytes(&self) -> usize {
        // `Name: value\r\n` has two bytes more than name and value with a NUL each.
        "NATS/1.0\r\n\r\n".len() + self.text.len() + 2 * self.count
    }

    /// The headers as the client library takes them.
    pub(crate) fn unpack(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut parts = self.text.split('\0');
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            headers.insert(header_name(name), value);
        }
        headers
    }
}

/// A name, without an allocation where it is one of the contract's.
fn header_name(name: &str) -> HeaderName {
    static MADE: [(&str, HeaderName); 5] = [
        (MSG_ID, HeaderName::from_static(MSG_ID)),
        (ID, HeaderName::from_static(ID)),
        (SOURCE, HeaderName::from_static(SOURCE)),
        (TOPIC, HeaderName::from_static(TOPIC)),
        (KEY, HeaderName::from_static(KEY)),
    ];
    match MADE.iter().find(|(made, _)| *made == name) {
        Some((_, made)) => made.clone(),
        None => name.into_header_name(),
    }
}

/// The dedup id; where it begins or ends with white space it stands in `%(` and `)`, with which no
/// dedup id begins.
fn msg_id(message: &Message) -> String {
    let dedup_id = message.dedup_id();
    if dedup_id.trim().len() == dedup_id.len() { dedup_id } else { format!("%({dedup_id})") }
}

fn can_be_carried(value: &str) -> bool {
    value.trim().len() == value.len()
        && !value.contains(char::is_control)
        && !value.contains(MSG_ID)
}

/// Control characters, the `%`, white space at the ends and the `N` of `Nats-Msg-Id` are encoded.
fn encode_value(value: &str) -> String {
    let inner = value.trim_start();
    let start = value.len() - inner.len();
    let end = start + inner.trim_end().len();
    let mut encoded = String::with_capacity(value.len() + 16);
    for (at, character) in value.char_indices() {
        if character == '%'
            || character.is_control()
            || at < start
            || at >= end
            || value[at..].starts_with(MSG_ID)
        {
            percent::push(&mut encoded, character);
        } else {
            encoded.push(character);
        }
    }
    encoded
}

/// What is not printable ASCII and the `%` are encoded, and so is the first character of a name
/// that only the contract may use (it begins with `Nats-` or `Sendoff-`, in any case) and the `N`
/// of `Nats-Msg-Id` anywhere.
fn encode_name(name: &str) -> Cow<'_, str> {
    let reserved = ["nats-", "sendoff-"].iter().any(|prefix| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    });
    if !reserved && !name.contains(MSG_ID) {
        return percent::encode(name, name_needs_encoding);
    }
    let mut encoded = String::with_capacity(name.len() + 8);
    for (at, character) in name.char_indices() {
        if (reserved && at == 0) || name[at..].starts_with(MSG_ID) || name_needs_encoding(character)
        {
            percent::push(&mut encoded, character);
        } else {
            encoded.push(character);
        }
    }
    Cow::Owned(encoded)
}

fn name_needs_encoding(character: char) -> bool {
    character == '%' || !character.is_ascii_graphic()
}

/// No headers of this message can have more bytes than this, cheaply.
pub(crate) fn wire_bytes_bound(message: &Message) -> usize {
    const CONTRACT: usize = 160;
    let own = message.size_bytes() - message.body().len();
    // Three bytes for one, the names once more in `Sendoff-Encoded`, id and source in two headers.
    let names: usize = message.headers().iter().map(|(name, _)| name.len() + 6).sum();
    CONTRACT + 6 * own + 4 * names
}

/// Reads a delivery from JetStream back to the message that was sent. The due time is not carried.
///
/// # Errors
/// [`ErrorKind::Corrupt`] where the delivery is not one of a Sendoff publisher.
pub fn read_delivery(delivery: &async_nats::Message) -> Result<Message> {
    let none = HeaderMap::new();
    let headers = delivery.headers.as_ref().unwrap_or(&none);
    let encoded: Vec<&str> =
        headers.get(ENCODED).map(|names| names.as_str().split(' ').collect()).unwrap_or_default();
    let value = |name: &str| -> Result<Option<String>> {
        let Some(value) = headers.get(name) else {
            return Ok(None);
        };
        if !encoded.contains(&name) {
            return Ok(Some(value.as_str().to_owned()));
        }
        percent::decode(value.as_str())
            .map(|value| Some(value.into_owned()))
            .ok_or_else(|| corrupt(format!("the header {name} does not decode")))
    };
    let needed =
        |name: &str| value(name)?.ok_or_else(|| corrupt(format!("there is no header {name}")));
    let mut own = Headers::new();
    for (name, _) in headers.iter() {
        let name: &str = name.as_ref();
        if [MSG_ID, ID, SOURCE, TOPIC, KEY, ENCODED].contains(&name) {
            continue;
        }
        let decoded =
            percent::decode(name).ok_or_else(|| corrupt("a header's name does not decode"))?;
        own.set(decoded, value(name)?.unwrap_or_default());
    }
    let mut message = Message::builder(needed(SOURCE)?, needed(TOPIC)?)
        .id(needed(ID)?)
        .headers(own)
        .body(delivery.payload.clone())
        .limits(sendoff_core::Limits::UNBOUNDED);
    if let Some(key) = value(KEY)? {
        message = message.key(key);
    }
    let message = message.build()?;
    if headers.get(MSG_ID).map(async_nats::HeaderValue::as_str) != Some(&msg_id(&message)) {
        return Err(corrupt("Nats-Msg-Id is not that of source and id"));
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

    use super::{Packed, encode_name, msg_id, read_delivery, wire_bytes_bound};
    use crate::nats::subject::subject_of;

    fn delivery(message: &Message) -> async_nats::Message {
        async_nats::Message {
            subject: subject_of("P", message.topic()).into(),
            reply: None,
            payload: message.body().clone(),
            headers: Some(Packed::of(message).unpack()),
            status: None,
            description: None,
            length: 0,
        }
    }

    fn tricky() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("Nats-Msg-Id".to_owned()),
            Just(" ".to_owned()),
            Just("%20".to_owned()),
            Just("%(a/b)".to_owned()),
            Just("sendoff-".to_owned()),
            "[ -~]{0,6}",
            "\\PC{0,6}",
        ]
        .prop_map(|part| part)
    }

    fn name() -> impl Strategy<Value = String> {
        (tricky(), tricky(), "[a-zA-Z]")
            .prop_map(|(a, b, c)| format!("{a}{c}{b}").replace([':', ' '], "-"))
            .prop_filter("white space is refused before", |n| {
                !n.contains(|c: char| c.is_whitespace() || c.is_control())
            })
    }

    prop_compose! {
        fn message()(
            id in (tricky(), tricky()),
            source in (tricky(), tricky()),
            key in proptest::option::of("(?s).{0,6}"),
            headers in proptest::collection::btree_map(name(), "[^\0\r\n]{0,8}| %a|x\t|Nats-Msg-Id", 0..4),
        ) -> Message {
            let mut message = Message::builder(format!("{}s{}", source.0, source.1), "t")
                .id(format!("{}i{}", id.0, id.1))
                .headers(headers.into_iter().collect());
            if let Some(key) = key {
                message = message.key(key.replace('\0', ""));
            }
            message.build().expect("the strategies keep the rules")
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_message_comes_back_from_its_headers(message in message()) {
            prop_assert_eq!(read_delivery(&delivery(&message)).unwrap(), message);
        }

        #[test]
        fn nothing_that_nats_would_change_is_in_a_header(message in message()) {
            let headers = Packed::of(&message).unpack();
            for (name, values) in headers.iter() {
                let name: &str = name.as_ref();
                prop_assert!(name.chars().all(|c| c.is_ascii_graphic() && c != ':'), "{}", name);
                prop_assert_eq!(values.len(), 1);
                let value = values[0].as_str();
                prop_assert_eq!(value.trim(), value);
                prop_assert!(!value.contains(char::is_control));
                if name != "Nats-Msg-Id" {
                    prop_assert!(!name.contains("Nats-Msg-Id"));
                    prop_assert!(!value.contains("Nats-Msg-Id"));
                }
            }
        }

        #[test]
        fn the_bytes_on_the_wire_are_known_and_bounded(message in message()) {
            let packed = Packed::of(&message);
            // As the client library writes them.
            let written: usize = packed
                .unpack()
                .iter()
                .flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
                .map(|(name, value)| format!("{name}: {value}\r\n").len())
                .sum();
            prop_assert_eq!(packed.wire_bytes(), "NATS/1.0\r\n\r\n".len() + written);
            prop_assert!(packed.wire_bytes() <= wire_bytes_bound(&message));
        }

        #[test]
        fn no_two_messages_share_a_msg_id(one in message(), other in message()) {
            prop_assert_eq!(
                msg_id(&one) == msg_id(&other),
                (one.source(), one.id()) == (other.source(), other.id())
            );
        }

        #[test]
        fn no_two_names_become_one(one in name(), other in name()) {
            prop_assert_eq!(encode_name(&one) == encode_name(&other), one == other);
        }
    }

    #[test]
    fn what_nats_can_carry_is_carried_as_it_is() {
        let message = Message::builder("shop", "t")
            .id("1")
            .header("x-url", "https://a/b%20c")
            .header("x-name", "Zo\u{eb} \u{1f980}")
            .build()
            .unwrap();
        let headers = Packed::of(&message).unpack();
        assert_eq!(headers.get("x-url").unwrap().as_str(), "https://a/b%20c");
        assert_eq!(headers.get("x-name").unwrap().as_str(), "Zo\u{eb} \u{1f980}");
        assert!(headers.get("Sendoff-Encoded").is_none());
    }

    #[test]
    fn a_messages_own_headers_cannot_stand_in_for_the_contracts_or_command_the_server() {
        let message = Message::builder("shop", "t")
            .id("1")
            .header("nats-msg-id", "forged")
            .header("Nats-Msg-Id", "forged")
            .header("Nats-Rollup", "all")
            .header("SENDOFF-KEY", "forged")
            .build()
            .unwrap();
        let headers = Packed::of(&message).unpack();
        assert_eq!(headers.get("Nats-Msg-Id").unwrap().as_str(), "shop/1");
        assert_eq!(headers.get("%4Eats-Rollup").unwrap().as_str(), "all");
        assert!(headers.get("Nats-Rollup").is_none());
        assert!(headers.get("SENDOFF-KEY").is_none());
        assert_eq!(read_delivery(&delivery(&message)).unwrap(), message);
    }
}
