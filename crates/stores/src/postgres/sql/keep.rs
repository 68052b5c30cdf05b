//! What is kept of published messages.

pub(in crate::postgres) const RETENTION: &str =
    "SELECT r.keeps, (extract(epoch FROM r.keep_for) * 1000000)::bigint FROM sendoff.retention r";

/// $1 whether to keep, $2 how long in microseconds; null: as it was.
pub(in crate::postgres) const RETENTION_WRITE: &str = "INSERT INTO sendoff.retention AS r (keeps, keep_for) \
     VALUES ($1::boolean, coalesce($2::bigint * interval '1 microsecond', interval '7 days')) \
     ON CONFLICT (one) DO UPDATE SET keeps = excluded.keeps, \
        keep_for = coalesce($2 * interval '1 microsecond', r.keep_for)";

/// Drops partitions whose time is over, and makes the next ones.
pub(in crate::postgres) const KEEP_TURN: &str = "SELECT sendoff.keep_turn()";

/// Forgets marks of rows that are not in the outbox any more: a store that deletes behind leaves them.
/// At most $1 of the oldest marks are looked at.
pub(in crate::postgres) const SWEEP_RESENT: &str = "DELETE FROM sendoff.resent WHERE seq = ANY (ARRAY( \
        SELECT r.seq FROM (SELECT seq FROM sendoff.resent ORDER BY seq LIMIT $1::bigint) AS r \
         WHERE NOT EXISTS (SELECT 1 FROM sendoff.outbox o WHERE o.seq = r.seq)))";

/// Kept messages in the order of their first publish: published from $1 and before $2, with the id $3,
/// behind the mark of $4 to $6, at most $7.
pub(in crate::postgres) const KEPT: &str = "SELECT k.published_at, k.n::bigint, k.seq, k.id, k.source, \
        k.topic, k.key, octet_length(k.body)::bigint, k.created_at, k.attempts, k.target \
      FROM sendoff.kept k \
     WHERE ($1::timestamptz IS NULL OR k.published_at >= $1) \
       AND ($2::timestamptz IS NULL OR k.published_at < $2) \
       AND ($3::text IS NULL OR k.id = $3) \
       AND ($4::timestamptz IS NULL \
            OR (k.published_at >= $4 AND (k.published_at, k.n, k.seq) > ($4, $5::bigint, $6::bigint))) \
     ORDER BY k.published_at, k.n, k.seq LIMIT $7::bigint";

/// Sends kept messages again: $1 when they were published, $2 their seqs.
pub(in crate::postgres) const RESEND: &str =
    "SELECT sent, waiting, gone FROM sendoff.resend($1::timestamptz[], $2::bigint[])";
