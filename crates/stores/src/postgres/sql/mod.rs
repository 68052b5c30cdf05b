//! All SQL of the PostgreSQL store, but for the migrations.
//!
//! Names are qualified everywhere, so that no search path matters. The relay's statements run with
//! plans that do not depend on statistics: the outbox is empty at one moment and has a million rows
//! at the next, long before it is analysed. So rows are reached by LATERAL subqueries that are not
//! flattened (LIMIT, OFFSET 0) or by `seq = ANY (array)`, never by a join that could be turned round,
//! nor with a condition that another index would answer (hence `held IS NOT FALSE`).

#[cfg(feature = "sea-orm-2")]
use std::fmt::Write;
use std::time::Duration;

use super::schema_name::SchemaName;

/// A row that its key's other rows wait for: exactly the holders' index's predicate. The index of all
/// that failed, which is there for relays of schema version 2, cannot answer it.
macro_rules! blocks {
    ($b:literal) => {
        concat!(
            "(coalesce(",
            $b,
            ".retry_at, ",
            $b,
            ".quarantined_at) IS NOT NULL AND ",
            $b,
            ".holds)"
        )
    };
}

/// Neither due later nor retrying, held or in quarantine: exactly the ready index's predicate.
macro_rules! is_ready {
    ($o:literal) => {
        concat!(
            $o,
            ".due_at IS NULL AND ",
            $o,
            ".retry_at IS NULL AND ",
            $o,
            ".quarantined_at IS NULL AND NOT ",
            $o,
            ".held"
        )
    };
}

/// Exactly the waiting index's predicate.
macro_rules! is_waiting {
    ($o:literal) => {
        concat!(
            "(",
            $o,
            ".due_at IS NOT NULL OR ",
            $o,
            ".retry_at IS NOT NULL) AND ",
            $o,
            ".quarantined_at IS NULL AND NOT ",
            $o,
            ".held"
        )
    };
}

/// A row that failed and holds, and is in line: exactly the predicate of the index that has the ends
/// of such looks.
macro_rules! is_stop {
    ($o:literal) => {
        concat!(
            $o,
            ".retry_at IS NOT NULL AND ",
            $o,
            ".quarantined_at IS NULL AND NOT ",
            $o,
            ".held AND ",
            $o,
            ".holds"
        )
    };
}

/// Whether a row `o` has to wait for an earlier one of its key, below `$before`.
///
/// The two EXISTS without a condition on the key run once per look and are nearly always false, on
/// an empty index; only then is each row asked about. A held row counts as well: when a key with
/// very many held rows is let go in several steps, a new row must not overtake the rest.
macro_rules! is_blocked {
    ($before:literal) => {
        concat!(
            "(o.key IS NOT NULL AND ( \
               (EXISTS (SELECT 1 FROM sendoff.outbox b WHERE ",
            blocks!("b"),
            ") AND EXISTS ( \
                  SELECT 1 FROM sendoff.outbox b WHERE ",
            blocks!("b"),
            " \
                     AND b.lane = o.lane AND b.key = o.key AND b.seq < ",
            $before,
            ")) \
               OR (EXISTS (SELECT 1 FROM sendoff.outbox b WHERE b.held) AND EXISTS ( \
                  SELECT 1 FROM sendoff.outbox b WHERE b.held \
                     AND b.lane = o.lane AND b.key = o.key AND b.seq < ",
            $before,
            "))))"
        )
    };
}

/// Held rows of the keys in `k` (lane, key) that nothing blocks any more, in seq order: the first
/// `$limit` of each. Blockers that are in `$but` are gone. A row that is a blocker itself waits for
/// earlier ones only, one that fell due for the first time for any.
macro_rules! stuck_rows {
    ($but:literal, $limit:literal) => {
        concat!(
            "SELECT k.lane, k.key, f.seq, f.n FROM k \
               LEFT JOIN LATERAL ( \
                 SELECT b.seq AS first FROM sendoff.outbox b \
                  WHERE b.lane = k.lane AND b.key = k.key AND ",
            blocks!("b"),
            $but,
            "     ORDER BY b.seq LIMIT 1) AS m ON true \
              CROSS JOIN LATERAL ( \
                SELECT h.seq, row_number() OVER () AS n FROM ( \
                    SELECT o.seq FROM sendoff.outbox o \
                     WHERE o.held AND o.lane = k.lane AND o.key = k.key \
                       AND o.quarantined_at IS NULL \
                       AND (m.first IS NULL OR (o.seq <= m.first \
                            AND (o.due_at IS NULL OR o.retry_at IS NOT NULL))) \
                     ORDER BY o.seq LIMIT ",
            $limit,
            ") AS h) AS f"
        )
    };
}

