//! The store's handle, and the relay's side of it.
//!
//! What does not belong here: what a verb does. Each has its own room.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use async_trait::async_trait;
use sendoff_core::barrier::KeySource;
use sendoff_core::store::{
    Backlog, LeaseGrant, LeaseRequest, Look, OutboxStore, RelayId, Settled, Sight, Tend, Tended,
    Verdict,
};
use sendoff_core::{Message, PublishError, Result};

use super::file::{DatabaseFile, Role};
use super::lease::{self, HeldCursor};
use super::look;
use super::news::News;
use super::options::SqliteOptions;
use super::pause;
use super::settle;
use super::worker::{Session, Worker};
use super::{backlog, barrier};

/// An outbox in a SQLite file: the relay's side and the operator's.
///
/// Three threads have a connection each: one for the relay's looks, one for everything that writes,
/// one for what may take its time, the operator's counts and lists and looks in the background. They end when the store is
/// dropped; the last connection to a file brings its log into it.
///
/// A file that is exchanged or deleted under the store is noticed before the next statement: then
/// the new one is opened, or every verb fails with [`sendoff_core::ErrorKind::Unreachable`] until
/// there is one.
#[derive(Debug)]
pub struct SqliteStore {
    pub(super) file: Arc<DatabaseFile>,
    pub(super) looks: Worker,
    pub(super) writes: Worker,
    pub(super) desk: Worker,
    news: News,
    held_cursor: Arc<HeldCursor>,
    sweep_cursor: Arc<AtomicI64>,
    open_cursor: Arc<AtomicI64>,
    pub(super) keys: Option<Arc<dyn KeySource>>,
}

impl SqliteStore {
    /// Opens a store. The file is opened and read once here, on the calling thread (some
    /// milliseconds), so that a wrong path is told at once; its schema is not asked for, see
    /// [`sendoff_core::store::OutboxDesk::schema`].
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::NotFound`] where the file is not there (and
    /// [`SqliteOptions::create`] is not set) or its folder is not, `Corrupt` where it is not a SQLite
    /// database, `Denied` where it may not be read, `Invalid` for a folder and for `:memory:`, and
    /// those of the database.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        let file = Arc::new(DatabaseFile::open(path, options)?);
        Ok(Self {
            looks: Worker::start("looks", &file, Role::Reads)?,
            writes: Worker::start("writes", &file, Role::Writes)?,
            desk: Worker::start("desk", &file, Role::Reads)?,
            news: News::new(&file),
            held_cursor: Arc::default(),
            sweep_cursor: Arc::default(),
            open_cursor: Arc::default(),
            keys: None,
            file,
        })
    }

    /// With a source for barriers whose probe is a prefix of keys. Without one such a probe is passed
    /// over at a deadline, with a line in the log, and refused on demand.
    #[must_use]
    pub fn with_key_source(mut self, source: Arc<dyn KeySource>) -> Self {
        self.keys = Some(source);
        self
    }
}

#[async_trait]
impl OutboxStore for SqliteStore {
    fn address(&self) -> &str {
        &self.file.address
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant> {
        let request = request.clone();
        let cursor = Arc::clone(&self.held_cursor);
        self.writes
            .run("leasing the lane", move |session| lease::lease(session, &request, &cursor))
            .await
    }

    async fn look(&self, look: &Look) -> Result<Sight> {
        let look = look.clone();
        let worker = if look.background { &self.desk } else { &self.looks };
        worker.run("reading the outbox", move |session| look::look(session, &look)).await
    }

    async fn settle(&self, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled> {
        let relay = relay.clone();
        let verdicts = verdicts.to_vec();
        self.writes
            .run("settling messages", move |session| {
                settle::settle(session, relay.as_str(), &verdicts)
            })
            .await
    }

    async fn backlog(&self, count_max: u32) -> Result<Backlog> {
        let count = move |session: &Session<'_>| backlog::backlog(session, count_max);
        self.desk.run("counting the backlog", count).await
    }

    async fn news(&self) -> Result<()> {
        self.news.wait().await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        let cursor = Arc::clone(&self.sweep_cursor);
        let open = Arc::clone(&self.open_cursor);
        self.writes
            .run("sweeping the outbox", move |session| {
                let pairs = settle::sweep(session, rows_max, &cursor)?;
                Ok(pairs + barrier::sweep::sweep(session, rows_max, &open)?)
            })
            .await
    }

    async fn tend(&self, request: &Tend) -> Result<Tended> {
        pause::tend(self, request).await
    }

    async fn attend(&self, message: &Message) -> Result<(), PublishError> {
        sendoff_core::barrier::attend(self, message).await
    }
}
