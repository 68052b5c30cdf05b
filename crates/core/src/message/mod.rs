//! The message: what a step sends.
//!
//! A [`Message`] that exists is valid: it can only be made by [`MessageBuilder::build`], which
//! refuses what is over a limit or malformed before any SQL is sent.

mod headers;
mod limits;
mod names;
mod pattern;
#[cfg(feature = "opentelemetry")]
pub(crate) mod trace_context;

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

pub use headers::Headers;
pub use limits::Limits;
pub use pattern::TopicPattern;

use names::Names;

use crate::error::{Error, ErrorKind, Result};
use crate::time::Timestamp;

/// Topics with this prefix are the product's own.
pub const RESERVED_PREFIX: &str = "$sendoff.";

/// A message: id, source, topic, optional key, headers, body and optional due time.
///
/// Source and id together name the message in every delivery. The body is bytes and is never
/// re-encoded.
///
/// ```
/// use sendoff_core::Message;
/// let message = Message::builder("shop", "orders.placed")
///     .key("customer-7")
///     .header("content-type", "application/json")
///     .body(r#"{"order":1}"#)
///     .build()?;
/// assert_eq!(message.key(), Some("customer-7"));
/// # Ok::<(), sendoff_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    names: Names,
    headers: Headers,
    body: Bytes,
    due_at: Option<Timestamp>,
}

/// What a store kept of a message, for [`Message::restore`].
#[derive(Debug)]
pub struct StoredMessage<'a> {
    /// The id.
    pub id: &'a str,
    /// The source.
    pub source: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The key.
    pub key: Option<&'a str>,
    /// The headers.
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
    /// The due time.
    pub due_at: Option<Timestamp>,
}

impl fmt::Debug for Message {
    /// Names only: a body or a header's value does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("source", &self.source())
            .field("id", &self.id())
            .field("topic", &self.topic())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl Message {
    /// Begins a message from `source` to `topic`. Its id is a new UUID (version 7).
    pub fn builder(source: impl Into<String>, topic: impl Into<String>) -> MessageBuilder {
        MessageBuilder {
            id: None,
            source: source.into(),
            topic: topic.into(),
            key: None,
            headers: Headers::new(),
            body: Bytes::new(),
            due_at: None,
            limits: Limits::default(),
            reserved: false,
            #[cfg(feature = "opentelemetry")]
            traced: false,
        }
    }

    /// The same message with other headers, which are as valid.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn with_headers(&self, headers: Headers) -> Self {
        Self { headers, ..self.clone() }
    }

    /// The message that a store kept. There is no limit on its body and its headers.
    ///
    /// # Errors
    /// Those of [`MessageBuilder::build`], where another program wrote what is none.
    pub fn restore(stored: StoredMessage<'_>) -> Result<Self> {
        Self::checked(stored, Limits::UNBOUNDED)
    }

    fn checked(parts: StoredMessage<'_>, limits: Limits) -> Result<Self> {
        let StoredMessage { id, source, topic, key, headers, body, due_at } = parts;
        check_name("id", id, Limits::NAME_BYTES_MAX)?;
        check_name("source", source, Limits::NAME_BYTES_MAX)?;
        check_name("topic", topic, Limits::NAME_BYTES_MAX)?;
        if let Some(key) = key {
            check_key(key)?;
        }
        headers.check(&limits)?;
        if body.len() > limits.body_bytes_max {
            return Err(Error::new(ErrorKind::TooLarge, DOING).detail(format!(
                "the body has {} bytes, the limit is {}",
                body.len(),
                limits.body_bytes_max
            )));
        }
        Ok(Self { names: Names::new(id, source, topic, key), headers, body, due_at })
    }

    /// The id, unique together with the source.
    #[must_use]
    pub fn id(&self) -> &str {
        self.names.id()
    }

    /// Who sends: the service's own name.
    #[must_use]
    pub fn source(&self) -> &str {
        self.names.source()
    }

