//! The memory store's handle, and the relay's side of it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::barrier::Books;
use super::row::{PlainRow, Stored};
use super::state::{Pair, SCHEMA_VERSION, State};
use super::transaction::MemoryTransaction;
use crate::barrier::{KeySource, attend};
use crate::error::Result;
use crate::lane::LANES_DEFAULT;
use crate::message::Message;
use crate::publisher::PublishError;
use crate::store::{
    Backlog, LeaseGrant, LeaseRequest, Look, OutboxStore, RelayId, Settled, Sight, Tend, Tended,
    Verdict,
};
use crate::time::{Clock, Timestamp};

pub(super) const ADDRESS: &str = "memory:";

/// How long a pair of source and id is kept after its message has gone.
const HORIZON: Duration = Duration::from_secs(24 * 60 * 60);

/// An outbox in memory, which behaves like the databases.
///
/// Clones and [`MemoryStore::another`] share the data. Its clock is the database's clock: give it a
/// manual one to turn time by hand.
///
/// ```
/// # use sendoff_core::memory::MemoryStore;
/// # use sendoff_core::store::OutboxDesk;
/// # use sendoff_core::Outbox;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> sendoff_core::Result<()> {
/// let store = MemoryStore::new();
/// let outbox = Outbox::new("shop");
/// let mut transaction = store.begin();
/// outbox.send(&mut transaction, &outbox.message("orders.placed").build()?).await?;
/// assert_eq!(store.stats().await?.pending, 0);
/// transaction.commit().await?;
/// assert_eq!(store.stats().await?.pending, 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    pub(super) shared: Arc<Shared>,
    /// The news that this handle has told already.
    told: Arc<AtomicU64>,
    pub(super) keys: Option<Arc<dyn KeySource>>,
}

/// What handles and transactions share.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) clock: Clock,
    /// A transaction ended.
    pub(super) ended: Notify,
    /// Held by one transaction at a time.
    pub(super) barriers: Arc<tokio::sync::Mutex<Books>>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a test's own thread must not hide behind a poisoned lock: every change of the
        // state is whole before anything that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Timestamp {
        micros(self.clock.now())
    }
}

/// The databases keep whole microseconds.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// A time `by` later; past the end of time, the end.
pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).map_or(Timestamp::MAX, micros)
}

impl fmt::Debug for MemoryStore {
    /// The address only: bodies do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryStore").field(&ADDRESS).finish()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store with the schema that this program needs, on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Clock::system(), SCHEMA_VERSION)
    }

    /// The same on a clock of the caller's.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self::with(clock, SCHEMA_VERSION)
    }

    /// A store without a schema, as a new database is: [`crate::store::OutboxDesk::migrate`] makes
    /// it, and everything else is refused before that.
    #[must_use]
    pub fn unmigrated(clock: Clock) -> Self {
        Self::with(clock, 0)
    }

    fn with(clock: Clock, schema: u32) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(LANES_DEFAULT, schema)),
                clock,
                ended: Notify::new(),
                barriers: Arc::default(),
            }),
            told: Arc::new(AtomicU64::new(0)),
            keys: None,
        }
    }

    /// With a source for barriers whose probe is a prefix of keys, for this handle and those that are
    /// made of it.
    #[must_use]
    pub fn with_key_source(mut self, source: Arc<dyn KeySource>) -> Self {
        self.keys = Some(source);
        self
    }

    /// Another handle on the same data, with news of its own, as another process has.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            told: Arc::new(AtomicU64::new(self.shared.lock().news)),
            keys: self.keys.clone(),
        }
    }

    /// Begins a transaction. Several may be open at once; a message is visible when its transaction
    /// has committed.
    #[must_use]
    pub fn begin(&self) -> MemoryTransaction {
        MemoryTransaction::begin(Arc::clone(&self.shared))
    }

    /// Writes a row as another program's plain INSERT does, in a transaction of its own. Gives its
    /// seq.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Duplicate`] where the pair was sent before,
    /// [`crate::ErrorKind::Invalid`] where a name breaks a limit.
    pub async fn insert(&self, row: PlainRow) -> Result<i64> {
        let mut transaction = self.begin();
        let seq = transaction.insert(row).await?;
        transaction.commit().await?;
        Ok(seq)
    }

    /// Deletes the rows with this id behind the store's back, as an operator with a SQL prompt may.
    pub fn delete(&self, id: &str) {
        let mut state = self.shared.lock();
        let rows = state.rows.values().filter(|row| row.plain.id == id);
        let seqs: Vec<i64> = rows.map(|row| row.seq).collect();
        for seq in seqs {
            state.remove(seq);
        }
    }

    /// Sets the schema's version, as another release of Sendoff would have, and from which version on
    /// programs may use it (`None`: from this one).
    pub fn set_schema_version(&self, version: u32, usable_from: Option<u32>) {
        let mut state = self.shared.lock();
        state.schema = version;
        state.usable_from = usable_from.unwrap_or(version);
    }

    /// Makes every kept pair of source and id older, as if the horizon had come nearer.
    pub fn age_pairs(&self, by: Duration) {
        for pair in self.shared.lock().pairs.values_mut() {
            if let Pair::Kept { sent_at, .. } = pair {
                *sent_at = sent_at.checked_sub(by).unwrap_or(Timestamp::MIN);
            }
        }
    }
}

