//! Looks.

/// The last seq that was given out. Run before the look whose snapshot it is compared with.
pub(in crate::postgres) const LAST_SEQ: &str = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM sendoff.outbox_seq_seq";

/// The columns of a look's rows, as `look.rs` reads them. `mark` is null but in headers and, where
/// both kinds of rows come together, in waiting ones.
///
/// state: -1 the header, 0 a message, 1 blocked, 2 left out by the byte bound (no body).
macro_rules! row_columns {
    () => {
        row_columns!("NULL::bigint")
    };
    ($mark:literal) => {
        concat!(
            "CASE WHEN NOT r.fits THEN 2 WHEN r.blocked THEN 1 ELSE 0 END::smallint, r.seq, ",
            $mark,
            ", r.lane, r.attempts, r.blocker, r.key, r.id, r.source, r.topic, \
         CASE WHEN r.fits AND NOT r.blocked THEN r.headers END, \
         CASE WHEN r.fits AND NOT r.blocked THEN r.body END, r.due_at, r.since"
        )
    };
}

/// `$commit` says whether `since` is the commit's time; the header's own `since` is now.
macro_rules! header_nulls {
    ($commit:expr) => {
        concat!(
            "NULL::smallint, NULL::integer, ",
            $commit,
            ", NULL::text, NULL::text, NULL::text, \
         NULL::text, NULL::jsonb, NULL::bytea, NULL::timestamptz, clock_timestamp()"
        )
    };
}

/// Whether the server knows when a transaction committed. Asked once for each look.
macro_rules! keeps_commit_times {
    () => {
        "current_setting('track_commit_timestamp') = 'on'"
    };
}

/// Ready rows of each lane, in lateral order: columns and source of both looks for ready rows.
macro_rules! ready_rows {
    ($weight:expr) => {
        concat!(
            "FROM unnest($1::smallint[], $2::bigint[]) AS l (lane, after) \
             CROSS JOIN LATERAL ( \
                SELECT o.seq, o.lane, o.attempts, false AS blocker, o.key, o.id, o.source, o.topic, \
                       o.headers, o.body, o.due_at, \
                       CASE WHEN (SELECT ",
            keeps_commit_times!(),
            ") THEN coalesce(pg_xact_commit_timestamp(o.xmin), o.created_at) \
                       ELSE o.created_at END AS since, ",
            $weight,
            is_blocked!("o.seq"),
            " AS blocked \
                  FROM sendoff.outbox o \
                 WHERE o.lane = l.lane AND o.seq > l.after AND ",
            is_ready!("o"),
            " AND o.seq NOT IN (SELECT k FROM unnest($3::bigint[]) AS k) \
                 ORDER BY o.seq LIMIT $5::bigint) AS p \
             LIMIT $4::bigint"
        )
    };
}

macro_rules! snapshot {
    () => {
        concat!(
            "SELECT (-1)::smallint, pg_snapshot_xmin(s)::text::bigint, \
             pg_snapshot_xmax(s)::text::bigint, ",
            header_nulls!(keeps_commit_times!()),
            " FROM pg_current_snapshot() AS s UNION ALL SELECT "
        )
    };
}

macro_rules! snapshot_header {
    () => {
        concat!(snapshot!(), row_columns!())
    };
}

/// In how many microseconds the next waiting row of the lanes $1 falls due, but for those in `$known`.
macro_rules! next_due {
    ($known:literal) => {
        concat!(
            "(extract(epoch FROM (SELECT min(t.at) \
               FROM unnest($1::smallint[]) AS l (lane) \
              CROSS JOIN LATERAL ( \
                SELECT coalesce(o.retry_at, o.due_at) AS at FROM sendoff.outbox o \
                 WHERE o.lane = l.lane AND coalesce(o.retry_at, o.due_at) > now() \
                   AND coalesce(o.retry_at, o.due_at) < 'infinity' AND ",
            is_waiting!("o"),
            " AND o.seq NOT IN (SELECT k FROM unnest(",
            $known,
            "::bigint[]) AS k) \
                 ORDER BY coalesce(o.retry_at, o.due_at), o.seq LIMIT 1) AS t) - now()) \
             * 1000000)::bigint"
        )
    };
}