    /// Where to. Each publisher documents how it turns a topic into a subject, queue or file.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.names.topic()
    }

    /// Messages of one key are first delivered in the order of their sends.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.names.key()
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Not before this time, by the database's clock.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        self.due_at
    }

    /// The id that every delivery carries for deduplication: source and id, encoded so that no two
    /// pairs give the same text. In the source, `%` becomes `%25` and `/` becomes `%2F`; then come
    /// a `/` and the id as it is.
    ///
    /// ```
    /// use sendoff_core::Message;
    /// let one = Message::builder("a/b", "t").id("c").build()?;
    /// let other = Message::builder("a", "t").id("b/c").build()?;
    /// assert_eq!(one.dedup_id(), "a%2Fb/c");
    /// assert_eq!(other.dedup_id(), "a/b/c");
    /// # Ok::<(), sendoff_core::Error>(())
    /// ```
    #[must_use]
    pub fn dedup_id(&self) -> String {
        let (source, id) = (self.source(), self.id());
        let mut encoded = String::with_capacity(source.len() + 1 + id.len());
        if source.contains(['%', '/']) {
            for character in source.chars() {
                match character {
                    '%' => encoded.push_str("%25"),
                    '/' => encoded.push_str("%2F"),
                    other => encoded.push(other),
                }
            }
        } else {
            encoded.push_str(source);
        }
        encoded.push('/');
        encoded.push_str(id);
        encoded
    }

    /// Whether the topic is the product's own: the relay runs such a message itself, as an errand of
    /// the store's, and publishes it nowhere.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.topic().starts_with(RESERVED_PREFIX)
    }

    /// What the message weighs in memory, for bounds: body, headers and names, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.body.len() + self.headers.size_bytes() + self.names.size_bytes()
    }
}

/// Builds a [`Message`]. Nothing is checked before [`MessageBuilder::build`].
#[derive(Debug, Clone)]
#[must_use = "a message is built by `build` and sent by an outbox"]
pub struct MessageBuilder {
    id: Option<String>,
    source: String,
    topic: String,
    key: Option<String>,
    headers: Headers,
    body: Bytes,
    due_at: Option<Timestamp>,
    limits: Limits,
    reserved: bool,
    /// The span that is current when it is built goes into the headers.
    #[cfg(feature = "opentelemetry")]
    traced: bool,
}

impl MessageBuilder {
    /// An id of the caller's own, so that a retried request sends the same message.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The key whose messages keep their order.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets a header; an earlier value of the same name is replaced.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Sets all headers at once.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// The body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Not to be delivered before `due_at`, by the database's clock.
    pub fn due_at(mut self, due_at: Timestamp) -> Self {
        self.due_at = Some(due_at);
        self
    }

    /// Other limits than [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Allows a topic of the product's own: for errands.
    pub fn reserved(mut self) -> Self {
        self.reserved = true;
        self
    }

    /// With the context of the span that is current when the message is built.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn traced(mut self) -> Self {
        self.traced = true;
        self
    }

    #[cfg(not(feature = "opentelemetry"))]
    pub(crate) fn traced(self) -> Self {
        self
    }

    /// Checks and gives the message.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where a limit is passed, and [`ErrorKind::Invalid`] where a name is
    /// empty, has a control character, a topic begins with [`RESERVED_PREFIX`], or a header breaks a
    /// rule of [`Headers::check`].
    pub fn build(self) -> Result<Message> {
        #[cfg(feature = "opentelemetry")]
        let this = self.with_current_span();
        #[cfg(not(feature = "opentelemetry"))]
        let this = self;
        this.checked()
    }

    #[cfg(feature = "opentelemetry")]
    fn with_current_span(mut self) -> Self {
        if self.traced {
            trace_context::add_current(&mut self.headers);
        }
        self
    }

    fn checked(self) -> Result<Message> {
        // Drawn here, not at the start: a builder that is cloned makes messages of their own.
        let id = self.id.unwrap_or_else(|| Uuid::now_v7().to_string());
        let parts = StoredMessage {
            id: &id,
            source: &self.source,
            topic: &self.topic,
            key: self.key.as_deref(),
            headers: self.headers,
            body: self.body,
            due_at: self.due_at,
        };
        let message = Message::checked(parts, self.limits)?;
        if message.is_reserved() && !self.reserved {
            return Err(Error::invalid(
                DOING,
                format!("topics that begin with {RESERVED_PREFIX} are the product's own"),
            ));
        }
        Ok(message)
    }
}

const DOING: &str = "checking a message";

fn check_name(what: &'static str, name: &str, bytes_max: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(DOING, format!("the {what} is empty")));
    }
    // Nearly every name is ASCII, and told by its bytes.
    let plain = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !plain && name.chars().any(char::is_control) {
        return Err(Error::invalid(DOING, format!("the {what} has a control character")));
    }
    check_size(what, name, bytes_max)
}

/// A key may be any text without NUL, the empty text too: it is compared, never parsed.
fn check_key(key: &str) -> Result<()> {
    if key.contains('\0') {
        return Err(Error::invalid(DOING, "the key has a NUL"));
    }
    check_size("key", key, Limits::KEY_BYTES_MAX)
}

fn check_size(what: &'static str, name: &str, bytes_max: usize) -> Result<()> {
    if name.len() > bytes_max {
        return Err(Error::new(ErrorKind::TooLarge, DOING)
            .detail(format!("the {what} has {} bytes, the limit is {bytes_max}", name.len())));
    }
    Ok(())
}
