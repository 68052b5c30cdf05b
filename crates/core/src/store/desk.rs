//! The operator's side of a store: look and mend.

use async_trait::async_trait;
use serde::Serialize;

use crate::error::Result;
use crate::message::{Headers, Message};
use crate::store::QuarantineReason;
use crate::time::Timestamp;

/// Look and mend: what `sendoff migrate`, `status`, `show`, `send` and `quarantine` do.
#[async_trait]
pub trait OutboxDesk: std::fmt::Debug + Send + Sync + 'static {
    /// Brings the schema up to the version of this program. Safe twice and from several processes
    /// at once; a newer schema is not touched, and refused where this program may not use it; so is
    /// one that another text of a migration made.
    ///
    /// # Errors
    /// [`crate::ErrorKind::SchemaTooNew`], [`crate::ErrorKind::SchemaChanged`], and those of the
    /// database.
    async fn migrate(&self) -> Result<Schema>;

    /// Says whether the schema is what this program needs.
    ///
    /// # Errors
    /// Those of the database. A missing schema is not an error here.
    async fn schema(&self) -> Result<Schema>;

    /// Sends messages in one transaction of their own: all or none. After the commit a store that
    /// has news for relays in other processes tells them.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Duplicate`] where a pair of source and id was sent before, and those of
    /// the database.
    async fn send_all(&self, messages: &[Message]) -> Result<()>;

    /// Counts.
    ///
    /// # Errors
    /// Those of the database.
    async fn stats(&self) -> Result<Stats>;

    /// Where the messages with this id are, of every source or of one.
    ///
    /// # Errors
    /// Those of the database. An id that was never sent gives an empty list.
    async fn find(&self, id: &str, source: Option<&str>) -> Result<Vec<Standing>>;

    /// The quarantine in seq order, above `after_seq`, at most `rows_max` messages. No bodies.
    ///
    /// # Errors
    /// Those of the database.
    async fn quarantined(&self, after_seq: i64, rows_max: u32) -> Result<Vec<QuarantinedMessage>>;

    /// The messages that hold the most later ones of their keys, at most `rows_max`, the most first;
    /// then the first of all that failed, holds, and is to be tried again, where it is none of those:
    /// under `hold = all` everything waits for it.
    ///
    /// # Errors
    /// Those of the database.
    async fn holders(&self, rows_max: u32) -> Result<Vec<Holder>>;

    /// Sends quarantined messages back to be published, now; their keys stay in order. Attempts
    /// start anew.
    ///
    /// # Errors
    /// Those of the database.
    async fn requeue(&self, which: &Which) -> Result<Mended>;

    /// Deletes quarantined messages and lets go what was held behind them: of each key that has no
    /// other blocker, the lowest held row gets a retry time of now and lets the others go once it is
    /// published.
    ///
    /// # Errors
    /// Those of the database.
    async fn discard(&self, which: &Which) -> Result<Mended>;
}

/// Which quarantined messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Those with this id, of every source or of one.
    Id {
        /// The id.
        id: String,
        /// The source, where the id alone is not enough.
        source: Option<String>,
    },
    /// Those with this reason.
    Reason(QuarantineReason),
    /// All.
    All,
}

/// What mending did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Mended {
    /// Quarantined messages that were requeued or discarded.
    pub messages: u64,
    /// Held rows that were let go, directly or behind the one that was.
    pub released: u64,
}

/// A schema's version against the program's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version that the store has; 0 where there is none.
    pub version: u32,
    /// The version that this program needs.
    pub needed: u32,
    /// How they compare.
    pub state: SchemaState,
    /// What is missing, by name, where something is.
    pub missing: Vec<String>,
    /// Versions whose migration had another text when it was applied than it has in the program.
    pub changed: Vec<u32>,
}

impl Schema {
    /// What [`SchemaState::Changed`] means here, in words.
    #[must_use]
    pub fn changed_words(&self) -> String {
        let versions: Vec<String> = self.changed.iter().map(u32::to_string).collect();
        format!(
            "it was migrated with another text of migration {} than this program has",
            versions.join(", ")
        )
    }
}

