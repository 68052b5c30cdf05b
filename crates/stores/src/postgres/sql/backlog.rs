//! The backlog, counted up to a bound.

/// How much there is ($1: up to so many of each kind) and how old, in microseconds, the oldest due
/// message is. Every part stops at its LIMIT inside, whatever it then counts, so that a million rows
/// that are due later, held or set aside cost no more than the bound.
pub(in crate::postgres) const BACKLOG: &str = concat!(
    "SELECT (extract(epoch FROM now() - least(first.at, due.at, failed.at)) * 1000000)::bigint, \
            least(ready.n + due.n + failed.n, $1::bigint), held.n, quarantined.n \
       FROM (SELECT min(o.created_at) AS at \
               FROM sendoff.lane l \
              CROSS JOIN LATERAL ( \
                SELECT o.created_at FROM sendoff.outbox o \
                 WHERE o.lane = l.lane AND o.seq > l.floor AND ",
    is_ready!("o"),
    "            ORDER BY o.seq LIMIT 1) AS o) AS first, \
            (SELECT count(*) AS n FROM ( \
                SELECT 1 FROM sendoff.lane l \
                 CROSS JOIN LATERAL ( \
                    SELECT 1 FROM sendoff.outbox o \
                     WHERE o.lane = l.lane AND o.seq > l.floor AND ",
    is_ready!("o"),
    "                ORDER BY o.seq LIMIT $1::bigint) AS o LIMIT $1::bigint) AS c) AS ready, \
            (SELECT count(*) AS n, min(greatest(c.due_at, c.created_at)) AS at FROM ( \
                SELECT o.* FROM sendoff.lane l \
                 CROSS JOIN LATERAL ( \
                    SELECT o.due_at, o.retry_at, o.created_at FROM sendoff.outbox o \
                     WHERE o.lane = l.lane AND coalesce(o.retry_at, o.due_at) <= now() AND ",
    is_waiting!("o"),
    "                ORDER BY coalesce(o.retry_at, o.due_at), o.seq LIMIT $1::bigint) AS o \
                 LIMIT $1::bigint) AS c WHERE c.retry_at IS NULL) AS due, \
            (SELECT count(*) AS n, min(greatest(c.due_at, c.created_at)) AS at FROM ( \
                SELECT o.due_at, o.retry_at, o.created_at, o.held, o.quarantined_at \
                  FROM sendoff.outbox o WHERE ",
    blocks!("o"),
    "            LIMIT $1::bigint) AS c \
              WHERE c.retry_at IS NOT NULL AND c.quarantined_at IS NULL \
                AND c.held IS NOT TRUE) AS failed, \
            (SELECT count(*) AS n FROM ( \
                SELECT o.quarantined_at FROM sendoff.outbox o WHERE o.held \
                 LIMIT $1::bigint) AS c WHERE c.quarantined_at IS NULL) AS held, \
            (SELECT count(*) AS n FROM ( \
                SELECT 1 FROM sendoff.outbox o WHERE o.quarantined_at IS NOT NULL \
                 LIMIT $1::bigint) AS c) AS quarantined",
);
