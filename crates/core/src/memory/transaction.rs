//! The caller's transaction in memory.

use std::collections::HashSet;
use std::sync::Arc;

use super::barrier::Session;
use super::row::{PlainRow, Stored};
use super::state::{Pair, State};
use super::store::{ADDRESS, Shared, micros};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::outbox::Transaction;
use crate::time::Timestamp;

/// The marker of the memory store's transactions; callers never write it.
#[derive(Debug)]
pub struct Memory;

/// A transaction of a [`super::MemoryStore`]. Dropping it rolls back.
///
/// As in PostgreSQL, a message's position is drawn when it is written and becomes visible at the
/// commit, so a message with a lower position can become visible later. A write of a pair of source
/// and id that another running transaction has written waits for that transaction's end; two that
/// wait for each other are told so.
pub struct MemoryTransaction {
    pub(super) shared: Arc<Shared>,
    pub(super) token: u64,
    /// Its xid, once it has written.
    xid: Option<u64>,
    pub(super) rows: Vec<Stored>,
    /// The barriers, from its first call about one on.
    pub(super) barriers: Option<Session>,
    /// With how many rows, and how much there was to undo of barriers.
    savepoints: Vec<(String, usize, usize)>,
    drawn: Option<i64>,
}

impl std::fmt::Debug for MemoryTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryTransaction")
            .field("token", &self.token)
            .field("messages", &self.rows.len())
            .finish_non_exhaustive()
    }
}

const WRITING: &str = "writing a message";

impl MemoryTransaction {
    pub(super) fn begin(shared: Arc<Shared>) -> Self {
        let token = {
            let mut state = shared.lock();
            state.running.token_last += 1;
            state.running.token_last
        };
        Self {
            shared,
            token,
            xid: None,
            rows: Vec::new(),
            barriers: None,
            savepoints: Vec::new(),
            drawn: None,
        }
    }

    /// Draws the position of the next message before that is written, as a program does that calls
    /// `nextval` itself. Until it writes, the transaction has no xid.
    pub fn draw(&mut self) -> i64 {
        let seq = self.shared.lock().draw();
        self.drawn = Some(seq);
        seq
    }

    /// Sets a savepoint.
    pub fn savepoint(&mut self, name: impl Into<String>) {
        let undo = self.barriers.as_ref().map_or(0, Session::mark);
        self.savepoints.push((name.into(), self.rows.len(), undo));
    }

    /// Undoes what was written since the savepoint, which stays.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is no savepoint of this name.
    pub fn rollback_to(&mut self, name: &str) -> Result<()> {
        let Some(at) = self.savepoints.iter().rposition(|(set, ..)| set == name) else {
            return Err(
                Error::new(ErrorKind::NotFound, "rolling back to a savepoint").subject(name)
            );
        };
        self.savepoints.truncate(at + 1);
        let (_, rows, undo) = self.savepoints[at];
        if let Some(barriers) = &mut self.barriers {
            barriers.undo_to(undo);
        }
        self.undo_rows(rows);
        Ok(())
    }

    /// Undoes the messages behind the first `kept` ones.
    pub(super) fn undo_rows(&mut self, kept: usize) {
        let undone = self.rows.split_off(kept.min(self.rows.len()));
        self.shared.lock().unclaim(&undone);
        self.shared.ended.notify_waiters();
    }

    /// Writes a row as a plain INSERT of another program does. Gives its position.
    ///
    /// # Errors
    /// [`ErrorKind::Duplicate`] where the pair was sent before, [`ErrorKind::Invalid`] where a name
    /// breaks a limit, [`ErrorKind::Conflict`] where two transactions wait for each other. Nothing
    /// of the call is written then.
    pub async fn insert(&mut self, row: PlainRow) -> Result<i64> {
        self.write(vec![row]).await?;
        Ok(self.rows.last().map_or(0, |row| row.seq))
    }

    async fn write(&mut self, plain: Vec<PlainRow>) -> Result<()> {
        for row in &plain {
            row.check()?;
        }
        let now = self.shared.now();
        let shared = Arc::clone(&self.shared);
        let mut waiting = Waiting { shared: &shared, token: self.token };
        loop {
            let mut ended = std::pin::pin!(shared.ended.notified());
            // Enrolled before the pairs are read, so that an end between the two is not missed.
            ended.as_mut().enable();
            if self.try_write(&mut waiting, &plain, now)? {
                return Ok(());
            }
            ended.await;
        }
    }

