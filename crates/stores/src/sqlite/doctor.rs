//! The examination: one small function for each check.
//!
//! What does not belong here: mending. A doctor's visit changes nothing.

use async_trait::async_trait;
use rusqlite::Connection;
use sendoff_core::Error;
use sendoff_core::store::doctor::{Limits, judge_schema, judge_stats, judge_versions};
use sendoff_core::store::{Doctor, Finding};

use super::desk::{stats, text};
use super::error::Failure;
use super::options::Synchronous;
use super::store::SqliteStore;
use super::worker::Session;
use super::{schema, sql};

/// A log that is larger than this, in bytes, is worth a word: some reader keeps it from being cut.
const LOG_BYTES_MAX: u64 = 256 << 20;

#[async_trait]
impl Doctor for SqliteStore {
    async fn examine(&self, limits: &Limits) -> Vec<Finding> {
        let limits = *limits;
        let examined =
            self.desk.run("examining the store", move |session| examine(session, &limits)).await;
        examined.unwrap_or_else(|error| vec![unreadable(&error)])
    }
}

fn unreadable(error: &Error) -> Finding {
    let next = error.what_next().unwrap_or("mend that, then examine again");
    Finding::failure("reachable", error.to_string(), next)
}

fn examine(session: &Session<'_>, limits: &Limits) -> Result<Vec<Finding>, Failure> {
    session.snapshot(|tx| {
        let mut findings = vec![
            Finding::ok("reachable", format!("{} can be read", session.file.address)),
            Finding::ok("server", format!("SQLite {}", rusqlite::version())),
            journal(tx)?,
            synchronous(session.file.options.synchronous),
            log(session),
        ];
        let schema = judge_schema(&schema::schema(tx)?);
        let is_usable = schema.next.is_none();
        findings.push(schema);
        if is_usable {
            let now = Session::now(tx)?;
            findings.extend(judge_stats(&stats(tx)?, &blockers(tx)?, limits));
            findings.push(judge_versions(&versions(tx, now)?, env!("CARGO_PKG_VERSION")));
        }
        Ok(findings)
    })
}

fn journal(tx: &Connection) -> Result<Finding, Failure> {
    let mode: String = tx.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(Finding::ok("journal-mode", "journal_mode is wal"));
    }
    Ok(Finding::warning(
        "journal-mode",
        format!("journal_mode is {mode}: readers and the writer wait for each other"),
        "start `sendoff relay` or run `sendoff migrate`, which turn WAL on; a dump loses it",
    ))
}

fn synchronous(synchronous: Synchronous) -> Finding {
    const CHECK: &str = "synchronous";
    match synchronous {
        Synchronous::Full => Finding::ok(
            CHECK,
            "FULL for this program; what a send waits for is set on the sender's own connection",
        ),
        Synchronous::Normal => Finding::warning(
            CHECK,
            "NORMAL for this program: a power cut can take back its last commits",
            "set sqlite.synchronous = \"full\", and PRAGMA synchronous = FULL where you send",
        ),
    }
}

fn log(session: &Session<'_>) -> Finding {
    let mut path = session.file.path.clone().into_os_string();
    path.push("-wal");
    let bytes = std::fs::metadata(path).map_or(0, |found| found.len());
    let found = format!("the log has {} MiB", bytes >> 20);
    if bytes <= LOG_BYTES_MAX {
        return Finding::ok("old-transactions", found);
    }
    Finding::warning(
        "old-transactions",
        format!("{found}: some connection keeps an old read transaction open"),
        "end the program that reads; the log is cut by the next writes",
    )
}

/// Ids that others wait for, oldest first.
fn blockers(tx: &Connection) -> Result<Vec<String>, Failure> {
    let mut blockers = tx.prepare_cached(sql::EXAMINE_BLOCKERS)?;
    let blockers = blockers
        .query_map([], |row| Ok(text(row, 0)?.unwrap_or_default()))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(blockers)
}

fn versions(tx: &Connection, now: i64) -> Result<Vec<Option<String>>, Failure> {
    let mut versions = tx.prepare_cached(sql::EXAMINE_VERSIONS)?;
    let versions =
        versions.query_map([now], |row| text(row, 0))?.collect::<rusqlite::Result<_>>()?;
    Ok(versions)
}
