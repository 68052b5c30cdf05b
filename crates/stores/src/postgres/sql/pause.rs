//! Pauses and what is parked.

/// The mark of a pause.
macro_rules! mark_of {
    ($p:literal) => {
        concat!("'pause:' || ", $p, ".kind || ':' || ", $p, ".name")
    };
}

/// The pauses, oldest first.
pub(in crate::postgres) const PAUSES: &str =
    "SELECT kind, name, reason, paused_at FROM sendoff.pause ORDER BY paused_at, kind, name";

/// Brings parked rows back. $1 the relay, $2 marks of its targets, $3 how many of each at most, $4 how
/// many under any other mark. Gives how many came back.
///
/// The marks are found by seeking from one to the next, so that a million rows under a mark that is
/// still paused cost nothing. Whoever does it, the order is kept: a row that comes back stays what its
/// key's later rows wait for, so no lane is locked.
pub(in crate::postgres) const TEND: &str = concat!(
    "WITH RECURSIVE mark AS ( \
        (SELECT o.parked FROM sendoff.outbox o WHERE o.parked IS NOT NULL \
          ORDER BY o.parked LIMIT 1) \
        UNION ALL \
        SELECT n.parked FROM mark m CROSS JOIN LATERAL ( \
            SELECT o.parked FROM sendoff.outbox o \
             WHERE o.parked IS NOT NULL AND o.parked > m.parked \
             ORDER BY o.parked LIMIT 1) AS n \
     ), room AS MATERIALIZED ( \
        SELECT m.parked, coalesce(t.rows_max, $4::bigint) AS rows_max \
          FROM (SELECT parked FROM mark LIMIT 10000) AS m \
          LEFT JOIN unnest($2::text[], $3::bigint[]) AS t (mark, rows_max) ON t.mark = m.parked \
         WHERE m.parked NOT IN (SELECT ",
    mark_of!("p"),
    " FROM sendoff.pause p) \
     ), mine AS MATERIALIZED ( \
        SELECT l.lane FROM sendoff.lane l WHERE l.owner = $1::text AND l.lease_until > now() \
     ), chosen AS MATERIALIZED ( \
        SELECT c.seq FROM room r CROSS JOIN LATERAL ( \
            SELECT x.seq FROM mine m CROSS JOIN LATERAL ( \
                SELECT o.seq FROM sendoff.outbox o \
                 WHERE o.parked IS NOT NULL AND o.parked = r.parked AND o.lane = m.lane \
                 ORDER BY o.seq LIMIT r.rows_max) AS x \
             ORDER BY x.seq LIMIT r.rows_max) AS c \
         WHERE r.rows_max > 0 \
     ), recalled AS ( \
        UPDATE sendoff.outbox o SET retry_at = now(), parked = NULL \
         WHERE o.seq = ANY (ARRAY(SELECT seq FROM chosen)) AND o.parked IS NOT NULL RETURNING 1 \
     ) \
     SELECT count(*) FROM recalled",
);

/// Pauses. $1 the kind, $2 the name, $3 the reason. Gives whether it was not paused before.
pub(in crate::postgres) const PAUSE: &str = "INSERT INTO sendoff.pause (kind, name, reason) \
     VALUES ($1::text, $2::text, $3::text) \
     ON CONFLICT (kind, name) DO UPDATE SET reason = excluded.reason RETURNING xmax = 0";

/// Resumes. $1 the kind, $2 the name; null for all.
pub(in crate::postgres) const RESUME: &str = "DELETE FROM sendoff.pause \
     WHERE $1::text IS NULL OR (kind = $1 AND name = $2::text)";

/// The pauses with how many rows are parked for each, and how many are held behind these.
pub(in crate::postgres) const PAUSE_STANDINGS: &str = concat!(
    "SELECT p.kind, p.name, p.reason, p.paused_at, \
        (SELECT count(*) FROM sendoff.outbox o \
          WHERE o.parked IS NOT NULL AND o.parked = ",
    mark_of!("p"),
    "), \
        (SELECT count(*) FROM ( \
            SELECT DISTINCT o.lane, o.key FROM sendoff.outbox o \
             WHERE o.parked IS NOT NULL AND o.key IS NOT NULL AND o.parked = ",
    mark_of!("p"),
    ") AS k \
           JOIN sendoff.outbox h ON h.held AND h.lane = k.lane AND h.key = k.key) \
       FROM sendoff.pause p ORDER BY p.paused_at, p.kind, p.name",
);
