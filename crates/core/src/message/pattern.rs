//! Topics by pattern: how routes and overrides say which messages they are for.

use std::fmt;
use std::str::FromStr;

use super::limits::Limits;
use crate::error::{Error, Result};

/// A pattern of topics, in tokens between dots as NATS subjects have them.
///
/// `*` stands for one token, `>` at the end for one or more; everything else for itself, so that a
/// topic without a wildcard is a pattern of its own.
///
/// ```
/// use sendoff_core::message::TopicPattern;
/// let placed: TopicPattern = "orders.*.placed".parse()?;
/// assert!(placed.matches("orders.eu.placed"));
/// assert!(!placed.matches("orders.eu.north.placed"));
/// let orders: TopicPattern = "orders.>".parse()?;
/// assert!(orders.matches("orders.eu.north.placed"));
/// assert!(!orders.matches("orders"));
/// # Ok::<(), sendoff_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TopicPattern(Box<str>);

impl TopicPattern {
    /// The pattern of every topic.
    #[must_use]
    pub fn any() -> Self {
        Self(">".into())
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a topic is one of the pattern's.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        let mut tokens = topic.split('.');
        for wanted in self.0.split('.') {
            match (wanted, tokens.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(token)) if wanted == token => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }
}

impl FromStr for TopicPattern {
    type Err = Error;

    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a pattern that is empty, longer than a topic may be, or has
    /// a `>` before its end.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::invalid("reading a topic pattern", why).subject(format!("`{text}`")))
        };
        if text.is_empty() || text.len() > Limits::NAME_BYTES_MAX {
            return refuse("it has to be 1 to 255 bytes long");
        }
        let before = text.strip_suffix(".>").or_else(|| text.strip_suffix('>')).unwrap_or(text);
        if before.split('.').any(|token| token == ">") {
            return refuse("`>` stands for the rest and has to be the last token");
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicPattern({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::TopicPattern;

    fn matches(pattern: &str, topic: &str) -> bool {
        pattern.parse::<TopicPattern>().unwrap().matches(topic)
    }

    #[test]
    fn a_topic_is_a_pattern_of_its_own() {
        assert!(matches("orders.placed", "orders.placed"));
        assert!(!matches("orders.placed", "orders.placed.eu"));
        assert!(!matches("orders.placed", "orders"));
        assert!(!matches("orders.placed", "Orders.placed"));
    }

    #[test]
    fn wildcards_stand_for_whole_tokens() {
        assert!(matches("*.placed", "orders.placed"));
        assert!(matches("*", "orders"));
        assert!(matches("*.placed", ".placed"));
        assert!(!matches("ord*", "orders"));
        assert!(matches("orders.>", "orders.eu"));
        assert!(matches(">", "a") && matches(">", "a.b.c") && matches(">", "x y"));
        assert!(!matches("orders.>", "orders"));
        assert_eq!(TopicPattern::any(), ">".parse().unwrap());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in ["", "a.>.b", ">.a", &"x".repeat(256)] {
            assert!(text.parse::<TopicPattern>().is_err(), "{text}");
        }
    }
}
