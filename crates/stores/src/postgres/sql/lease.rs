//! Leases and sweeps.

use crate::postgres::schema_name::SchemaName;

/// The number of the lock on leases, in the schema `sendoff`.
pub(super) const LEASE_LOCK: i64 = 7_236_834_120_711_234_150;

/// Leases run one after the other, so that each sees what the others got, and no two of them wait
/// for each other's lanes.
pub(in crate::postgres) fn lease_lock(schema: &SchemaName) -> String {
    format!("SELECT pg_advisory_xact_lock({})", schema.lock(LEASE_LOCK))
}

/// Heartbeat, renew, give back and take. $1 the relay, $2 the lease in microseconds, $3 to $5 lanes,
/// epochs and floors to keep, $6 to $8 to give back, $9 whether to take, $10 whether to leave, $11
/// host, $12 boot id, $13 pid, $14 the program's version, $15 its target, $16 whether to take all lanes or
/// none. The first row has the number of lanes and of live relays, the others
/// are the lanes that the relay holds now.
///
/// What the relay took in a call whose answer was lost is renewed too: this answer lists it. Lanes
/// are locked in lane order, as settlements do, which a take-over waits for.
pub(in crate::postgres) const LEASE: &str = "WITH barred AS MATERIALIZED ( \
        SELECT $16::boolean AND EXISTS ( \
            SELECT 1 FROM sendoff.lane WHERE owner <> $1::text AND lease_until > now()) AS yes \
     ), beat AS ( \
        INSERT INTO sendoff.relay (id, lease_until, host, boot_id, pid, version, target) \
        SELECT $1::text, now() + $2::bigint * interval '1 microsecond', $11::text, $12::text, \
               $13::integer, $14::text, $15::text \
         WHERE NOT $10::boolean AND NOT (SELECT yes FROM barred) \
        ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, \
                                       target = excluded.target \
     ), leave AS ( \
        DELETE FROM sendoff.relay WHERE id = $1 AND ($10 OR (SELECT yes FROM barred)) \
     ), live AS MATERIALIZED ( \
        SELECT count(*) + CASE WHEN $10 OR (SELECT yes FROM barred) THEN 0 ELSE 1 END AS relays \
          FROM sendoff.relay WHERE lease_until > now() AND id <> $1 \
     ), mine AS MATERIALIZED ( \
        SELECT l.lane, l.epoch FROM sendoff.lane l WHERE l.owner = $1 \
         ORDER BY l.lane FOR NO KEY UPDATE \
     ), back AS MATERIALIZED ( \
        SELECT m.lane, r.floor FROM mine m \
          JOIN unnest($6::smallint[], $7::bigint[], $8::bigint[]) AS r (lane, epoch, floor) \
         USING (lane, epoch) \
     ), given AS ( \
        UPDATE sendoff.lane l SET owner = NULL, lease_until = NULL, floor = b.floor \
          FROM back b WHERE l.lane = b.lane \
     ), stay AS MATERIALIZED ( \
        SELECT m.lane, k.floor FROM mine m \
          LEFT JOIN unnest($3::smallint[], $4::bigint[], $5::bigint[]) AS k (lane, epoch, floor) \
         USING (lane, epoch) \
         WHERE m.lane NOT IN (SELECT lane FROM back) AND (k.floor IS NOT NULL OR NOT $10) \
     ), kept AS ( \
        UPDATE sendoff.lane l SET lease_until = now() + $2 * interval '1 microsecond', \
                                  floor = coalesce(s.floor, l.floor) \
          FROM stay s WHERE l.lane = s.lane RETURNING l.lane, l.epoch, l.floor \
     ), wanted AS MATERIALIZED ( \
        SELECT l.lane FROM sendoff.lane l \
         WHERE (l.owner IS NULL OR l.lease_until <= now()) AND l.owner IS DISTINCT FROM $1 \
           AND $9::boolean AND NOT (SELECT yes FROM barred) \
         ORDER BY random() \
         LIMIT greatest(0, (SELECT ceil((SELECT count(*) FROM sendoff.lane)::numeric \
                                        / CASE WHEN $16 THEN 1 ELSE greatest(relays, 1) END) \
                              FROM live) \
                           - (SELECT count(*) FROM kept)) \
     ), free AS MATERIALIZED ( \
        SELECT l.lane FROM sendoff.lane l \
         WHERE l.lane IN (SELECT lane FROM wanted) \
           AND (l.owner IS NULL OR l.lease_until <= now()) \
         ORDER BY l.lane FOR NO KEY UPDATE \
     ), taken AS ( \
        UPDATE sendoff.lane l SET owner = $1, epoch = l.epoch + 1, \
                                  lease_until = now() + $2 * interval '1 microsecond' \
          FROM free f WHERE l.lane = f.lane RETURNING l.lane, l.epoch, l.floor \
     ) \
     SELECT NULL::smallint, (SELECT count(*) FROM sendoff.lane), (SELECT relays FROM live) \
     UNION ALL SELECT lane, epoch, floor FROM kept \
     UNION ALL SELECT lane, epoch, floor FROM taken";

