//! One error for the whole product: what happened, during which operation, to what, and what to do.
//!
//! An [`Error`] never carries a password or a message body: whoever builds one puts names, ids and
//! redacted addresses into its context. One table ([`ErrorKind::retry`]) says for each kind whether
//! to try again.

use std::fmt;

/// The result of an operation that fails with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What happened. The kinds are few, so that a caller can match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input is not acceptable: a malformed URL, a header with a line feed, an empty topic.
    Invalid,
    /// The input is over a limit. Nothing was sent to the database.
    TooLarge,
    /// The pair of source and id is in the outbox already, or was within the horizon.
    Duplicate,
    /// What was asked for is not there.
    NotFound,
    /// The database, the broker or the file cannot be reached now.
    Unreachable,
    /// An answer did not come in time. The outcome is unknown.
    Timeout,
    /// The database asked for the transaction to be run again (deadlock, serialization, busy).
    Conflict,
    /// The database or the file accepts no writes.
    ReadOnly,
    /// There is no space left where the data is.
    DiskFull,
    /// Permission denied.
    Denied,
    /// The store has no schema of ours, or an older one than this program needs.
    SchemaMissing,
    /// The store's schema is newer than this program knows.
    SchemaTooNew,
    /// The store was migrated with another text of a migration than this program has.
    SchemaChanged,
    /// Another process holds what may have one holder only.
    Locked,
    /// Stored data does not decode.
    Corrupt,
    /// Anything else; the source says more.
    Unexpected,
}

/// Whether an operation that failed is worth trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again at once, a bounded number of times.
    Now,
    /// Try again after a wait.
    Later,
    /// Trying again changes nothing until somebody changes something.
    Never,
}

impl ErrorKind {
    /// The one table of what each kind means for a retry.
    #[must_use]
    pub fn retry(self) -> Retry {
        match self {
            Self::Conflict => Retry::Now,
            Self::Unreachable
            | Self::Timeout
            | Self::ReadOnly
            | Self::DiskFull
            | Self::Locked
            | Self::SchemaMissing
            | Self::Unexpected => Retry::Later,
            Self::Invalid
            | Self::TooLarge
            | Self::Duplicate
            | Self::NotFound
            | Self::Denied
            | Self::SchemaTooNew
            | Self::SchemaChanged
            | Self::Corrupt => Retry::Never,
        }
    }

    /// The kind as a stable word for `--json` and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::Duplicate => "duplicate",
            Self::NotFound => "not_found",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Conflict => "conflict",
            Self::ReadOnly => "read_only",
            Self::DiskFull => "disk_full",
            Self::Denied => "denied",
            Self::SchemaMissing => "schema_missing",
            Self::SchemaTooNew => "schema_too_new",
            Self::SchemaChanged => "schema_changed",
            Self::Locked => "locked",
            Self::Corrupt => "corrupt",
            Self::Unexpected => "unexpected",
        }
    }

    /// What to do next, where nobody who raised the error knew better.
    fn advice(self) -> Option<&'static str> {
        match self {
            Self::Unreachable => Some("check that the server runs and that the address is right"),
            Self::ReadOnly => {
                Some("the database accepts no writes: is this a standby? use the primary's address")
            }
            Self::DiskFull => Some("free space where the data is kept; nothing was lost"),
            Self::SchemaMissing => Some("run `sendoff migrate` against this store"),
            Self::SchemaTooNew => Some("use a newer sendoff, this store was migrated by one"),
            Self::SchemaChanged => Some(
                "use a release of sendoff as it was published, the one that migrated this store or a \
                 later one",
            ),
            Self::Denied => Some("check the user, its password and its privileges"),
            _ => None,
        }
    }
}

/// An error: kind, operation, subject, advice and source.
///
/// `Display` is one line: what was being done, to what, what happened and what to do next.
///
/// ```
/// use sendoff_core::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::SchemaMissing, "reading the schema version")
///     .subject("sqlite:shop.db")
///     .detail("the table sendoff_schema is not there");
/// assert_eq!(
///     error.to_string(),
///     "reading the schema version of sqlite:shop.db: the table sendoff_schema is not there; \
///      run `sendoff migrate` against this store",
/// );
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    subject: Option<String>,
    detail: Option<String>,
    advice: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` that happened during `operation`, a phrase such as "reading the outbox".
    #[must_use]
    pub fn new(kind: ErrorKind, operation: &'static str) -> Self {
        Self(Box::new(Inner {
            kind,
            operation,
            subject: None,
            detail: None,
            advice: None,
            source: None,
        }))
    }

    /// Bad input: `detail` says what is wrong with it.
    #[must_use]
    pub fn invalid(operation: &'static str, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, operation).detail(detail)
    }

    /// Names what the operation was done to. Never a password, never a body.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.0.subject = Some(subject.into());
        self
    }

    /// Says what happened, where the source does not say it.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Says what to do next, where the kind's own advice is not the best.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Keeps the driver's own error reachable through [`std::error::Error::source`].
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was being done.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// What to do next, if anybody knows.
    #[must_use]
    pub fn what_next(&self) -> Option<&str> {
        self.0.advice.as_deref().or_else(|| self.0.kind.advice())
    }

    /// Whether to try again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.kind.retry()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.operation)?;
        if let Some(subject) = &self.0.subject {
            write!(f, " of {subject}")?;
        }
        match (&self.0.detail, &self.0.source) {
            (Some(detail), Some(source)) => write!(f, ": {detail}: {}", one_line(source.as_ref()))?,
            (Some(detail), None) => write!(f, ": {detail}")?,
            (None, Some(source)) => write!(f, ": {}", one_line(source.as_ref()))?,
            (None, None) => write!(f, ": {}", self.0.kind.as_str())?,
        }
        if let Some(advice) = self.what_next() {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

/// A source and its own sources on one line: drivers hide the server's words one level down.
fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let inner = source.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        next = source.source();
    }
    text.replace(['\n', '\r'], " ")
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("subject", &self.0.subject)
            .field("detail", &self.0.detail)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