/// How a schema compares with what the program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaState {
    /// As needed.
    Current,
    /// Not there, or older, or damaged: `migrate` mends it.
    Missing,
    /// Newer than the program knows, and it may use it: what came since only added.
    Newer,
    /// Newer than the program knows, and it may not use it.
    TooNew,
    /// Migrated with another text of a migration than the program has: neither can tell what the
    /// other made, so `migrate` changes nothing.
    Changed,
}

/// Counts of an outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Committed and to be published: ready, due later, retrying or postponed. Not held, not paused,
    /// not quarantined.
    pub pending: u64,
    /// Of the pending ones, those whose due time has come (a retrying one counts).
    pub due: u64,
    /// Of the pending ones, those that failed and wait for their retry time.
    pub retrying: u64,
    /// Of the pending ones, those that were set aside since their target takes nothing now, or whose
    /// pause has ended and which a relay is about to bring back.
    pub postponed: u64,
    /// Held behind an earlier message of their key.
    pub held: u64,
    /// Set aside by a relay since they are paused. What is held behind them counts as held.
    pub paused: u64,
    /// In quarantine.
    pub quarantined: u64,
    /// Published since the store was migrated. Persisted.
    pub published: u64,
    /// The age of the oldest due message, in milliseconds, by the database's clock.
    pub oldest_due_ms: Option<u64>,
    /// How many lanes there are.
    pub lanes: u64,
    /// Of these, how many are leased and not lapsed.
    pub lanes_leased: u64,
    /// Relays that are live.
    pub relays: u64,
}

/// One message and where it is.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// Its id.
    pub id: String,
    /// Its source.
    pub source: String,
    /// Where it is.
    pub place: Place,
    /// Its topic; empty where only the pair of source and id is left.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// Its position.
    pub seq: Option<i64>,
    /// Its lane.
    pub lane: Option<u16>,
    /// The body's size.
    pub body_bytes: Option<u64>,
    /// When it was sent, by the database's clock.
    pub sent_at: Option<Timestamp>,
    /// When it is due.
    pub due_at: Option<Timestamp>,
    /// When it is tried again.
    pub retry_at: Option<Timestamp>,
    /// How often its publish has failed.
    pub attempts: u32,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Who leases its lane now.
    pub owner: Option<String>,
    /// The id of the message that it is held behind.
    pub held_behind: Option<String>,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Committed; the next look finds it.
    Ready,
    /// Its due time has not come.
    DueLater,
    /// It failed and is tried again.
    Retrying,
    /// It was set aside, and a relay brings it back once its target takes messages; or its pause has
    /// just ended.
    Postponed,
    /// It is paused.
    Paused,
    /// Behind an earlier message of its key.
    Held,
    /// In quarantine.
    Quarantined,
    /// Confirmed by the broker (or discarded); only source and id are kept, for the horizon.
    Gone,
}

/// A message that failed and that later ones wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its position.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// Its source.
    pub source: String,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// [`Place::Retrying`] or [`Place::Quarantined`].
    pub place: Place,
    /// How often its publish has failed.
    pub attempts: u32,
    /// When it is tried again.
    pub retry_at: Option<Timestamp>,
    /// What went wrong last.
    pub error: Option<String>,
    /// How many messages are marked as held behind it. Others may not have been looked at yet.
    pub holds: u64,
}

/// A message in quarantine.
#[derive(Debug, Clone, Serialize)]
pub struct QuarantinedMessage {
    /// Its position.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// Its source.
    pub source: String,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// Its headers; empty where they do not decode.
    #[serde(serialize_with = "headers_as_map")]
    pub headers: Headers,
    /// The body's size.
    pub body_bytes: u64,
    /// Why, as a word of [`QuarantineReason::as_str`].
    pub reason: String,
    /// What went wrong.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was set aside, by the database's clock.
    pub quarantined_at: Timestamp,
    /// How many messages are held behind it.
    pub holds: u64,
}

fn headers_as_map<S: serde::Serializer>(headers: &Headers, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(headers.iter())
}
