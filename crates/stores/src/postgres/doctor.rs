//! The examination: one small function for each check.
//!
//! What does not belong here: mending. A doctor's visit changes nothing.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::store::doctor::{Limits, judge_schema, judge_stats, judge_versions};
use sendoff_core::store::{Doctor, Finding, OutboxDesk};
use sendoff_core::time::{Clock, Timestamp, whole_micros};
use sendoff_core::{Error, ErrorKind, Result};
use tokio_postgres::Row;

use super::sql;
use super::store::PostgresStore;

const DOING: &str = "examining the store";

/// A clock that is off by more than this is worth a word.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(5);
/// A table of pairs larger than this, in bytes, is worth a word.
const MESSAGE_KEY_BYTES_MAX: i64 = 8 << 30;

#[async_trait]
impl Doctor for PostgresStore {
    async fn examine(&self, limits: &Limits) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Err(error) = self.examine_all(limits, &mut findings).await {
            findings.push(unreadable(&error));
        }
        findings
    }
}

/// What made further checks impossible.
fn unreadable(error: &Error) -> Finding {
    let next = error.what_next().unwrap_or("mend that, then examine again");
    let check = match error.kind() {
        ErrorKind::Invalid => "server",
        ErrorKind::Denied => "privileges",
        _ => "reachable",
    };
    Finding::failure(check, error.to_string(), next)
}

impl PostgresStore {
    async fn examine_all(&self, limits: &Limits, findings: &mut Vec<Finding>) -> Result<()> {
        let begun = Clock::system().now();
        let rows = self.read(DOING, sql::EXAMINE_SERVER, &[]).await?;
        findings.push(Finding::ok("reachable", format!("{} answers", self.connector.address())));
        for row in &rows {
            findings.extend(server(row, begun, Clock::system().now()));
        }
        for row in &self.read(DOING, sql::EXAMINE_RIGHTS, &[]).await? {
            findings.extend(rights(row));
            if !row.get::<_, bool>(2) {
                return Ok(());
            }
        }
        let schema = judge_schema(&self.schema().await?);
        let is_usable = schema.next.is_none();
        findings.push(schema);
        if !is_usable {
            return Ok(());
        }
        let age = i64::try_from(whole_micros(limits.old_transaction)).unwrap_or(i64::MAX);
        findings.push(transactions(&self.read(DOING, sql::EXAMINE_TRANSACTIONS, &[&age]).await?));
        for row in &self.read(DOING, sql::EXAMINE_TABLES, &[]).await? {
            findings.extend(tables(row));
        }
        let blockers = self.read(DOING, sql::EXAMINE_BLOCKERS, &[]).await?;
        let blockers: Vec<String> = blockers.iter().map(|row| row.get(0)).collect();
        findings.extend(judge_stats(&self.stats().await?, &blockers, limits));
        for row in &self.read(DOING, sql::EXAMINE_RELAYS, &[]).await? {
            let versions: Vec<Option<String>> = row.get(0);
            findings.push(judge_versions(&versions, env!("CARGO_PKG_VERSION")));
            findings.push(kept_rest(row.get(1)));
        }
        Ok(())
    }
}

fn server(row: &Row, before: Timestamp, after: Timestamp) -> Vec<Finding> {
    let text = |column: usize| row.get::<_, String>(column);
    let (version, encoding) = (text(0), text(1));
    vec![
        // A connection to one that is too old, or whose text would change, is refused.
        Finding::ok("server", format!("PostgreSQL {version}, encoding {encoding}")),
        synchronous_commit(&text(2)),
        switch("fsync", &text(3), "a crash of the machine can lose or break anything"),
        switch("full-page-writes", &text(4), "a crash of the machine can break pages"),
        autovacuum(&text(5)),
        clock(row.get(6), before, after),
    ]
}

fn synchronous_commit(value: &str) -> Finding {
    const CHECK: &str = "synchronous-commit";
    if value != "off" {
        return Finding::ok(CHECK, format!("synchronous_commit is {value} here"));
    }
    Finding::warning(
        CHECK,
        "synchronous_commit is off: a crash can lose commits whose messages have left",
        "set synchronous_commit = on for every role and database that sends",
    )
}

fn switch(check: &'static str, value: &str, harm: &str) -> Finding {
    let setting = check.replace('-', "_");
    if value == "on" {
        return Finding::ok(check, format!("{setting} is on"));
    }
    let next = format!("set {setting} = on in postgresql.conf and reload");
    Finding::failure(check, format!("{setting} is {value}: {harm}"), next)
}

