//! Pauses, and bringing parked rows back.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use sendoff_core::Result;
use sendoff_core::store::{
    PAUSE_REASON_CHARS_MAX, ParkedFor, Pause, PauseDesk, PauseScope, PauseStanding, Tend, Tended,
};
use sendoff_core::time::Timestamp;

use super::error::Failure;
use super::sql;
use super::store::SqliteStore;
use super::worker::Session;

/// So many marks are looked at in one call. There are as many as pauses and targets.
const MARKS_MAX: usize = 10_000;

/// Reads the pauses, and takes the write lock only where something is to come back.
pub(super) async fn tend(store: &SqliteStore, tend: &Tend) -> Result<Tended> {
    const DOING: &str = "tending parked messages";
    let tend = Arc::new(tend.clone());
    let asked = Arc::clone(&tend);
    let (pauses, recalls) = store
        .looks
        .run(DOING, move |session| {
            session.read(|tx| {
                let pauses = pauses(tx)?;
                let recalls = recalls(tx, &asked, &pauses)?;
                Ok((pauses, recalls))
            })
        })
        .await?;
    if recalls.is_empty() {
        return Ok(Tended { pauses, recalled: 0 });
    }
    let recalled = store
        .writes
        .run(DOING, move |session| session.write(|tx| recall(tx, &tend, &recalls)))
        .await?;
    Ok(Tended { pauses, recalled })
}

/// Which marks lose how many rows at most.
fn recalls(
    tx: &Connection,
    tend: &Tend,
    pauses: &[Pause],
) -> std::result::Result<Vec<(String, usize)>, Failure> {
    let mut recalls = Vec::new();
    let mut last = String::new();
    for _ in 0..MARKS_MAX {
        let next: Option<String> =
            tx.prepare_cached(sql::MARK_AFTER)?.query_row([&last], |row| row.get(0))?;
        let Some(mark) = next else { break };
        let is_paused =
            pauses.iter().any(|pause| ParkedFor::Pause(pause.scope.clone()).mark() == mark);
        let room = tend.targets.iter().find(|room| room.mark == mark);
        let rows_max = room.map_or(tend.rows_max, |room| room.rows_max);
        if !is_paused && rows_max > 0 {
            recalls.push((mark.clone(), rows_max));
        }
        last = mark;
    }
    Ok(recalls)
}

fn recall(
    tx: &Connection,
    tend: &Tend,
    recalls: &[(String, usize)],
) -> std::result::Result<u64, Failure> {
    let now = Session::now(tx)?;
    let owned: Option<i64> = tx
        .prepare_cached(sql::LANE_HELD_BY)?
        .query_row([tend.relay.as_str()], |row| row.get(0))
        .optional()?;
    if owned.is_none() {
        return Ok(0);
    }
    let mut recalled = 0;
    for (mark, rows_max) in recalls {
        let seqs = tx
            .prepare_cached(sql::OF_MARK)?
            .query_map((mark, rows_max), |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        for seq in seqs {
            let changed = tx.prepare_cached(sql::RECALL)?.execute((seq, now))?;
            recalled += u64::try_from(changed).unwrap_or(0);
            tx.prepare_cached(sql::UNMARK)?.execute([seq])?;
        }
    }
    Ok(recalled)
}

fn pauses(tx: &Connection) -> std::result::Result<Vec<Pause>, Failure> {
    let mut pauses = tx.prepare_cached(sql::PAUSES)?;
    let pauses = pauses.query_map([], pause)?.collect::<rusqlite::Result<Vec<_>>>()?;
    // What a newer program has written and this one does not know is none of its pauses.
    Ok(pauses.into_iter().flatten().collect())
}

fn pause(row: &Row<'_>) -> rusqlite::Result<Option<Pause>> {
    let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
    let paused_at = Timestamp::from_microsecond(row.get(3)?).unwrap_or(Timestamp::UNIX_EPOCH);
    let reason = row.get(2)?;
    Ok(PauseScope::parse(&kind, &name).map(|scope| Pause { scope, reason, paused_at }))
}

#[async_trait]
impl PauseDesk for SqliteStore {
    async fn pause(&self, scope: &PauseScope, reason: &str) -> Result<bool> {
        let (kind, name) = (scope.kind(), scope.name().to_owned());
        let reason: String = reason.chars().take(PAUSE_REASON_CHARS_MAX).collect();
        self.writes
            .run("pausing messages", move |session| {
                session.write(|tx| {
                    let now = Session::now(tx)?;
                    let mut pause = tx.prepare_cached(sql::PAUSE)?;
                    let begun = pause.execute((kind, &name, &reason, now))? == 1;
                    if !begun {
                        tx.prepare_cached(sql::PAUSE_REASON)?.execute((kind, &name, &reason))?;
                    }
                    Ok(begun)
                })
            })
            .await
    }

    async fn resume(&self, scope: Option<&PauseScope>) -> Result<u64> {
        let kind = scope.map(PauseScope::kind);
        let name = scope.map(|scope| scope.name().to_owned());
        self.writes
            .run("resuming messages", move |session| {
                session.write(|tx| {
                    let ended = tx.prepare_cached(sql::RESUME)?.execute((kind, name))?;
                    Ok(u64::try_from(ended).unwrap_or(0))
                })
            })
            .await
    }

    async fn pauses(&self) -> Result<Vec<PauseStanding>> {
        self.desk
            .run("reading the pauses", |session| {
                session.read(|tx| {
                    let mut standings = tx.prepare_cached(sql::PAUSE_STANDINGS)?;
                    let standings = standings
                        .query_map([], |row| {
                            let (parked, held) = (row.get(4)?, row.get(5)?);
                            Ok(pause(row)?.map(|pause| PauseStanding::new(pause, parked, held)))
                        })?
                        .collect::<rusqlite::Result<Vec<_>>>()?;
                    Ok(standings.into_iter().flatten().collect())
                })
            })
            .await
    }
}