/// Where a message `o` of the outbox is, and the id of what holds it.
macro_rules! place_and_holder {
    () => {
        concat!(
            "CASE WHEN o.seq IS NULL THEN 'gone' WHEN o.quarantined_at IS NOT NULL THEN 'quarantined' \
                 WHEN o.held THEN 'held' WHEN o.parked IN (SELECT 'pause:' || p.kind || ':' || p.name \
                                    FROM sendoff.pause p) THEN 'paused' \
                 WHEN o.parked IS NOT NULL THEN 'postponed' \
                 WHEN o.retry_at IS NOT NULL THEN 'retrying' \
                 WHEN o.due_at > now() THEN 'due_later' ELSE 'ready' END, \
            CASE WHEN o.held THEN ( \
                SELECT b.id FROM sendoff.outbox b \
                 WHERE b.lane = o.lane AND b.key = o.key AND b.seq <> o.seq AND ",
            blocks!("b"),
            "              AND (b.seq < o.seq OR (o.due_at IS NOT NULL AND o.retry_at IS NULL)) \
                 ORDER BY b.seq LIMIT 1) END"
        )
    };
}

mod backlog;
mod barrier;
mod desk;
mod doctor;
mod keep;
mod lease;
#[macro_use]
mod look;
mod look_line;
mod pause;
mod roles;
mod schema;
#[macro_use]
mod settle;
// Behind the macros that it uses.
mod claim;
mod tail;

pub(super) use backlog::BACKLOG;
pub(super) use barrier::*;
pub(super) use claim::{CLAIM, CLAIM_MARK, FENCE_LAPSED, claim_begun};
pub(super) use desk::{COUNT_STUCK, DISCARD, FIND, HOLDERS, QUARANTINED, REQUEUE, STATS};
pub(super) use doctor::{
    EXAMINE_BLOCKERS, EXAMINE_RELAYS, EXAMINE_RIGHTS, EXAMINE_SERVER, EXAMINE_TABLES,
    EXAMINE_TRANSACTIONS,
};
pub(super) use keep::{KEEP_TURN, KEPT, RESEND, RETENTION, RETENTION_WRITE, SWEEP_RESENT};
pub(super) use lease::{LEASE, MEND_KEYS, SWEEP_KEYS, SWEEP_TALLY, lease_lock};
pub(super) use look::{LAST_SEQ, LOOK_READY, LOOK_READY_SMALL, LOOK_WAITING};
pub(super) use look_line::LOOK_LINE;
pub(super) use pause::{PAUSE, PAUSE_STANDINGS, PAUSES, RESUME, TEND};
pub(super) use roles::{
    ACKER, COORDINATOR, OPERATOR, PRIVATE, RELAY, ROLE_MADE, ROLES_RIGHTS, WRITER,
};
pub(super) use schema::{
    SCHEMA_CHANGED, SCHEMA_EXISTS, SCHEMA_MISSING, SCHEMA_RECORD, SCHEMA_USABLE, SCHEMA_VERSION,
    migration_lock,
};
pub(super) use settle::{
    HOLD, HOLD_FOLLOWERS, PROMOTE, RELEASE, SETTLE, SETTLE_KEEPING, SETTLE_PUBLISHED,
    SETTLE_PUBLISHED_KEEPING,
};
pub(super) use tail::{BODIES, RECENT};

/// The plain INSERT, for a driver that this crate does not know: a program that runs it in its own
/// transaction has sent the message. Parameters: id, source, topic, key (text; the key may be
/// null), headers (jsonb, an object of strings), body (bytea), due time (timestamptz, may be null).
pub const INSERT_SQL: &str = "INSERT INTO sendoff.outbox \
     (id, source, topic, key, headers, body, due_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// The same for many, in the order of the arrays.
pub(super) const INSERT_MANY: &str = "INSERT INTO sendoff.outbox \
     (id, source, topic, key, headers, body, due_at) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::bytea[], \
     $7::timestamptz[])";

#[cfg(any(feature = "diesel-async-0_9", feature = "sea-orm-2"))]
/// A time from microseconds since 1970, without a float on the way.
macro_rules! time_of_micros {
    ($micros:literal) => {
        concat!(
            "timestamptz '1970-01-01 00:00:00Z' + (",
            $micros,
            " / 1000000) * interval '1 second' + (",
            $micros,
            " % 1000000) * interval '1 microsecond'"
        )
    };
}

/// [`INSERT_SQL`] for drivers that bind neither jsonb nor timestamptz without a library for each: the
/// headers as text, the due time as microseconds since 1970.
#[cfg(feature = "diesel-async-0_9")]
pub(super) const INSERT_PLAIN: &str = concat!(
    "INSERT INTO sendoff.outbox (id, source, topic, key, headers, body, due_at) \
     VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, ",
    time_of_micros!("$7::bigint"),
    ")"
);

