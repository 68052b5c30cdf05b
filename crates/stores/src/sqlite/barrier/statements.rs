//! The seam: a statement with values, and the rows that it gives.

use sendoff_core::barrier::MemberName;
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, ErrorKind, Result};

/// A value of SQLite's.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn maybe(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    pub(super) fn time(time: Timestamp) -> Self {
        Self::Integer(time.as_microsecond())
    }

    pub(super) fn maybe_time(time: Option<Timestamp>) -> Self {
        time.map_or(Self::Null, Self::time)
    }

    pub(super) fn bool(value: bool) -> Self {
        Self::Integer(i64::from(value))
    }

    pub(super) fn count(count: u64) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// What a driver does. Statements are the store's own and kept prepared.
pub(super) trait Statements {
    /// The driver's error.
    type Error;

    /// Runs a statement and gives its rows.
    async fn query(
        &mut self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<Fields>, Self::Error>;

    /// Runs a statement and gives how many rows it changed.
    async fn execute(&mut self, sql: &'static str, values: Vec<Value>) -> Result<u64, Self::Error>;

    /// The driver's error for one that is not the driver's.
    fn unexpected(error: Error) -> Self::Error;
}

/// A row, whose values are taken one after the other.
#[derive(Debug)]
pub(super) struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    pub(super) fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    fn next(&mut self) -> Value {
        self.0.next().unwrap_or(Value::Null)
    }

    pub(super) fn integer(&mut self) -> Result<i64> {
        self.maybe_integer()?.ok_or_else(|| odd("a number is missing"))
    }

    pub(super) fn maybe_integer(&mut self) -> Result<Option<i64>> {
        match self.next() {
            Value::Integer(number) => Ok(Some(number)),
            Value::Null => Ok(None),
            _ => Err(odd("a number is none")),
        }
    }

    /// A count, which is not below nothing.
    pub(super) fn count(&mut self) -> Result<u64> {
        Ok(u64::try_from(self.integer()?).unwrap_or(0))
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        Ok(self.integer()? != 0)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        self.maybe_text()?.ok_or_else(|| odd("a text is missing"))
    }

    pub(super) fn maybe_text(&mut self) -> Result<Option<String>> {
        match self.next() {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            _ => Err(odd("a text is none")),
        }
    }

    pub(super) fn name(&mut self) -> Result<MemberName> {
        self.maybe_name()?.ok_or_else(|| odd("a member's name is missing"))
    }

    pub(super) fn maybe_name(&mut self) -> Result<Option<MemberName>> {
        match self.next() {
            Value::Blob(bytes) => MemberName::new(bytes).map(Some),
            Value::Null => Ok(None),
            _ => Err(odd("a member's name is none")),
        }
    }

    pub(super) fn time(&mut self) -> Result<Timestamp> {
        self.maybe_time()?.ok_or_else(|| odd("a time is missing"))
    }

    pub(super) fn maybe_time(&mut self) -> Result<Option<Timestamp>> {
        let micros = self.maybe_integer()?;
        micros
            .map(|micros| Timestamp::from_microsecond(micros).map_err(|_| odd("a time is none")))
            .transpose()
    }
}

/// A stored row is not what the store writes.
pub(super) fn odd(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, "reading a barrier").detail(what.into())
}
