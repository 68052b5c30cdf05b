//! All SQL of the PostgreSQL store, but for the migrations.
//!
//! Names are qualified everywhere, so that no search path matters. The relay's statements run with
//! plans that do not depend on statistics: the outbox is empty at one moment and has a million rows
//! at the next, long before it is analysed. So rows are reached by LATERAL subqueries that are not
//! flattened (LIMIT, OFFSET 0) or by `seq = ANY (array)`, never by a join that could be turned round,
//! nor with a condition that another index would answer (hence `held IS NOT FALSE`).

use std::time::Duration;

/// A row that its key's other rows wait for.
macro_rules! blocks {
    ($b:literal) => {
        concat!("(", $b, ".retry_at IS NOT NULL OR ", $b, ".quarantined_at IS NOT NULL)")
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

mod barrier;
mod desk;
mod lease;
mod look;
mod schema;
mod settle;

pub(super) use barrier::*;
pub(super) use desk::{COUNT_STUCK, DISCARD, FIND, QUARANTINED, REQUEUE, STATS};
pub(super) use lease::{LEASE, LEASE_LOCK, MEND_KEYS, SWEEP_KEYS, SWEEP_TALLY};
pub(super) use look::{LAST_SEQ, LOOK_READY, LOOK_WAITING};
pub(super) use schema::{
    MIGRATION_LOCK, SCHEMA_EXISTS, SCHEMA_MISSING, SCHEMA_RECORD, SCHEMA_VERSION,
};
pub(super) use settle::{HOLD, HOLD_FOLLOWERS, PROMOTE, RELEASE, SETTLE, SETTLE_PUBLISHED};

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

/// The channel of wake-ups. The notification has no payload.
pub(super) const LISTEN: &str = "LISTEN sendoff_outbox";
pub(super) const NOTIFY: &str = "NOTIFY sendoff_outbox";
pub(super) const HEARTBEAT: &str = "SELECT 1";

/// Sets a relay's connection up and reads the versions.
pub(super) fn relay_session(timeout: Duration) -> String {
    format!(
        "{}; \
         SET plan_cache_mode = force_generic_plan; SET jit = off; \
         SET max_parallel_workers_per_gather = 0; \
         SET enable_seqscan = off; SET enable_bitmapscan = off; \
         SELECT current_setting('server_version_num'), \
                (SELECT max(version) FROM sendoff.schema_version)",
        bounds(timeout, RELAY_IDLE.min(timeout))
    )
}

/// Sets up a connection that works without our schema.
pub(super) fn desk_session(timeout: Duration) -> String {
    format!("{}; SELECT current_setting('server_version_num')", bounds(timeout, timeout))
}

/// The statements of a relay's transaction are sent at once: one that waits for its client has lost
/// it, and holds lanes that others want.
const RELAY_IDLE: Duration = Duration::from_secs(2);

/// The server ends what the client has given up on. Whoever set stricter defaults for isolation
/// meant his own transactions; an operator of a search path's schemas must not stand in for ours.
fn bounds(timeout: Duration, idle: Duration) -> String {
    let (millis, idle) = (timeout.as_millis(), idle.as_millis());
    format!(
        "SET statement_timeout = {millis}; SET lock_timeout = {millis}; \
         SET idle_in_transaction_session_timeout = {idle}; \
         SET default_transaction_isolation = 'read committed'; \
         SET search_path = pg_catalog, pg_temp; SET client_min_messages = warning"
    )
}
