//! Counts, finds, and what mends the quarantine.

pub(in crate::sqlite) const STATS_READY: &str = concat!(
    "SELECT count(*) FROM sendoff_outbox INDEXED BY sendoff_outbox_ready WHERE ",
    is_ready!()
);

pub(in crate::sqlite) const STATS_OLDEST_READY: &str = concat!(
    "SELECT created_at FROM sendoff_outbox INDEXED BY sendoff_outbox_ready WHERE ",
    is_ready!(),
    " ORDER BY seq LIMIT 1"
);

/// Waiting rows that are not parked, those of them that are due (a row that is tried again was), those
/// that are tried again, and since when the oldest due one is due.
pub(in crate::sqlite) const STATS_WAITING: &str = concat!(
    "SELECT count(*),
            coalesce(sum(coalesce(due_at, created_at) <= ?1), 0),
            coalesce(sum(retry_at IS NOT NULL), 0),
            min(CASE WHEN coalesce(due_at, created_at) <= ?1
                     THEN max(coalesce(due_at, created_at), created_at) END)
       FROM sendoff_outbox INDEXED BY sendoff_outbox_waiting WHERE ",
    is_waiting!(),
    " AND coalesce(retry_at, due_at) < 9223372036854775807"
);

pub(in crate::sqlite) const STATS_HELD: &str = "SELECT count(*)
    FROM sendoff_outbox INDEXED BY sendoff_outbox_held WHERE held AND quarantined_at IS NULL";

pub(in crate::sqlite) const STATS_QUARANTINED: &str = "SELECT count(*)
    FROM sendoff_outbox INDEXED BY sendoff_outbox_quarantine WHERE quarantined_at IS NOT NULL";

pub(in crate::sqlite) const STATS_PUBLISHED: &str =
    "SELECT published FROM sendoff_total WHERE one = 1";

pub(in crate::sqlite) const STATS_LEASED: &str =
    "SELECT count(*) FROM sendoff_lane WHERE owner IS NOT NULL AND lease_until > ?1";

pub(in crate::sqlite) const FIND: &str = concat!(
    "SELECT k.id, k.source, k.sent_at, sendoff_outbox.seq, topic, key, octet_length(body),
            created_at, due_at, retry_at, attempts, last_error, held, quarantined_at,
            CASE WHEN held AND key IS NOT NULL THEN (",
    blocker_of_outer!("id"),
    ") END,
            (SELECT owner FROM sendoff_lane WHERE lane = 0 AND lease_until > ?3),
            ",
    is_paused!(),
    "
       FROM sendoff_message_key k LEFT JOIN sendoff_outbox ON sendoff_outbox.seq = k.seq
      WHERE k.id = ?1 AND (?2 IS NULL OR k.source = ?2) ORDER BY k.source"
);

pub(in crate::sqlite) const QUARANTINED: &str = "SELECT seq, id, source, topic, key, headers,
        octet_length(body), quarantine_reason, last_error, attempts, quarantined_at,
        CASE WHEN key IS NULL OR NOT holds THEN 0 ELSE (
            SELECT count(*) FROM sendoff_outbox h INDEXED BY sendoff_outbox_held
             WHERE h.held AND h.key = sendoff_outbox.key) END
    FROM sendoff_outbox INDEXED BY sendoff_outbox_quarantine
    WHERE quarantined_at IS NOT NULL AND seq > ?1 ORDER BY seq LIMIT ?2";

/// A page of the quarantined rows that were chosen. The id is looked up first, where one is given.
macro_rules! chosen {
    ($which:literal) => {
        concat!(
            "SELECT seq, CAST(key AS BLOB) FROM sendoff_outbox INDEXED BY sendoff_outbox_quarantine
              WHERE quarantined_at IS NOT NULL AND seq > ?1 AND ",
            $which,
            " ORDER BY seq LIMIT ?2"
        )
    };
}

pub(in crate::sqlite) const CHOSEN_ALL: &str = chosen!("?3 IS NULL AND ?4 IS NULL");
pub(in crate::sqlite) const CHOSEN_BY_REASON: &str =
    chosen!("quarantine_reason = ?3 AND ?4 IS NULL");
pub(in crate::sqlite) const CHOSEN_BY_ID: &str = chosen!(
    "seq IN (SELECT k.seq FROM sendoff_message_key k
              WHERE k.id = ?3 AND (?4 IS NULL OR k.source = ?4))"
);

/// With a retry time the row stays what its key's later rows wait for, and a look finds it wherever
/// the floor is.
pub(in crate::sqlite) const REQUEUE: &str = "UPDATE sendoff_outbox
    SET quarantined_at = NULL, quarantine_reason = NULL, attempts = 0, retry_at = ?2
    WHERE seq = ?1";

pub(in crate::sqlite) const DISCARD: &str = "DELETE FROM sendoff_outbox WHERE seq = ?1";
