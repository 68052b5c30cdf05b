//! What is kept of published messages: retention, pages, and sending again.
//!
//! What does not belong here: which messages are wanted again.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use sendoff_core::Result;
use sendoff_core::store::{KeptDesk, KeptLook, KeptMark, KeptMessage, Resent, Retention};
use sendoff_core::time::{Timestamp, whole_micros};

use super::desk::{text, time};
use super::error::Failure;
use super::sql;
use super::store::SqliteStore;
use super::worker::Session;

/// So many messages are sent again in one transaction, so that it stays short.
const RESEND_ROWS: usize = 500;

#[async_trait]
impl KeptDesk for SqliteStore {
    async fn retention(&self) -> Result<Retention> {
        self.desk.run("reading the retention", |session| session.read(retention)).await
    }

    async fn set_retention(&self, retention: Retention) -> Result<()> {
        retention.check()?;
        let keep_for = match retention {
            Retention::DeleteBehind => None,
            Retention::KeepFor(time) => i64::try_from(whole_micros(time)).ok(),
        };
        self.writes
            .run("setting the retention", move |session| {
                session.write(|tx| {
                    tx.execute(sql::RETENTION_WRITE, (retention.keeps(), keep_for))?;
                    Ok(())
                })
            })
            .await
    }

    async fn kept(&self, look: &KeptLook) -> Result<Vec<KeptMessage>> {
        let look = look.clone();
        self.desk
            .run("reading what is kept", move |session| {
                session.read(|tx| {
                    let after = look.after;
                    let mut page = tx.prepare_cached(sql::KEPT)?;
                    let page = page
                        .query_map(
                            (
                                look.from.map(Timestamp::as_microsecond),
                                look.until.map(Timestamp::as_microsecond),
                                &look.id,
                                after.map(|mark| mark.published_at.as_microsecond()),
                                after.map(|mark| mark.n),
                                after.map(|mark| mark.seq),
                                look.rows_max,
                            ),
                            kept,
                        )?
                        .collect::<rusqlite::Result<_>>()?;
                    Ok(page)
                })
            })
            .await
    }

    async fn resend(&self, marks: &[KeptMark]) -> Result<Resent> {
        let mut marks = marks.to_vec();
        marks.sort_unstable();
        marks.dedup();
        let mut whole = Resent::default();
        for marks in marks.chunks(RESEND_ROWS) {
            let marks = marks.to_vec();
            let resent = self
                .writes
                .run("sending kept messages again", move |session| {
                    session.write(|tx| resend(tx, &marks))
                })
                .await?;
            whole.sent += resent.sent;
            whole.waiting += resent.waiting;
            whole.gone += resent.gone;
        }
        Ok(whole)
    }
}

/// Whether published messages are kept.
pub(super) fn keeps(tx: &Connection) -> Result<bool, Failure> {
    Ok(retention(tx)?.keeps())
}

/// Keeps a row that was published now, before it is deleted.
pub(super) fn keep(tx: &Connection, seq: i64, relay: &str, now: i64) -> Result<(), Failure> {
    if tx.prepare_cached(sql::KEEP)?.execute((seq, now, relay))? == 0 {
        tx.prepare_cached(sql::RESENT_DELETE)?.execute([seq])?;
    }
    Ok(())
}

/// Forgets what was kept for its time, at most so many rows.
pub(super) fn sweep(tx: &Connection, rows_max: u32) -> Result<u64, Failure> {
    let (_, keep_for) = row(tx)?;
    let before = Session::now(tx)?.saturating_sub(keep_for);
    let swept = tx.prepare_cached(sql::KEPT_SWEEP)?.execute((before, rows_max))?;
    tx.prepare_cached(sql::RESENT_SWEEP)?.execute([rows_max])?;
    Ok(u64::try_from(swept).unwrap_or(u64::MAX))
}

fn retention(tx: &Connection) -> Result<Retention, Failure> {
    Ok(match row(tx)? {
        (true, micros) => {
            Retention::KeepFor(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
        }
        (false, _) => Retention::DeleteBehind,
    })
}

/// Whether to keep, and for how many microseconds.
fn row(tx: &Connection) -> Result<(bool, i64), Failure> {
    let row = tx
        .prepare_cached(sql::RETENTION)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // An operator has deleted the row: nothing is kept, and nothing that was kept goes.
    Ok(row.unwrap_or((false, i64::MAX)))
}

/// The write lock is held: nobody sends one of the pairs meanwhile.
fn resend(tx: &Connection, marks: &[KeptMark]) -> Result<Resent, Failure> {
    let mut resent = Resent::default();
    for mark in marks {
        let found: Option<(i64, bool)> = tx
            .prepare_cached(sql::KEPT_WAITS)?
            .query_row((mark.published_at.as_microsecond(), mark.seq), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        match found {
            None => resent.gone += 1,
            Some((_, true)) => resent.waiting += 1,
            Some((n, false)) => {
                tx.prepare_cached(sql::PAIR_FORGET)?.execute([n])?;
                tx.prepare_cached(sql::RESEND)?.execute([n])?;
                tx.prepare_cached(sql::RESENT_WRITE)?.execute([tx.last_insert_rowid()])?;
                resent.sent += 1;
            }
        }
    }
    Ok(resent)
}

fn kept(row: &Row<'_>) -> rusqlite::Result<KeptMessage> {
    let published_at = time(row.get(0)?).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(KeptMessage {
        mark: KeptMark { published_at, n: row.get(1)?, seq: row.get(2)? },
        published_at,
        id: text(row, 3)?.unwrap_or_default(),
        source: text(row, 4)?.unwrap_or_default(),
        topic: text(row, 5)?.unwrap_or_default(),
        key: text(row, 6)?,
        body_bytes: row.get(7)?,
        sent_at: time(row.get(8)?).unwrap_or(Timestamp::UNIX_EPOCH),
        attempts: row.get(9)?,
        target: text(row, 10)?,
    })
}
