//! Looks: one snapshot, plain reads, sizes before bodies.
//!
//! What does not belong here: what to do with a row. The relay decides.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Rows};
use sendoff_core::lane::Lane;
use sendoff_core::message::{Headers, Message, StoredMessage};
use sendoff_core::store::{
    Age, AgeFrom, ClaimRequest, ClaimedRow, Content, Horizon, Look, Reading, Row, Sight,
};
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, Result as CoreResult};

use super::backlog::age;
use super::error::Failure;
use super::sql;
use super::worker::Session;

/// The columns of [`sql::READY`] and [`sql::WAITING`], in their order.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const ID: usize = 1;
    pub(super) const SOURCE: usize = 2;
    pub(super) const TOPIC: usize = 3;
    pub(super) const KEY: usize = 4;
    pub(super) const DUE_AT: usize = 5;
    pub(super) const RETRY_AT: usize = 6;
    pub(super) const ATTEMPTS: usize = 7;
    pub(super) const HEADERS_BYTES: usize = 8;
    pub(super) const BODY_BYTES: usize = 9;
    pub(super) const HEADERS: usize = 10;
    pub(super) const BODY: usize = 11;
    pub(super) const BLOCKED: usize = 12;
    pub(super) const HOLDS: usize = 13;
    pub(super) const CREATED_AT: usize = 14;
    pub(super) const WAIT_UNTIL: usize = 15;
}

/// Rows taken so far, against the bounds of the look.
struct Basket<'a> {
    look: &'a Look,
    known: HashSet<i64>,
    rows: Vec<Row>,
    bytes: usize,
    /// Rows of the kind that is being read.
    kind_rows: usize,
    /// That kind.
    waiting: bool,
    /// The store's clock, at the snapshot.
    now: i64,
}

pub(super) fn look(session: &Session<'_>, look: &Look) -> Result<Sight, Failure> {
    // Rows of other lanes than the one there is are not there.
    let Some(lane) = look.lanes.iter().find(|lane| lane.lane == Lane(0)) else {
        return Ok(Sight::default());
    };
    let mut basket = Basket {
        look,
        known: look.known.iter().copied().collect(),
        rows: Vec::new(),
        bytes: 0,
        kind_rows: 0,
        waiting: false,
        now: 0,
    };
    session.read(|tx| {
        let mut sight = Sight::default();
        let now = Session::now(tx)?;
        basket.now = now;
        let has_blockers: bool =
            tx.prepare_cached(sql::HAS_BLOCKERS)?.query_row([], |row| row.get(0))?;
        if look.reading == Reading::Line {
            basket.look_along(tx, &mut sight, has_blockers, lane.after)?;
            sight.rows = basket.rows;
            return Ok(sight);
        }
        if look.ready {
            sight.horizon = Some(horizon(tx)?);
            sight.truncated = basket.look_ready(tx, has_blockers, lane.after)?;
        }
        if look.waiting {
            (basket.kind_rows, basket.waiting) = (0, true);
            let mut waiting = tx.prepare_cached(sql::WAITING)?;
            let waiting = waiting.query([has_blockers])?;
            sight.next_due_in = basket.take_waiting(tx, waiting, now)?;
        }
        sight.rows = basket.rows;
        Ok(sight)
    })
}

/// The rows that may be claimed.
pub(super) fn claimable(
    session: &Session<'_>,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedRow>, Failure> {
    let look = Look { bytes_max: request.bytes_max, ..Look::default() };
    let mut basket = Basket {
        look: &look,
        known: HashSet::new(),
        rows: Vec::new(),
        bytes: 0,
        kind_rows: 0,
        waiting: false,
        now: 0,
    };
    session.read(|tx| {
        let now = Session::now(tx)?;
        basket.now = now;
        let mut rows = tx.prepare_cached(sql::claim::CLAIMABLE)?;
        let mut rows = rows.query((false, request.after, now))?;
        while let Some(row) = rows.next()? {
            if !basket.take(tx, row, request.rows_max)? {
                break;
            }
        }
        Ok(())
    })?;
    let claimed = |row: Row| ClaimedRow {
        seq: row.seq,
        key: row.key,
        attempts: row.attempts,
        content: row.content,
    };
    Ok(basket.rows.into_iter().map(claimed).collect())
}

