//! The statements of the look in the order of all rows.

/// The row that failed and holds, at which the line ends.
pub(in crate::sqlite) const STOP: &str = "SELECT seq
    FROM sendoff_outbox INDEXED BY sendoff_outbox_stop
    WHERE retry_at IS NOT NULL AND quarantined_at IS NULL AND NOT held AND holds
    ORDER BY seq LIMIT 1";

/// Ready rows above `?1`, and rows whose time has come by `?2`, up to `?3`, where only a row that has
/// failed can stand. One index gives the first kind in order, the second kind is sorted.
pub(in crate::sqlite) const SEQS: &str = concat!(
    "SELECT seq FROM sendoff_outbox INDEXED BY sendoff_outbox_ready WHERE ",
    is_ready!(),
    " AND seq > ?1 AND seq < ?3
     UNION ALL
     SELECT seq FROM sendoff_outbox INDEXED BY sendoff_outbox_waiting WHERE ",
    is_waiting!(),
    " AND coalesce(retry_at, due_at) <= ?2 AND seq <= ?3 ORDER BY seq"
);

/// When the next row falls due after `?1`.
pub(in crate::sqlite) const NEXT_DUE: &str = concat!(
    "SELECT coalesce(retry_at, due_at) FROM sendoff_outbox INDEXED BY sendoff_outbox_waiting WHERE ",
    is_waiting!(),
    " AND coalesce(retry_at, due_at) > ?1 AND coalesce(retry_at, due_at) < 9223372036854775807
     ORDER BY coalesce(retry_at, due_at), seq LIMIT 1"
);

/// The blockers of the `?1` keys that have the most held rows, and the row of [`STOP`].
pub(in crate::sqlite) const HOLDERS: &str = "WITH most AS MATERIALIZED (
        SELECT key, count(*) AS n FROM sendoff_outbox INDEXED BY sendoff_outbox_held
         WHERE held AND quarantined_at IS NULL AND key IS NOT NULL
         GROUP BY key ORDER BY n DESC, key LIMIT ?1
     ), found AS (
        SELECT (SELECT b.seq FROM sendoff_outbox b INDEXED BY sendoff_outbox_holders
                 WHERE b.key = most.key
                   AND (b.retry_at IS NOT NULL OR b.quarantined_at IS NOT NULL) AND b.holds
                 ORDER BY b.seq LIMIT 1) AS seq, n FROM most
        UNION ALL
        SELECT * FROM (
            SELECT seq, 0 FROM sendoff_outbox INDEXED BY sendoff_outbox_stop
             WHERE retry_at IS NOT NULL AND quarantined_at IS NULL AND NOT held AND holds
             ORDER BY seq LIMIT 1)
     )
     SELECT o.seq, o.id, o.source, o.topic, o.key, o.quarantined_at IS NOT NULL, o.attempts,
            o.retry_at, o.last_error, max(f.n) AS n
       FROM found f JOIN sendoff_outbox o ON o.seq = f.seq
      GROUP BY o.seq ORDER BY n DESC, o.seq";
