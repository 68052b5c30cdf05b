//! What was sent lately.

/// The pairs that were written last, with where their messages are: the columns of [`super::FIND`], at
/// most $1. A pair that a sweep found waiting after its horizon is not new. Of one that is gone the names come from what is kept, where it is.
pub(in crate::postgres) const RECENT: &str = concat!(
    "SELECT m.id, m.source, m.sent_at, m.seq, coalesce(o.topic, k.topic), coalesce(o.key, k.key), \
            o.lane, coalesce(octet_length(o.body), k.body_bytes)::bigint, o.created_at, o.due_at, \
            CASE WHEN o.parked IS NULL THEN o.retry_at END, coalesce(o.attempts, k.attempts), \
            o.last_error, l.owner, ",
    place_and_holder!(),
    " \
       FROM (SELECT m.* FROM sendoff.message_key m WHERE m.kept_at IS NULL \
              ORDER BY coalesce(m.kept_at, m.sent_at) DESC LIMIT $1::bigint) AS m \
       LEFT JOIN LATERAL ( \
            SELECT o.* FROM sendoff.outbox o WHERE o.seq = m.seq LIMIT 1) AS o ON true \
       LEFT JOIN LATERAL ( \
            SELECT k.topic, k.key, octet_length(k.body) AS body_bytes, k.attempts \
              FROM sendoff.kept k \
             WHERE o.seq IS NULL AND k.id = m.id AND k.source = m.source \
             ORDER BY k.published_at DESC LIMIT 1) AS k ON true \
       LEFT JOIN sendoff.lane l ON l.lane = o.lane AND l.lease_until > now() \
      ORDER BY m.seq",
);

/// The first $2 bytes of the bodies of the rows $1.
pub(in crate::postgres) const BODIES: &str = "SELECT o.seq, substr(o.body, 1, $2::integer) \
      FROM sendoff.outbox o WHERE o.seq = ANY ($1::bigint[])";