/// The same for many, in the order of the arrays.
#[cfg(feature = "diesel-async-0_9")]
pub(super) const INSERT_MANY_PLAIN: &str = concat!(
    "INSERT INTO sendoff.outbox (id, source, topic, key, headers, body, due_at) \
     SELECT u.id, u.source, u.topic, u.key, u.headers::jsonb, u.body, ",
    time_of_micros!("u.due"),
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], \
     $7::bigint[]) AS u (id, source, topic, key, headers, body, due)"
);

/// How many rows [`insert_rows`] takes: 7 parameters each, of 65,535 that a statement may have.
#[cfg(feature = "sea-orm-2")]
pub(super) const INSERT_ROWS_MAX: usize = 1_000;

/// The same for `rows` rows, seven parameters each, for drivers whose arrays take no NULL.
#[cfg(feature = "sea-orm-2")]
pub(super) fn insert_rows(rows: usize) -> String {
    let mut text = String::from(
        "INSERT INTO sendoff.outbox (id, source, topic, key, headers, body, due_at) SELECT u.id, \
         u.source, u.topic, u.key, u.headers::jsonb, u.body, ",
    );
    text.push_str(time_of_micros!("u.due"));
    text.push_str(" FROM (VALUES ");
    for row in 0..rows {
        let n = 7 * row;
        let comma = if row == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{comma}(${}::text, ${}::text, ${}::text, ${}::text, ${}::text, ${}::bytea, ${}::bigint)",
            n + 1,
            n + 2,
            n + 3,
            n + 4,
            n + 5,
            n + 6,
            n + 7
        );
    }
    text.push_str(") AS u (id, source, topic, key, headers, body, due)");
    text
}

/// The channel of wake-ups is the schema's own. The notification has no payload.
pub(super) fn listen(schema: &SchemaName) -> String {
    format!("LISTEN {}", schema.channel())
}

pub(super) fn notify(schema: &SchemaName) -> String {
    format!("NOTIFY {}", schema.channel())
}

pub(super) const HEARTBEAT: &str = "SELECT 1";

pub(super) const BEGIN: &str = "BEGIN";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";
/// Where the connection's default is not ours to set.
pub(super) const BEGIN_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Sets a relay's connection up and reads what the database is and which schema it has.
pub(super) fn relay_session(timeout: Duration) -> String {
    let settings = set("SET", &relay_settings(timeout));
    format!("{settings}; {ISOLATION}; {}", relay_questions())
}

/// Sets up a connection that works without our schema.
pub(super) fn desk_session(timeout: Duration) -> String {
    let settings = set("SET", &desk_settings(timeout));
    format!("{settings}; {ISOLATION}; {SERVER}")
}

/// Whoever set stricter defaults for isolation meant his own transactions.
const ISOLATION: &str = "SET default_transaction_isolation = 'read committed'";

/// What a relay's connection is asked first: what the database is, and which schema it has.
pub(super) fn relay_questions() -> String {
    format!("{SERVER}; {SCHEMA_VERSION}")
}

/// What the server and the database are: one row of the version's number, the encoding, and how
/// durable this connection's commits are.
pub(super) const SERVER: &str = "SELECT current_setting('server_version_num'), \
     current_setting('server_encoding'), current_setting('synchronous_commit')";

/// The statements of a relay's transaction are sent at once: one that waits for its client has lost
/// it, and holds lanes that others want.
const RELAY_IDLE: Duration = Duration::from_secs(2);

/// Settings, each behind `how`: SET or SET LOCAL.
pub(super) fn set(how: &str, settings: &[(&str, String)]) -> String {
    let settings: Vec<String> =
        settings.iter().map(|(name, value)| format!("{how} {name} = {value}")).collect();
    settings.join("; ")
}

/// What a relay's statements run with.
pub(super) fn relay_settings(timeout: Duration) -> Vec<(&'static str, String)> {
    let mut settings = bounds(timeout, RELAY_IDLE.min(timeout));
    settings.extend(
        [
            ("plan_cache_mode", "force_generic_plan"),
            ("jit", "off"),
            ("max_parallel_workers_per_gather", "0"),
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
        ]
        .map(|(name, value)| (name, value.to_owned())),
    );
    settings
}

/// What an operator's statements run with.
pub(super) fn desk_settings(timeout: Duration) -> Vec<(&'static str, String)> {
    bounds(timeout, timeout)
}

/// The server ends what the client has given up on, and an operator of a search path's schemas must
/// not stand in for ours.
fn bounds(timeout: Duration, idle: Duration) -> Vec<(&'static str, String)> {
    let millis = timeout.as_millis().to_string();
    vec![
        ("statement_timeout", millis.clone()),
        ("lock_timeout", millis),
        ("idle_in_transaction_session_timeout", idle.as_millis().to_string()),
        ("search_path", "pg_catalog, pg_temp".to_owned()),
        ("client_min_messages", "warning".to_owned()),
    ]
}
