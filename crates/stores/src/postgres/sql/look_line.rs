//! The look in the order of all rows.

/// The beginning of the line of all rows. $1 lanes, $2 their afters, $3 known seqs, $4 rows, $5 bytes,
/// $6 rows of a lane.
///
/// Only seqs are gathered from the lanes, and of those the lowest are read. Where a lane had more than
/// was gathered, the answer ends before the first row that was not. Rows whose time has come are
/// found by it, all of them: which of them is the lowest no index knows.
///
/// A second header (state -2) says whether the line ends at a row that failed and holds (1) and whether
/// something was left (2) as a sum (seq), and in how many microseconds the next row falls due (mark).
pub(in crate::postgres) const LOOK_LINE: &str = concat!(
    "WITH stop AS MATERIALIZED ( \
        SELECT o.seq FROM sendoff.outbox o WHERE ",
    is_stop!("o"),
    " ORDER BY o.seq LIMIT 1 \
     ), upto AS MATERIALIZED ( \
        SELECT coalesce((SELECT seq FROM stop), 9223372036854775807) AS seq \
     ), found AS MATERIALIZED ( \
        SELECT p.seq, row_number() OVER (PARTITION BY l.lane ORDER BY p.seq) AS n \
          FROM unnest($1::smallint[], $2::bigint[]) AS l (lane, after) \
         CROSS JOIN LATERAL ( \
            SELECT o.seq FROM sendoff.outbox o \
             WHERE o.lane = l.lane AND o.seq > l.after AND ",
    is_ready!("o"),
    " AND o.seq < (SELECT seq FROM upto) \
               AND o.seq NOT IN (SELECT k FROM unnest($3::bigint[]) AS k) \
             ORDER BY o.seq LIMIT $6::bigint + 1) AS p \
        UNION ALL \
        SELECT p.seq, 0 FROM unnest($1::smallint[]) AS l (lane) \
         CROSS JOIN LATERAL ( \
            SELECT o.seq FROM sendoff.outbox o \
             WHERE o.lane = l.lane AND coalesce(o.retry_at, o.due_at) <= now() AND ",
    is_waiting!("o"),
    " AND o.seq NOT IN (SELECT k FROM unnest($3::bigint[]) AS k) \
             ORDER BY coalesce(o.retry_at, o.due_at), o.seq OFFSET 0) AS p \
         WHERE p.seq <= (SELECT seq FROM upto) \
     ), chosen AS MATERIALIZED ( \
        SELECT f.seq FROM found f \
         WHERE (f.seq < (SELECT min(m.seq) FROM found m WHERE m.n > $6)) IS NOT FALSE \
         ORDER BY f.seq LIMIT $4::bigint \
     ) ",
    snapshot!(),
    "(-2)::smallint, \
     (SELECT count(*) FROM stop) \
       + CASE WHEN (SELECT count(*) FROM found) > (SELECT count(*) FROM chosen) THEN 2 ELSE 0 END, ",
    next_due!("$3"),
    ", ",
    header_nulls!("false"),
    " UNION ALL SELECT ",
    row_columns!("r.waiting"),
    " FROM ( \
        SELECT c.*, \
               sum(c.weight) OVER w <= $5::bigint OR sum(c.weight) OVER w = c.weight AS fits, \
               sum(c.weight) OVER w - c.weight <= $5 \
               OR count(*) FILTER (WHERE c.weight > 0) OVER w <= 2 AS near \
          FROM ( \
            SELECT p.*, CASE WHEN p.blocked THEN 0 \
                        ELSE octet_length(p.body) + pg_column_size(p.headers) END AS weight \
              FROM chosen h \
             CROSS JOIN LATERAL ( \
                SELECT o.seq, o.lane, o.attempts, o.retry_at IS NOT NULL AND o.holds AS blocker, \
                       o.key, o.id, o.source, o.topic, o.headers, o.body, o.due_at, \
                       greatest(o.due_at, CASE WHEN o.retry_at IS NULL AND (SELECT ",
    keeps_commit_times!(),
    ") THEN coalesce(pg_xact_commit_timestamp(o.xmin), o.created_at) \
                            ELSE o.created_at END) AS since, \
                       CASE WHEN coalesce(o.retry_at, o.due_at) IS NOT NULL THEN 1 END::bigint \
                       AS waiting, ",
    is_blocked!(
        "CASE WHEN o.due_at IS NOT NULL AND o.retry_at IS NULL \
                      THEN 9223372036854775807 ELSE o.seq END"
    ),
    " AS blocked \
                  FROM sendoff.outbox o WHERE o.seq = h.seq OFFSET 0) AS p) AS c \
        WINDOW w AS (ORDER BY c.seq ROWS UNBOUNDED PRECEDING)) AS r \
     WHERE r.near",
);
