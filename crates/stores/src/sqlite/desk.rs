//! The operator's side: counts, where a message is, the quarantine.
//!
//! What does not belong here: how any of it is shown.

use async_trait::async_trait;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use sendoff_core::message::Headers;
use sendoff_core::store::{
    Holder, Mended, OutboxDesk, Place, QuarantinedMessage, Schema, Standing, Stats, Which,
};
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, ErrorKind, Message, Result};

use super::error::{Failure, kind_of};
use super::mend::{self, Mend};
use super::store::SqliteStore;
use super::worker::Session;
use super::{schema, send, sql};

#[async_trait]
impl OutboxDesk for SqliteStore {
    async fn migrate(&self) -> Result<Schema> {
        self.writes.run("migrating the schema", schema::migrate).await
    }

    async fn schema(&self) -> Result<Schema> {
        self.desk.run("reading the schema", |session| session.snapshot(schema::schema)).await
    }

    async fn send_all(&self, messages: &[Message]) -> Result<()> {
        let messages = messages.to_vec();
        self.writes
            .run("sending messages", move |session| {
                session.write(|tx| {
                    messages
                        .iter()
                        .try_for_each(|message| send_one(tx, message, &session.file.address))
                })
            })
            .await
    }

    async fn stats(&self) -> Result<Stats> {
        self.desk.run("counting messages", |session| session.read(stats)).await
    }

    async fn find(&self, id: &str, source: Option<&str>) -> Result<Vec<Standing>> {
        let (id, source) = (id.to_owned(), source.map(str::to_owned));
        self.desk
            .run("finding a message", move |session| {
                session.read(|tx| {
                    let now = Session::now(tx)?;
                    let mut found = tx.prepare_cached(sql::FIND)?;
                    let found = found
                        .query_map((id, source, now), |row| standing(row, now))?
                        .collect::<rusqlite::Result<_>>()?;
                    Ok(found)
                })
            })
            .await
    }

    async fn quarantined(&self, after_seq: i64, rows_max: u32) -> Result<Vec<QuarantinedMessage>> {
        self.desk
            .run("reading the quarantine", move |session| {
                session.read(|tx| {
                    let mut page = tx.prepare_cached(sql::QUARANTINED)?;
                    let page = page
                        .query_map((after_seq, rows_max), quarantined)?
                        .collect::<rusqlite::Result<_>>()?;
                    Ok(page)
                })
            })
            .await
    }

    async fn holders(&self, rows_max: u32) -> Result<Vec<Holder>> {
        self.desk
            .run("reading what holds", move |session| {
                session.read(|tx| {
                    let mut holders = tx.prepare_cached(sql::line::HOLDERS)?;
                    let holders =
                        holders.query_map([rows_max], holder)?.collect::<rusqlite::Result<_>>()?;
                    Ok(holders)
                })
            })
            .await
    }

    async fn requeue(&self, which: &Which) -> Result<Mended> {
        self.mend("requeueing messages", which, Mend::Requeue).await
    }

    async fn discard(&self, which: &Which) -> Result<Mended> {
        self.mend("discarding messages", which, Mend::Discard).await
    }
}

impl SqliteStore {
    async fn mend(&self, operation: &'static str, which: &Which, mend: Mend) -> Result<Mended> {
        let mut whole = Mended::default();
        let mut next = Some(0);
        while let Some(after) = next {
            let which = which.clone();
            let (page, page_next) = self
                .writes
                .run(operation, move |session| mend::page(session, &which, mend, after))
                .await?;
            whole.messages += page.messages;
            whole.released += page.released;
            next = page_next;
        }
        Ok(whole)
    }
}

fn send_one(tx: &Connection, message: &Message, address: &str) -> Result<(), Failure> {
    send::insert(tx, message).map_err(|error| {
        if kind_of(&error) != ErrorKind::Duplicate {
            return Failure::Driver(error);
        }
        Error::new(ErrorKind::Duplicate, "sending messages")
            .subject(address)
            .detail(format!(
                "the id {} of the source {} was sent before",
                message.id(),
                message.source()
            ))
            .caused_by(error)
            .into()
    })
}