/// Ready rows where none has more than an even share of the bytes, which nearly always holds and
/// costs no sum over the rows. The parameters of [`LOOK_READY`], but $6 is the share. A row that
/// has more comes without its body, as left out; then [`LOOK_READY`] has to tell what fits.
pub(in crate::postgres) const LOOK_READY_SMALL: &str = concat!(
    snapshot_header!(),
    " FROM (SELECT p.*, p.small OR p.blocked AS fits ",
    ready_rows!("octet_length(o.body) + pg_column_size(o.headers) <= $6::bigint AS small, "),
    ") AS r",
);

/// Ready rows. $1 lanes, $2 their afters, $3 known seqs, $4 rows, $5 rows of a lane (one more of
/// each is read than is given), $6 bytes.
///
/// Each lane seeks to its `after` in the ready index and stops at its limit. The window adds sizes
/// up in that order, which costs no detoasting; a body is read only where the row fits. The row at
/// which the bytes end comes without its body, to say that there is more.
pub(in crate::postgres) const LOOK_READY: &str = concat!(
    snapshot_header!(),
    " FROM ( \
        SELECT c.*, \
               sum(c.weight) OVER w <= $6::bigint OR sum(c.weight) OVER w = c.weight AS fits, \
               sum(c.weight) OVER w - c.weight <= $6 \
               OR count(*) FILTER (WHERE c.weight > 0) OVER w <= 2 AS near \
          FROM ( \
            SELECT p.*, CASE WHEN p.blocked THEN 0 \
                        ELSE octet_length(p.body) + pg_column_size(p.headers) END AS weight ",
    ready_rows!(""),
    ") AS c \
        WINDOW w AS (ROWS UNBOUNDED PRECEDING)) AS r \
     WHERE r.near",
);

/// Waiting rows whose time has come. $1 lanes, $2 known seqs, $3 rows, $4 rows of a lane, $5 bytes.
///
/// The order is by time over all lanes, but reading `rows` of each lane to give `rows` in all would
/// cost a multiple. So $4 of each lane are read, and where a lane had more, the answer ends before
/// the first row that was not read: every row given is in its place.
///
/// The header says whether something was left (seq) and in how many microseconds the next row falls
/// due (mark).
pub(in crate::postgres) const LOOK_WAITING: &str = concat!(
    "WITH found AS MATERIALIZED ( \
        SELECT f.seq, f.at, f.n \
          FROM unnest($1::smallint[]) AS l (lane) \
         CROSS JOIN LATERAL ( \
            SELECT d.seq, d.at, row_number() OVER () AS n FROM ( \
                SELECT o.seq, coalesce(o.retry_at, o.due_at) AS at \
                  FROM sendoff.outbox o \
                 WHERE o.lane = l.lane AND coalesce(o.retry_at, o.due_at) <= now() AND ",
    is_waiting!("o"),
    " AND o.seq NOT IN (SELECT k FROM unnest($2::bigint[]) AS k) \
                 ORDER BY coalesce(o.retry_at, o.due_at), o.seq LIMIT $4::bigint + 1) AS d) AS f \
     ), chosen AS MATERIALIZED ( \
        SELECT f.seq, f.at FROM found f \
         WHERE ((f.at, f.seq) < (SELECT m.at, m.seq FROM found m WHERE m.n > $4::bigint \
                                  ORDER BY m.at, m.seq LIMIT 1)) IS NOT FALSE \
         ORDER BY f.at, f.seq LIMIT $3::bigint \
     ) \
     SELECT (-1)::smallint, (SELECT count(*) FROM found) - (SELECT count(*) FROM chosen), ",
    next_due!("$2"),
    ", ",
    header_nulls!("false"),
    " UNION ALL SELECT ",
    row_columns!(),
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
                SELECT o.seq, h.at, o.lane, o.attempts, o.retry_at IS NOT NULL AND o.holds AS blocker, o.key, \
                       greatest(o.due_at, o.created_at) AS since, o.id, o.source, o.topic, o.headers, o.body, o.due_at, ",
    // A row that falls due for the first time joins its key's order now, behind all that stands
    // there; a retrying one has had its place since it was sent.
    is_blocked!("CASE WHEN o.retry_at IS NULL THEN 9223372036854775807 ELSE o.seq END"),
    " AS blocked \
                  FROM sendoff.outbox o WHERE o.seq = h.seq OFFSET 0) AS p) AS c \
        WINDOW w AS (ORDER BY c.at, c.seq ROWS UNBOUNDED PRECEDING)) AS r \
     WHERE r.near",
);