#[async_trait]
impl OutboxStore for MemoryStore {
    fn address(&self) -> &str {
        ADDRESS
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.need_schema("leasing lanes")?;
        Ok(state.lease(request, now))
    }

    async fn look(&self, look: &Look) -> Result<Sight> {
        let now = self.shared.now();
        let state = self.shared.lock();
        state.need_schema("reading the outbox")?;
        Ok(state.look(look, now))
    }

    async fn settle(&self, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.need_schema("settling messages")?;
        Ok(state.settle(relay, verdicts, now))
    }

    async fn backlog(&self, count_max: u32) -> Result<Backlog> {
        let now = self.shared.now();
        let state = self.shared.lock();
        state.need_schema("counting the backlog")?;
        Ok(state.backlog(count_max, now))
    }

    async fn news(&self) -> Result<()> {
        loop {
            let mut ended = std::pin::pin!(self.shared.ended.notified());
            // Enrolled before the counter is read, so that a commit between the two is not missed.
            ended.as_mut().enable();
            let news = self.shared.lock().news;
            if self.told.swap(news, Ordering::SeqCst) != news {
                return Ok(());
            }
            ended.await;
        }
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        let now = self.shared.now();
        let before = now.checked_sub(HORIZON).unwrap_or(Timestamp::MIN);
        let pairs = {
            let mut state = self.shared.lock();
            state.need_schema("sweeping the outbox")?;
            state.sweep(before, rows_max) + state.sweep_shelf(now, rows_max)
        };
        Ok(pairs + self.sweep_barriers(rows_max).await?)
    }

    async fn tend(&self, tend: &Tend) -> Result<Tended> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.need_schema("tending parked messages")?;
        Ok(state.tend(tend, now))
    }

    async fn attend(&self, message: &Message) -> Result<(), PublishError> {
        attend(self, message).await
    }
}

impl State {
    /// Commits rows of a transaction.
    pub(super) fn commit(&mut self, rows: Vec<Stored>) {
        if rows.is_empty() {
            return;
        }
        for row in rows {
            self.insert(row);
        }
        self.news += 1;
    }

    fn sweep(&mut self, before: Timestamp, rows_max: u32) -> u64 {
        let old: Vec<(String, String)> = self
            .pairs
            .iter()
            .filter(
                |(_, pair)| matches!(pair, Pair::Kept { sent_at, seq: None, .. } if *sent_at < before),
            )
            .map(|(pair, _)| pair.clone())
            .take(usize::try_from(rows_max).unwrap_or(usize::MAX))
            .collect();
        let mut swept = 0;
        for pair in old {
            self.pairs.remove(&pair);
            swept += 1;
        }
        swept
    }
}
