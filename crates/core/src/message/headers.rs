//! A message's headers: names with values, in the order of their names.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::message::limits::Limits;

/// Headers of a message. A name stands once; the values are text.
///
/// In a store, headers are one JSON object of strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// No headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a header; an earlier value of the same name is replaced.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// The value of a header, by its exact name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many headers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers as a store keeps them: a JSON object of strings.
    #[must_use]
    pub fn to_json(&self) -> String {
        if self.0.is_empty() {
            return "{}".to_owned();
        }
        serde_json::Value::from_iter(self.0.iter().map(|(n, v)| (n.as_str(), v.as_str())))
            .to_string()
    }

    /// Reads headers from what a store kept.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when it is not a JSON object of strings, or breaks a rule of
    /// [`Headers::check`].
    pub fn from_json(json: &[u8]) -> Result<Self> {
        if json == b"{}" {
            return Ok(Self::default());
        }
        let corrupt =
            |detail: String| Error::new(ErrorKind::Corrupt, "decoding the headers").detail(detail);
        // The parser's own message is not passed on: it can quote a value.
        let read: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(json)
            .map_err(|_| corrupt("they are not a JSON object".to_owned()))?;
        let mut headers = Self::default();
        for (name, value) in read {
            let serde_json::Value::String(value) = value else {
                return Err(corrupt(format!("the value of {name:?} is not a string")));
            };
            headers.0.insert(name, value);
        }
        headers.check(&Limits::UNBOUNDED).map_err(|error| corrupt(error.to_string()))?;
        Ok(headers)
    }

    /// The size that counts against [`Limits::headers_bytes_max`]: names and values, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Checks every rule: a name is not empty and has no white space, colon or control character;
    /// a value has no NUL, carriage return or line feed (it would end a header on most wires).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] names the header; [`ErrorKind::TooLarge`] names the limit.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        const DOING: &str = "checking the headers";
        for (name, value) in &self.0 {
            if name.is_empty()
                || name.chars().any(|c| c == ':' || c.is_whitespace() || c.is_control())
            {
                return Err(Error::invalid(
                    DOING,
                    format!(
                        "the name {name:?} is empty or has white space, a colon or a control character"
                    ),
                ));
            }
            if value.contains(['\0', '\r', '\n']) {
                return Err(Error::invalid(
                    DOING,
                    format!("the value of {name:?} has a NUL, a carriage return or a line feed"),
                ));
            }
        }
        let size = self.size_bytes();
        if size > limits.headers_bytes_max {
            return Err(Error::new(ErrorKind::TooLarge, DOING).detail(format!(
                "they have {size} bytes, the limit is {}",
                limits.headers_bytes_max
            )));
        }
        Ok(())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