/// Gives keys in the lanes of a relay ($1) that have held rows and no blocker one: the lowest held
/// row is tried now. At most $4 keys are asked about, from after lane $2 and key $3 on. Gives how
/// many keys were seen, and the last of them.
pub(in crate::postgres) const MEND_KEYS: &str = concat!(
    "WITH RECURSIVE walk AS ( \
        (SELECT o.lane, o.key FROM sendoff.outbox o \
          WHERE o.held AND o.key IS NOT NULL AND (o.lane, o.key) > ($2::smallint, $3::text) \
          ORDER BY o.lane, o.key LIMIT 1) \
        UNION ALL \
        SELECT n.lane, n.key FROM walk w CROSS JOIN LATERAL ( \
            SELECT o.lane, o.key FROM sendoff.outbox o \
             WHERE o.held AND o.key IS NOT NULL AND (o.lane, o.key) > (w.lane, w.key) \
             ORDER BY o.lane, o.key LIMIT 1) AS n \
     ), seen AS MATERIALIZED ( \
        SELECT lane, key FROM walk LIMIT $4::bigint \
     ), k AS MATERIALIZED ( \
        SELECT s.lane, s.key FROM seen s JOIN sendoff.lane l ON l.lane = s.lane AND l.owner = $1::text \
     ), lowest AS MATERIALIZED (",
    stuck_rows!("", "1"),
    "), mended AS ( \
        UPDATE sendoff.outbox o SET held = false, retry_at = now(), holds = true \
         WHERE o.seq = ANY (ARRAY(SELECT seq FROM lowest)) AND o.held IS NOT FALSE \
     ) \
     SELECT (SELECT count(*) FROM seen), s.lane, s.key \
       FROM (SELECT 1) AS one \
       LEFT JOIN (SELECT lane, key FROM seen ORDER BY lane DESC, key DESC LIMIT 1) AS s ON true",
);

/// Deletes pairs whose horizon has passed. $1 how many are looked at, $2 the horizon in microseconds.
/// Gives how many went, and how many were looked at.
///
/// A pair whose message is still there is marked and looked at again after another horizon.
pub(in crate::postgres) const SWEEP_KEYS: &str = "WITH old AS MATERIALIZED ( \
        SELECT m.ctid, EXISTS (SELECT 1 FROM sendoff.outbox o WHERE o.seq = m.seq) AS stays \
          FROM sendoff.message_key m \
         WHERE coalesce(m.kept_at, m.sent_at) < now() - $2::bigint * interval '1 microsecond' \
         ORDER BY coalesce(m.kept_at, m.sent_at) LIMIT $1::bigint \
           FOR UPDATE OF m SKIP LOCKED \
     ), marked AS ( \
        UPDATE sendoff.message_key SET kept_at = now() \
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM old WHERE stays)) \
     ), gone AS ( \
        DELETE FROM sendoff.message_key \
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM old WHERE NOT stays)) RETURNING 1 \
     ) \
     SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM old)";

/// Folds the tally into the total, and forgets relays that are long gone.
pub(in crate::postgres) const SWEEP_TALLY: &str = "WITH folded AS ( \
        DELETE FROM sendoff.tally WHERE ctid = ANY (ARRAY( \
            SELECT ctid FROM sendoff.tally LIMIT 10000 FOR UPDATE SKIP LOCKED)) \
        RETURNING published \
     ), gone AS ( \
        DELETE FROM sendoff.relay WHERE lease_until < now() - interval '1 hour' \
     ) \
     UPDATE sendoff.total SET published = published + (SELECT sum(published) FROM folded) \
      WHERE EXISTS (SELECT 1 FROM folded)";
