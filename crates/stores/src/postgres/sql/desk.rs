//! The operator's side.

/// Counts.
pub(in crate::postgres) const STATS: &str = "SELECT c.*, \
        (SELECT t.published FROM sendoff.total t) \
          + coalesce((SELECT sum(published) FROM sendoff.tally), 0)::bigint, \
        (SELECT count(*) FROM sendoff.lane), \
        (SELECT count(*) FROM sendoff.lane WHERE owner IS NOT NULL AND lease_until > now()), \
        (SELECT count(*) FROM sendoff.relay WHERE lease_until > now()) \
     FROM ( \
        SELECT count(*) FILTER (WHERE p.pending), \
               count(*) FILTER (WHERE p.pending AND p.since <= now()), \
               count(*) FILTER (WHERE p.pending AND p.retry_at IS NOT NULL AND p.parked IS NULL), \
               count(*) FILTER (WHERE p.pending AND p.parked IS NOT NULL), \
               count(*) FILTER (WHERE p.held AND p.quarantined_at IS NULL), \
               count(*) FILTER (WHERE p.paused), \
               count(*) FILTER (WHERE p.quarantined_at IS NOT NULL), \
               (extract(epoch FROM now() - min(greatest(p.since, p.created_at)) \
                        FILTER (WHERE p.pending AND p.since <= now())) * 1000)::bigint \
          FROM (SELECT o.*, NOT o.held AND o.quarantined_at IS NULL AND NOT o.paused AS pending, \
                       coalesce(o.due_at, least(o.created_at, now())) AS since \
                  FROM (SELECT o.*, NOT o.held AND o.quarantined_at IS NULL \
                               AND coalesce(o.parked IN (SELECT 'pause:' || p.kind || ':' || p.name \
                                                         FROM sendoff.pause p), false) AS paused \
                          FROM sendoff.outbox o) AS o) AS p) AS c";

/// Where the messages with an id ($1) are, of every source or of one ($2).
pub(in crate::postgres) const FIND: &str = concat!(
    "SELECT m.id, m.source, m.sent_at, o.seq, o.topic, o.key, o.lane, octet_length(o.body)::bigint, \
            o.created_at, o.due_at, CASE WHEN o.parked IS NULL THEN o.retry_at END, o.attempts, \
            o.last_error, l.owner, ",
    place_and_holder!(),
    " \
       FROM sendoff.message_key m \
       LEFT JOIN sendoff.outbox o ON o.seq = m.seq \
       LEFT JOIN sendoff.lane l ON l.lane = o.lane AND l.lease_until > now() \
      WHERE m.id = $1::text AND ($2::text IS NULL OR m.source = $2) ORDER BY m.source",
);

/// The quarantine above a seq ($1), at most $2 messages.
pub(in crate::postgres) const QUARANTINED: &str = "SELECT o.seq, o.id, o.source, o.topic, o.key, o.headers, \
        octet_length(o.body)::bigint, coalesce(o.quarantine_reason, ''), coalesce(o.last_error, ''), \
        o.attempts, o.quarantined_at, \
        CASE WHEN o.holds THEN (SELECT count(*) FROM sendoff.outbox h \
                                 WHERE h.held AND h.lane = o.lane AND h.key = o.key) ELSE 0 END \
      FROM sendoff.outbox o WHERE o.quarantined_at IS NOT NULL AND o.seq > $1::bigint \
     ORDER BY o.seq LIMIT $2::bigint";

/// The blockers of the $1 keys that have the most held rows, and the first row at which the line of
/// all rows ends.
pub(in crate::postgres) const HOLDERS: &str = concat!(
    "WITH most AS MATERIALIZED ( \
        SELECT h.lane, h.key, count(*) AS n FROM sendoff.outbox h \
         WHERE h.held AND h.quarantined_at IS NULL AND h.key IS NOT NULL \
         GROUP BY h.lane, h.key ORDER BY n DESC, h.key LIMIT $1::bigint \
     ), found AS ( \
        SELECT f.seq, m.n FROM most m \
         CROSS JOIN LATERAL ( \
            SELECT b.seq FROM sendoff.outbox b WHERE ",
    blocks!("b"),
    " AND b.lane = m.lane AND b.key = m.key ORDER BY b.seq LIMIT 1) AS f \
        UNION ALL SELECT s.seq, 0 FROM ( \
            SELECT o.seq FROM sendoff.outbox o WHERE ",
    is_stop!("o"),
    " ORDER BY o.seq LIMIT 1) AS s \
     ) \
     SELECT o.seq, o.id, o.source, o.topic, o.key, o.quarantined_at IS NOT NULL, o.attempts, \
            o.retry_at, o.last_error, f.n \
       FROM (SELECT seq, max(n) AS n FROM found GROUP BY seq) AS f \
       JOIN sendoff.outbox o ON o.seq = f.seq ORDER BY f.n DESC, o.seq",
);

/// Which quarantined rows: $1 id, $2 source, $3 reason; null where it does not matter.
macro_rules! chosen {
    () => {
        "o.quarantined_at IS NOT NULL AND ($1::text IS NULL OR o.id = $1) \
         AND ($2::text IS NULL OR o.source = $2) \
         AND ($3::text IS NULL OR o.quarantine_reason = $3)"
    };
}

/// With a retry time the row stays what its key's later rows wait for, and a look finds it wherever
/// the floor is.
pub(in crate::postgres) const REQUEUE: &str = concat!(
    "UPDATE sendoff.outbox o SET quarantined_at = NULL, quarantine_reason = NULL, attempts = 0, \
            retry_at = now() WHERE ",
    chosen!()
);

/// Gives lane and key of what was deleted.
pub(in crate::postgres) const DISCARD: &str =
    concat!("DELETE FROM sendoff.outbox o WHERE ", chosen!(), " RETURNING o.lane, o.key");

/// How many rows of the keys wait for nothing any more, before [`PROMOTE`].
pub(in crate::postgres) const COUNT_STUCK: &str = concat!(
    "WITH k AS MATERIALIZED ( \
        SELECT DISTINCT lane, key FROM unnest($1::smallint[], $2::text[]) AS u (lane, key) \
     ) SELECT count(*) FROM (",
    stuck_rows!("", "ALL"),
    ") AS s",
);