pub(super) fn stats(tx: &Connection) -> Result<Stats, Failure> {
    let now = Session::now(tx)?;
    let count = |sql: &str| -> rusqlite::Result<u64> {
        tx.prepare_cached(sql)?.query_row([], |row| row.get(0))
    };
    let count_now = |sql: &str| -> rusqlite::Result<u64> {
        tx.prepare_cached(sql)?.query_row([now], |row| row.get(0))
    };
    let ready = count(sql::STATS_READY)?;
    let oldest_ready: Option<i64> =
        tx.prepare_cached(sql::STATS_OLDEST_READY)?.query_row([], |row| row.get(0)).optional()?;
    let (waiting, waiting_due, retrying, oldest_waiting): (u64, u64, u64, Option<i64>) = tx
        .prepare_cached(sql::STATS_WAITING)?
        .query_row([now], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let (paused, postponed, oldest_postponed): (u64, u64, Option<i64>) = tx
        .prepare_cached(sql::STATS_PARKED)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let oldest = [oldest_ready, oldest_waiting, oldest_postponed].into_iter().flatten().min();
    Ok(Stats {
        pending: ready + waiting + postponed,
        due: ready + waiting_due + postponed,
        retrying,
        postponed,
        held: count(sql::STATS_HELD)?,
        paused,
        quarantined: count(sql::STATS_QUARANTINED)?,
        published: count(sql::STATS_PUBLISHED)?,
        oldest_due_ms: oldest
            .map(|since| u64::try_from(now.saturating_sub(since) / 1_000).unwrap_or(0)),
        lanes: 1,
        lanes_leased: count_now(sql::STATS_LEASED)?,
        relays: count_now(sql::RELAYS_COUNT)?,
    })
}

pub(super) fn standing(row: &Row<'_>, now: i64) -> rusqlite::Result<Standing> {
    let seq: Option<i64> = row.get(3)?;
    let due_at: Option<i64> = row.get(8)?;
    let retry_at: Option<i64> = row.get(9)?;
    let held: Option<bool> = row.get(12)?;
    let quarantined_at: Option<i64> = row.get(13)?;
    // Null where it is not parked.
    let paused: Option<bool> = row.get(16)?;
    let place = if seq.is_none() {
        Place::Gone
    } else if quarantined_at.is_some() {
        Place::Quarantined
    } else if held == Some(true) {
        Place::Held
    } else if let Some(paused) = paused {
        if paused { Place::Paused } else { Place::Postponed }
    } else if retry_at.is_some() {
        Place::Retrying
    } else if due_at.is_some_and(|due_at| due_at > now) {
        Place::DueLater
    } else {
        Place::Ready
    };
    let sent_at: Option<i64> = row.get(7)?;
    Ok(Standing {
        id: text(row, 0)?.unwrap_or_default(),
        source: text(row, 1)?.unwrap_or_default(),
        place,
        topic: text(row, 4)?.unwrap_or_default(),
        key: text(row, 5)?,
        seq,
        lane: seq.map(|_| 0),
        body_bytes: row.get(6)?,
        sent_at: sent_at.or(row.get(2)?).and_then(time),
        due_at: due_at.and_then(time),
        retry_at: retry_at.filter(|_| paused.is_none()).and_then(time),
        attempts: row.get::<_, Option<u32>>(10)?.unwrap_or(0),
        last_error: text(row, 11)?,
        owner: seq.and(text(row, 15)?),
        held_behind: text(row, 14)?,
    })
}

fn holder(row: &Row<'_>) -> rusqlite::Result<Holder> {
    let retry_at: Option<i64> = row.get(7)?;
    Ok(Holder {
        seq: row.get(0)?,
        id: text(row, 1)?.unwrap_or_default(),
        source: text(row, 2)?.unwrap_or_default(),
        topic: text(row, 3)?.unwrap_or_default(),
        key: text(row, 4)?,
        place: if row.get(5)? { Place::Quarantined } else { Place::Retrying },
        attempts: row.get(6)?,
        retry_at: retry_at.and_then(time),
        error: text(row, 8)?,
        holds: row.get(9)?,
    })
}

fn quarantined(row: &Row<'_>) -> rusqlite::Result<QuarantinedMessage> {
    let headers = match row.get_ref(5)? {
        ValueRef::Text(json) | ValueRef::Blob(json) => Headers::from_json(json).unwrap_or_default(),
        _ => Headers::new(),
    };
    Ok(QuarantinedMessage {
        seq: row.get(0)?,
        id: text(row, 1)?.unwrap_or_default(),
        source: text(row, 2)?.unwrap_or_default(),
        topic: text(row, 3)?.unwrap_or_default(),
        key: text(row, 4)?,
        headers,
        body_bytes: row.get(6)?,
        reason: text(row, 7)?.unwrap_or_default(),
        error: text(row, 8)?.unwrap_or_default(),
        attempts: row.get(9)?,
        quarantined_at: time(row.get(10)?).unwrap_or(Timestamp::UNIX_EPOCH),
        holds: row.get(11)?,
    })
}

/// Text for people: what is not UTF-8 is shown with replacement characters.
pub(super) fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => None,
    })
}

pub(super) fn time(micros: i64) -> Option<Timestamp> {
    Timestamp::from_microsecond(micros).ok()
}