    /// Answers whether it wrote; otherwise another transaction has to end first.
    fn try_write(
        &mut self,
        waiting: &mut Waiting<'_>,
        plain: &[PlainRow],
        now: Timestamp,
    ) -> Result<bool> {
        let mut state = waiting.shared.lock();
        state.need_schema(WRITING)?;
        if let Some(other) = state.other_claim(self.token, plain)? {
            return state.wait_for(self.token, other).map(|()| false);
        }
        let xid = self.xid.unwrap_or_else(|| {
            state.running.xid_last += 1;
            state.running.xid_last
        });
        self.xid = Some(xid);
        state.running.xids.insert(xid);
        for row in plain {
            let pair = (row.id.clone(), row.source.clone());
            state.pairs.insert(pair, Pair::Claimed(self.token));
            let mut plain = row.clone();
            plain.due_at = plain.due_at.map(micros);
            self.rows.push(Stored {
                seq: self.drawn.take().unwrap_or_else(|| state.draw()),
                lane: state.lane_of(row),
                plain,
                created_at: now,
                retry_at: None,
                attempts: 0,
                last_error: None,
                held: false,
                holds: true,
                parked: None,
                quarantine: None,
            });
        }
        Ok(true)
    }

    /// Commits: everything that was written is visible at once.
    ///
    /// # Errors
    /// None; the type is that of the databases.
    pub async fn commit(mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.shared.lock().commit(rows);
        if let Some(barriers) = self.barriers.take() {
            barriers.commit();
        }
        Ok(())
    }

    /// Rolls back, as dropping it does.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.unclaim(&self.rows);
            if let Some(xid) = self.xid {
                state.running.xids.remove(&xid);
            }
        }
        self.shared.ended.notify_waiters();
    }
}

impl Transaction<Memory> for MemoryTransaction {
    type Error = Error;

    async fn append(&mut self, messages: &[Message]) -> Result<()> {
        self.write(messages.iter().map(PlainRow::of).collect()).await
    }

    async fn commit(self) -> Result<()> {
        Self::commit(self).await
    }
}

/// Takes back that a transaction waits, also where its write is cancelled.
struct Waiting<'a> {
    shared: &'a Shared,
    token: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.lock().running.waits.remove(&self.token);
    }
}

impl State {
    pub(super) fn draw(&mut self) -> i64 {
        self.seq_last += 1;
        self.seq_last
    }

    /// Which other running transaction has written one of these pairs.
    fn other_claim(&self, token: u64, rows: &[PlainRow]) -> Result<Option<u64>> {
        let mut own = HashSet::new();
        let mut other = None;
        for row in rows {
            let pair = (row.id.clone(), row.source.clone());
            match self.pairs.get(&pair) {
                Some(Pair::Claimed(by)) if *by != token => other = Some(*by),
                Some(_) => return Err(duplicate(row)),
                None => {}
            }
            if !own.insert(pair) {
                return Err(duplicate(row));
            }
        }
        Ok(other)
    }

    fn wait_for(&mut self, token: u64, other: u64) -> Result<()> {
        let mut next = Some(other);
        while let Some(waits) = next {
            if waits == token {
                return Err(Error::new(ErrorKind::Conflict, WRITING)
                    .subject(ADDRESS)
                    .detail("two transactions wait for each other")
                    .advice("run the transaction again"));
            }
            next = self.running.waits.get(&waits).copied();
        }
        self.running.waits.insert(token, other);
        Ok(())
    }

    fn unclaim(&mut self, rows: &[Stored]) {
        for row in rows {
            let pair = (row.plain.id.clone(), row.plain.source.clone());
            if matches!(self.pairs.get(&pair), Some(Pair::Claimed(_))) {
                self.pairs.remove(&pair);
            }
        }
    }
}

fn duplicate(row: &PlainRow) -> Error {
    Error::new(ErrorKind::Duplicate, WRITING)
        .subject(format!("{}/{}", row.source, row.id))
        .detail("this pair of source and id was sent before")
}
