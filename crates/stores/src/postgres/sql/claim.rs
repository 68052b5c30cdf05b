//! Claims: rows that stay locked while they are published.

use std::time::Duration;

use super::lease::LEASE_LOCK;
use crate::postgres::schema_name::SchemaName;

/// What follows the BEGIN of a claim that lasts so long at most: the server ends a transaction whose
/// client is gone. It comes behind a transaction's other settings, of which it is to replace one.
///
/// Every claim holds the lock on leases ([`super::lease_lock`]) shared, so that no relay takes a lane
/// meanwhile.
pub(in crate::postgres) fn claim_begun(schema: &SchemaName, lasts: Duration) -> String {
    let millis = lasts.as_millis().clamp(1, 2_000_000_000);
    let lock = format!("SELECT pg_advisory_xact_lock_shared({})", schema.lock(LEASE_LOCK));
    format!("SET LOCAL idle_in_transaction_session_timeout = {millis}; {lock}")
}

/// Claims the oldest rows. $1 above this seq, $2 so many rows, $3 so many bytes. The columns are a
/// look's. The first row says who leases lanes now (in the place of the key), and how many leases have
/// lapsed and have not been given back (in the place of the seq); where there is either, nothing is
/// claimed.
///
/// What a claim locks beyond its bytes comes without being given, and stays locked to its end.
pub(in crate::postgres) const CLAIM: &str = "WITH lanes AS MATERIALIZED ( \
        SELECT min(l.owner) FILTER (WHERE l.lease_until > now()) AS owner, \
               count(*) FILTER (WHERE l.lease_until <= now()) AS lapsed \
          FROM sendoff.lane l WHERE l.owner IS NOT NULL \
     ), claimed AS MATERIALIZED ( \
        SELECT o.seq, o.lane, o.attempts, o.key, o.id, o.source, o.topic, o.headers, o.body, o.due_at, \
               o.created_at, octet_length(o.body) + pg_column_size(o.headers) AS weight \
          FROM sendoff.outbox o \
         WHERE o.seq > $1::bigint AND o.quarantined_at IS NULL \
           AND (o.due_at IS NULL OR o.due_at <= now()) \
           AND (SELECT l.owner IS NULL AND l.lapsed = 0 FROM lanes l) \
         ORDER BY o.seq LIMIT $2::bigint FOR UPDATE OF o SKIP LOCKED \
     ) \
     SELECT (-1)::smallint, l.lapsed, NULL::bigint, NULL::smallint, NULL::integer, NULL::boolean, \
            l.owner, NULL::text, NULL::text, NULL::text, NULL::jsonb, NULL::bytea, NULL::timestamptz, \
            clock_timestamp() \
       FROM lanes l \
     UNION ALL \
     SELECT 0::smallint, r.seq, NULL::bigint, r.lane, r.attempts, false, \
            r.key, r.id, r.source, r.topic, r.headers, r.body, r.due_at, \
            greatest(r.due_at, r.created_at) \
       FROM (SELECT c.*, sum(c.weight) OVER w <= $3::bigint OR sum(c.weight) OVER w = c.weight AS fits \
               FROM claimed c WINDOW w AS (ORDER BY c.seq ROWS UNBOUNDED PRECEDING)) AS r \
      WHERE r.fits";

/// Takes lanes whose lease has lapsed from their owners, who may then write no verdict any more.
pub(in crate::postgres) const FENCE_LAPSED: &str = "UPDATE sendoff.lane \
     SET owner = NULL, lease_until = NULL, epoch = epoch + 1 \
     WHERE lane = ANY (ARRAY( \
        SELECT l.lane FROM sendoff.lane l WHERE l.owner IS NOT NULL AND l.lease_until <= now() \
         ORDER BY l.lane FOR NO KEY UPDATE)) \
       AND owner IS NOT NULL AND lease_until <= now()";

/// Marks what was claimed: $1 seqs that were published, $2 the relay, $3 its target; $4 seqs that
/// failed, $5 whether it counts, $6 errors; $7 seqs for the quarantine, $8 reasons, $9 errors. Gives how
/// many rows went, and how many were changed.
///
/// One statement for both retentions, since the claim ends with it: there is no second try. It began
/// long before, so what is kept has the time of the statement, not of the transaction.
pub(in crate::postgres) const CLAIM_MARK: &str = concat!(
    "WITH gone AS ( \
        DELETE FROM sendoff.outbox WHERE seq = ANY ($1::bigint[]) RETURNING * \
     ), ",
    kept!(
        "statement_timestamp()",
        "$3::text",
        " AND (SELECT r.keeps FROM sendoff.retention r) IS TRUE"
    ),
    ", counted AS ( \
        INSERT INTO sendoff.tally (published) SELECT count(*) FROM gone HAVING count(*) > 0 \
     ), failed AS ( \
        UPDATE sendoff.outbox o \
           SET attempts = o.attempts + CASE WHEN v.counts THEN 1 ELSE 0 END, last_error = v.error \
          FROM unnest($4::bigint[], $5::boolean[], $6::text[]) AS v (seq, counts, error) \
         WHERE o.seq = ANY ($4) AND o.seq = v.seq RETURNING 1 \
     ), aside AS ( \
        UPDATE sendoff.outbox o \
           SET quarantined_at = statement_timestamp(), quarantine_reason = v.reason, \
               last_error = v.error, retry_at = NULL, parked = NULL, held = false, holds = false \
          FROM unnest($7::bigint[], $8::text[], $9::text[]) AS v (seq, reason, error) \
         WHERE o.seq = ANY ($7) AND o.seq = v.seq RETURNING 1 \
     ) \
     SELECT (SELECT count(*) FROM gone), \
            (SELECT count(*) FROM failed) + (SELECT count(*) FROM aside)"
);