fn autovacuum(value: &str) -> Finding {
    if value == "on" {
        return Finding::ok("autovacuum", "autovacuum is on");
    }
    Finding::warning(
        "autovacuum",
        "autovacuum is off: dead rows pile up in the outbox",
        "set autovacuum = on in postgresql.conf and reload",
    )
}

/// By how much the server's clock is off, the time of the question set aside.
fn clock(micros: i64, before: Timestamp, after: Timestamp) -> Finding {
    let off = if micros < before.as_microsecond() {
        before.as_microsecond() - micros
    } else {
        (micros - after.as_microsecond()).max(0)
    };
    let off = Duration::from_micros(u64::try_from(off).unwrap_or(0));
    let found = format!("the server's clock and this machine's are {} ms apart", off.as_millis());
    if off <= CLOCK_DIFFERENCE_MAX {
        return Finding::ok("clock", found);
    }
    Finding::warning(
        "clock",
        found,
        "synchronise the clocks; due times and leases are by the server's, log lines by this one",
    )
}

fn rights(row: &Row) -> [Finding; 2] {
    let of = |check, column: usize, next: &str| {
        let missing: Vec<String> = row.get(column);
        if missing.is_empty() {
            return Finding::ok(check, "none is missing");
        }
        Finding::warning(check, format!("this role has no {}", missing.join(", no ")), next)
    };
    [
        of(
            "privileges-to-send",
            0,
            "GRANT USAGE ON SCHEMA sendoff TO it, and INSERT on its table outbox",
        ),
        of(
            "privileges-to-relay",
            1,
            "fine for a role that only sends, though one that may not read is told no more here; to a \
             relay's role GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES, SELECT ON ALL SEQUENCES \
             and EXECUTE ON ALL FUNCTIONS IN SCHEMA sendoff",
        ),
    ]
}

fn transactions(rows: &[Row]) -> Finding {
    const CHECK: &str = "old-transactions";
    if rows.is_empty() {
        return Finding::ok(CHECK, "no old transaction is open");
    }
    let told: Vec<String> = rows
        .iter()
        .map(|row| format!("{} since {} s", row.get::<_, String>(0), row.get::<_, i64>(1)))
        .collect();
    Finding::warning(
        CHECK,
        format!("open: {}", told.join("; ")),
        "end them, with pg_terminate_backend(pid) or ROLLBACK PREPARED: dead rows pile up behind them",
    )
}

fn tables(row: &Row) -> [Finding; 3] {
    let (off, bloated): (Vec<String>, Vec<String>) = (row.get(0), row.get(1));
    let (bytes, pairs): (i64, i64) = (row.get(2), row.get(3));
    let vacuum = if off.is_empty() {
        Finding::ok("table-vacuum", "no table's vacuum is off")
    } else {
        Finding::warning(
            "table-vacuum",
            format!("autovacuum is off for {}", off.join(", ")),
            "run ALTER TABLE sendoff.TABLE RESET (autovacuum_enabled)",
        )
    };
    let bloat = if bloated.is_empty() {
        Finding::ok("bloat", "no table has many dead rows")
    } else {
        Finding::warning(
            "bloat",
            format!("many dead rows in {}", bloated.join(", ")),
            "look for old transactions and for autovacuum being off; then VACUUM the table",
        )
    };
    let found = format!("{} MiB, about {} pairs", bytes >> 20, pairs);
    let keys = if bytes <= MESSAGE_KEY_BYTES_MAX {
        Finding::ok("message-key", found)
    } else {
        Finding::warning("message-key", found, "shorten `horizon`, and see whether a relay sweeps")
    };
    [vacuum, bloat, keys]
}

fn kept_rest(rows: i64) -> Finding {
    if rows == 0 {
        return Finding::ok("kept", "everything that is kept has a partition");
    }
    Finding::warning(
        "kept",
        format!("{rows} kept messages have no partition of their time"),
        "see whether a relay sweeps; they go once all of them are over their time",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sendoff_core::store::Grade;

    #[test]
    fn a_clock_is_off_by_what_the_question_does_not_explain() {
        let time = |micros| Timestamp::from_microsecond(micros).unwrap();
        let grade = |micros| clock(micros, time(10_000_000), time(19_000_000)).grade;
        assert_eq!(grade(10_000_000), Grade::Ok);
        assert_eq!(grade(24_000_000), Grade::Ok);
        assert_eq!(grade(24_000_001), Grade::Warning);
        assert_eq!(grade(4_999_999), Grade::Warning);
    }
}
