//! What is kept of published messages, for how long, and how it is sent again.
//!
//! What does not belong here: which messages somebody wants again. See [`super::Resend`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// What becomes of a message once it is published.
///
/// It stands in the database, so that every relay does the same, and so that whoever has only a SQL
/// prompt can see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retention {
    /// It is deleted. What was kept before stays until its time is over.
    #[default]
    DeleteBehind,
    /// It is kept for this long at least, and can be sent again until then.
    KeepFor(Duration),
}

impl Retention {
    /// The shortest time to keep.
    pub const MIN: Duration = Duration::from_secs(60);
    /// The longest time to keep.
    pub const MAX: Duration = Duration::from_secs(3_650 * 86_400);

    /// Whether messages are kept.
    #[must_use]
    pub fn keeps(self) -> bool {
        matches!(self, Self::KeepFor(_))
    }

    /// Checks the time.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] where it is under a minute or over ten years.
    pub fn check(self) -> Result<()> {
        match self {
            Self::KeepFor(time) if time < Self::MIN || time > Self::MAX => Err(Error::invalid(
                "setting the retention",
                "the time to keep has to be between a minute and ten years",
            )
            .advice("to keep nothing, delete behind")),
            _ => Ok(()),
        }
    }
}

/// A kept message's place in the order of the first publishes.
///
/// ```
/// use sendoff_core::store::KeptMark;
/// let mark: KeptMark = "1764582020000000:4:77".parse()?;
/// assert_eq!((mark.n, mark.seq, mark.to_string()), (4, 77, "1764582020000000:4:77".to_owned()));
/// # Ok::<(), sendoff_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptMark {
    /// When its publish was recorded, by the database's clock.
    pub published_at: Timestamp,
    /// Its place among those that were recorded with it.
    pub n: i64,
    /// The position that it had in the outbox.
    pub seq: i64,
}

impl fmt::Display for KeptMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.published_at.as_microsecond(), self.n, self.seq)
    }
}

impl FromStr for KeptMark {
    type Err = Error;

    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for what is no mark.
    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.splitn(3, ':').map(|part| part.parse::<i64>().ok());
            let micros = parts.next()??;
            let published_at = Timestamp::from_microsecond(micros).ok()?;
            Some(Self { published_at, n: parts.next()??, seq: parts.next()?? })
        };
        read().ok_or_else(|| {
            Error::invalid("reading a mark", "it is not three numbers with colons between")
                .subject(format!("`{text}`"))
        })
    }
}

impl Serialize for KeptMark {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Which kept messages to read: a page in the order of the first publishes.
#[derive(Debug, Clone, Default)]
pub struct KeptLook {
    /// Published at or after this time.
    pub from: Option<Timestamp>,
    /// Published before this time.
    pub until: Option<Timestamp>,
    /// With this id, of whatever source.
    pub id: Option<String>,
    /// Behind this mark.
    pub after: Option<KeptMark>,
    /// At most so many.
    pub rows_max: u32,
}

/// A kept message, without its body and headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptMessage {
    /// Its place.
    pub mark: KeptMark,
    /// When its first publish was recorded, by the database's clock.
    pub published_at: Timestamp,
    /// Its id.
    pub id: String,
    /// Its source.
    pub source: String,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// The body's size.
    pub body_bytes: u64,
    /// When it was sent, by the database's clock.
    pub sent_at: Timestamp,
    /// How often its publish had failed before.
    pub attempts: u32,
    /// Where the relay that recorded it publishes to, without a password.
    pub target: Option<String>,
}

/// What became of kept messages that were to be sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Resent {
    /// They stand in the outbox again.
    pub sent: u64,
    /// A message of the same source and id stands in the outbox already; nothing was done.
    pub waiting: u64,
    /// They are not kept any more.
    pub gone: u64,
}

/// What is kept: how long, which, and sending it again.
#[async_trait]
pub trait KeptDesk: fmt::Debug + Send + Sync + 'static {
    /// What becomes of a message once it is published.
    ///
    /// # Errors
    /// Those of the database.
    async fn retention(&self) -> Result<Retention>;

    /// Sets it, for every relay of the store, from their next settlement on.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] where the time is out of range, and those of the database.
    async fn set_retention(&self, retention: Retention) -> Result<()>;

    /// Reads a page of kept messages, in the order of their first publish.
    ///
    /// # Errors
    /// Those of the database.
    async fn kept(&self, look: &KeptLook) -> Result<Vec<KeptMessage>>;

    /// Puts kept messages back into the outbox, in the order of their marks, in one transaction: the
    /// same source and id, topic, key, headers and body, under new positions, due at once. They stay
    /// kept, and are not kept a second time when they are published again.
    ///
    /// # Errors
    /// Those of the database; then none was sent.
    async fn resend(&self, marks: &[KeptMark]) -> Result<Resent>;
}