/// A seq is drawn inside the write lock, and the lock is let go by the commit: every transaction whose
/// seqs lie at or below the last one of this snapshot is over. What is running has none yet, or ones
/// above. (The counter is a row like any other: a rollback takes it back.)
fn horizon(tx: &Connection) -> Result<Horizon, Failure> {
    let seq = tx.prepare_cached(sql::SEQ_LAST)?.query_row([], |row| row.get(0))?;
    Ok(Horizon { seq, oldest: 0, next: 0 })
}

impl Basket<'_> {
    /// Answers whether a bound left something out.
    fn look_ready(
        &mut self,
        tx: &Connection,
        has_blockers: bool,
        mut after: i64,
    ) -> Result<bool, Failure> {
        let rows_max = self.look.rows_max.min(self.look.lane_rows_max);
        // A relay that has read ahead knows most of what is there. As far as it knows any, seqs are
        // read first, which is a tenth of the work.
        if let Some(last) = self.known.iter().copied().max().filter(|last| *last > after) {
            let mut seqs = tx.prepare_cached(sql::READY_SEQS)?;
            let mut seqs = seqs.query((after, last))?;
            while let Some(row) = seqs.next()? {
                let seq: i64 = row.get(0)?;
                if self.known.contains(&seq) {
                    continue;
                }
                let mut ready = tx.prepare_cached(sql::READY_ONE)?;
                let mut ready = ready.query((has_blockers, seq))?;
                if let Some(row) = ready.next()?
                    && !self.take(tx, row, rows_max)?
                {
                    return Ok(true);
                }
            }
            after = last;
        }
        let mut ready = tx.prepare_cached(sql::READY)?;
        let mut ready = ready.query((has_blockers, after))?;
        while let Some(row) = ready.next()? {
            if !self.take(tx, row, rows_max)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The line of all rows: which there are, then one by one.
    fn look_along(
        &mut self,
        tx: &Connection,
        sight: &mut Sight,
        has_blockers: bool,
        after: i64,
    ) -> Result<(), Failure> {
        let now = Session::now(tx)?;
        let stop: Option<i64> =
            tx.prepare_cached(sql::line::STOP)?.query_row([], |row| row.get(0)).optional()?;
        if stop.is_none() {
            sight.horizon = Some(horizon(tx)?);
        }
        let mut seqs = tx.prepare_cached(sql::line::SEQS)?;
        let mut seqs = seqs.query((after, now, stop.unwrap_or(i64::MAX)))?;
        while let Some(row) = seqs.next()? {
            let seq: i64 = row.get(0)?;
            if self.known.contains(&seq) {
                continue;
            }
            let mut one = tx.prepare_cached(sql::READY_ONE)?;
            let mut one = one.query((has_blockers, seq))?;
            let Some(row) = one.next()? else { continue };
            let time: (Option<i64>, Option<i64>) =
                (row.get(column::DUE_AT)?, row.get(column::RETRY_AT)?);
            self.waiting = time != (None, None);
            if !self.take(tx, row, self.look.rows_max)? {
                sight.truncated = true;
                break;
            }
        }
        let next: Option<i64> = tx
            .prepare_cached(sql::line::NEXT_DUE)?
            .query_row([now], |row| row.get(0))
            .optional()?;
        sight.next_due_in = next.map(|at| until(now, at));
        Ok(())
    }

    /// Answers when the next row that was not given falls due.
    fn take_waiting(
        &mut self,
        tx: &Connection,
        mut rows: Rows<'_>,
        now: i64,
    ) -> Result<Option<Duration>, Failure> {
        while let Some(row) = rows.next()? {
            if self.known.contains(&row.get(column::SEQ)?) {
                continue;
            }
            let until: i64 = row.get(column::WAIT_UNTIL)?;
            if until > now {
                return Ok(Some(self::until(now, until)));
            }
            if !self.take(tx, row, self.look.rows_max)? {
                return Ok(Some(Duration::ZERO));
            }
        }
        Ok(None)
    }

    /// Takes a row unless a bound forbids it.
    fn take(
        &mut self,
        tx: &Connection,
        row: &SqlRow<'_>,
        rows_max: usize,
    ) -> Result<bool, Failure> {
        let blocked: bool = row.get(column::BLOCKED)?;
        let bytes = if blocked { 0 } else { size(row)? };
        let too_heavy = self.bytes.saturating_add(bytes) > self.look.bytes_max;
        if self.kind_rows >= rows_max || (too_heavy && !self.rows.is_empty()) {
            return Ok(false);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.kind_rows += 1;
        let content = if blocked { Content::Blocked } else { decode(tx, row)? };
        let (retry_at, holds): (Option<i64>, bool) =
            (row.get(column::RETRY_AT)?, row.get(column::HOLDS)?);
        self.rows.push(Row {
            seq: row.get(column::SEQ)?,
            lane: Lane(0),
            // A key that is not text does not decode, and then it is not needed either.
            key: row.get::<_, Option<String>>(column::KEY).unwrap_or_default().map(Arc::from),
            attempts: row.get(column::ATTEMPTS)?,
            blocker: retry_at.is_some() && holds,
            waiting: self.waiting,
            age: Age { so_far: age(self.now, due_since(row)?), from: AgeFrom::Creation },
            content,
        });
        Ok(true)
    }
}

fn until(now: i64, at: i64) -> Duration {
    Duration::from_micros(u64::try_from(at.saturating_sub(now)).unwrap_or(0))
}

/// Since when it is due. A due time that is none does not decode, and is told by that.
fn due_since(row: &SqlRow<'_>) -> Result<i64, rusqlite::Error> {
    let created_at: i64 = row.get(column::CREATED_AT)?;
    let due_at = row.get::<_, Option<i64>>(column::DUE_AT).unwrap_or_default();
    Ok(due_at.map_or(created_at, |due_at| due_at.max(created_at)))
}

fn size(row: &SqlRow<'_>) -> Result<usize, rusqlite::Error> {
    let headers: usize = row.get(column::HEADERS_BYTES)?;
    let body: usize = row.get(column::BODY_BYTES)?;
    Ok(headers.saturating_add(body))
}

/// Reads the message of a row. What does not decode is content, not an error.
fn decode(tx: &Connection, row: &SqlRow<'_>) -> Result<Content, Failure> {
    let headers = bytes_of(row.get_ref(column::HEADERS)?);
    let body = bytes_of(row.get_ref(column::BODY)?);
    let read = match (headers, body) {
        (Some(headers), Some(body)) => message(row, headers, body),
        _ => {
            let seq: i64 = row.get(column::SEQ)?;
            let mut whole = tx.prepare_cached(sql::CONTENT)?;
            let mut whole = whole.query([seq])?;
            let Some(whole) = whole.next()? else {
                return Err(rusqlite::Error::QueryReturnedNoRows.into());
            };
            let headers = bytes_of(whole.get_ref(0)?).unwrap_or_default();
            message(row, headers, bytes_of(whole.get_ref(1)?).unwrap_or_default())
        }
    };
    Ok(match read {
        Ok(message) => Content::Message(Arc::new(message)),
        Err(error) => Content::Undecodable(error.to_string()),
    })
}

/// Another program may have stored text as a body: its bytes are the body all the same.
fn bytes_of(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

fn message(row: &SqlRow<'_>, headers: &[u8], body: &[u8]) -> CoreResult<Message> {
    let key = match row.get_ref(column::KEY) {
        Ok(ValueRef::Null) => None,
        _ => Some(text(row, column::KEY, "the key")?),
    };
    let due_at = match row.get_ref(column::DUE_AT) {
        Ok(ValueRef::Integer(due_at)) => Some(
            Timestamp::from_microsecond(due_at)
                .map_err(|_| undecodable("the due time is out of range".to_owned()))?,
        ),
        _ => None,
    };
    Message::restore(StoredMessage {
        id: text(row, column::ID, "the id")?,
        source: text(row, column::SOURCE, "the source")?,
        topic: text(row, column::TOPIC, "the topic")?,
        key,
        headers: Headers::from_json(headers)?,
        body: bytes::Bytes::copy_from_slice(body),
        due_at,
    })
}

/// SQLite keeps whatever bytes it is given as text.
fn text<'a>(row: &'a SqlRow<'_>, at: usize, what: &'static str) -> CoreResult<&'a str> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes)) => {
            std::str::from_utf8(bytes).map_err(|_| undecodable(format!("{what} is not UTF-8")))
        }
        _ => Err(undecodable(format!("{what} is not text"))),
    }
}

fn undecodable(detail: String) -> Error {
    Error::new(sendoff_core::ErrorKind::Corrupt, "decoding a message").detail(detail)
}
