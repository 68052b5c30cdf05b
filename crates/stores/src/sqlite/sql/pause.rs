//! Pauses and what is parked.

/// The retry time of what is parked: none later can be.
macro_rules! never {
    () => {
        "9223372036854775807"
    };
}

/// A row of `sendoff_parked p` whose message `o` is parked.
macro_rules! parked_rows {
    () => {
        concat!(
            "FROM sendoff_parked p JOIN sendoff_outbox o ON o.seq = p.seq AND o.retry_at = ",
            never!()
        )
    };
}

macro_rules! mark_of_pause {
    () => {
        "'pause:' || s.kind || ':' || s.name"
    };
}

pub(in crate::sqlite) const PARK: &str = concat!(
    "UPDATE sendoff_outbox SET holds = 1, retry_at = ",
    never!(),
    " WHERE seq = ?1 AND quarantined_at IS NULL"
);

pub(in crate::sqlite) const PARK_MARK: &str =
    "INSERT INTO sendoff_parked (seq, mark) VALUES (?1, ?2)
    ON CONFLICT (seq) DO UPDATE SET mark = excluded.mark";

pub(in crate::sqlite) const RECALL: &str =
    concat!("UPDATE sendoff_outbox SET retry_at = ?2 WHERE seq = ?1 AND retry_at = ", never!());

pub(in crate::sqlite) const UNMARK: &str = "DELETE FROM sendoff_parked WHERE seq = ?1";

/// The next mark in order.
pub(in crate::sqlite) const MARK_AFTER: &str =
    "SELECT min(mark) FROM sendoff_parked WHERE mark > ?1";

pub(in crate::sqlite) const OF_MARK: &str =
    "SELECT seq FROM sendoff_parked WHERE mark = ?1 ORDER BY seq LIMIT ?2";

/// The pauses, oldest first.
pub(in crate::sqlite) const PAUSES: &str =
    "SELECT kind, name, reason, paused_at FROM sendoff_pause ORDER BY paused_at, kind, name";

pub(in crate::sqlite) const PAUSE: &str = "INSERT OR IGNORE INTO sendoff_pause
    (kind, name, reason, paused_at) VALUES (?1, ?2, ?3, ?4)";

pub(in crate::sqlite) const PAUSE_REASON: &str =
    "UPDATE sendoff_pause SET reason = ?3 WHERE kind = ?1 AND name = ?2";

/// All of them where the kind is null.
pub(in crate::sqlite) const RESUME: &str =
    "DELETE FROM sendoff_pause WHERE ?1 IS NULL OR (kind = ?1 AND name = ?2)";

/// The pauses with how many rows are parked for each, and how many are held behind these.
pub(in crate::sqlite) const PAUSE_STANDINGS: &str = concat!(
    "SELECT s.kind, s.name, s.reason, s.paused_at,
        (SELECT count(*) ",
    parked_rows!(),
    " WHERE p.mark = ",
    mark_of_pause!(),
    "),
        (SELECT count(*) FROM sendoff_outbox h INDEXED BY sendoff_outbox_held
          WHERE h.held AND h.key IN (SELECT o.key ",
    parked_rows!(),
    " WHERE p.mark = ",
    mark_of_pause!(),
    "))
       FROM sendoff_pause s ORDER BY s.paused_at, s.kind, s.name"
);

/// How many rows are paused, how many are postponed (or their pause has ended), and since when the
/// oldest of these is due.
pub(in crate::sqlite) const STATS_PARKED: &str = concat!(
    "WITH parked AS (
        SELECT p.mark IN (SELECT ",
    mark_of_pause!(),
    " FROM sendoff_pause s) AS paused, max(coalesce(o.due_at, o.created_at), o.created_at) AS since ",
    parked_rows!(),
    " WHERE o.quarantined_at IS NULL AND NOT o.held)
     SELECT coalesce(sum(paused), 0), coalesce(sum(NOT paused), 0),
            min(CASE WHEN NOT paused THEN since END) FROM parked"
);
