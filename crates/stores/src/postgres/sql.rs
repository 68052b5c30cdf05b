//! All SQL of the PostgreSQL store, but for the migrations.
//!
//! Names are qualified everywhere, so that no search path matters. The relay's statements run with
//! plans that do not depend on statistics: the outbox is empty at one moment and has a million rows
//! at the next, long before it is analysed.

use std::time::Duration;

/// The plain INSERT, for a driver that this crate does not know: a program that runs it in its own
/// transaction has sent the message. Parameters: id, source, topic, key (text; the key may be
/// null), headers (jsonb, an object of strings), body (bytea), due time (timestamptz, may be null).
pub const INSERT_SQL: &str = "INSERT INTO sendoff.outbox \
     (id, source, topic, key, headers, body, due_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// The same for many, in the order of the arrays.
pub(super) const INSERT_MANY: &str = "INSERT INTO sendoff.outbox \
     (id, source, topic, key, headers, body, due_at) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::bytea[], \
     $7::timestamptz[])";

/// The channel of wake-ups. The notification has no payload.
pub(super) const LISTEN: &str = "LISTEN sendoff_outbox";
pub(super) const NOTIFY: &str = "NOTIFY sendoff_outbox";
pub(super) const HEARTBEAT: &str = "SELECT 1";

/// Sets a relay's connection up and reads the versions.
pub(super) fn relay_session(timeout: Duration) -> String {
    format!(
        "{}; \
         SET plan_cache_mode = force_generic_plan; SET jit = off; \
         SET max_parallel_workers_per_gather = 0; \
         SET enable_seqscan = off; SET enable_bitmapscan = off; \
         SELECT current_setting('server_version_num'), \
                (SELECT max(version) FROM sendoff.schema_version)",
        bounds(timeout, RELAY_IDLE.min(timeout))
    )
}

/// Sets up a connection that works without our schema.
pub(super) fn desk_session(timeout: Duration) -> String {
    format!("{}; SELECT current_setting('server_version_num')", bounds(timeout, timeout))
}

/// The statements of a relay's transaction are sent at once: one that waits for its client has lost
/// it, and holds lanes that others want.
const RELAY_IDLE: Duration = Duration::from_secs(2);

/// The server ends what the client has given up on; whoever set stricter defaults for isolation
/// meant his own transactions.
fn bounds(timeout: Duration, idle: Duration) -> String {
    let (millis, idle) = (timeout.as_millis(), idle.as_millis());
    format!(
        "SET statement_timeout = {millis}; SET lock_timeout = {millis}; \
         SET idle_in_transaction_session_timeout = {idle}; \
         SET default_transaction_isolation = 'read committed'; SET client_min_messages = warning"
    )
}

/// The last seq that was given out. Run before the look whose snapshot it is compared with.
pub(super) const LAST_SEQ: &str = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM sendoff.outbox_seq_seq";

/// The columns of a look's rows, as `look.rs` reads them. `mark` is null but in the first row.
///
/// state: -1 the header, 0 a message, 1 blocked, 2 left out by the byte bound (no body).
macro_rules! row_columns {
    () => {
        "CASE WHEN NOT r.fits THEN 2 WHEN r.blocked THEN 1 ELSE 0 END::smallint, \
         r.seq, NULL::bigint, r.lane, r.attempts, r.blocker, r.key, r.id, r.source, r.topic, \
         CASE WHEN r.fits AND NOT r.blocked THEN r.headers END, \
         CASE WHEN r.fits AND NOT r.blocked THEN r.body END, r.due_at"
    };
}

macro_rules! header_nulls {
    () => {
        "NULL::smallint, NULL::integer, NULL::boolean, NULL::text, NULL::text, NULL::text, \
         NULL::text, NULL::jsonb, NULL::bytea, NULL::timestamptz"
    };
}

/// A row that its key's other rows wait for.
macro_rules! blocks {
    ($b:literal) => {
        concat!("(", $b, ".retry_at IS NOT NULL OR ", $b, ".quarantined_at IS NOT NULL)")
    };
}

/// Neither due later nor retrying, held or in quarantine: exactly the ready index's predicate.
macro_rules! is_ready {
    ($o:literal) => {
        concat!(
            $o,
            ".due_at IS NULL AND ",
            $o,
            ".retry_at IS NULL AND ",
            $o,
            ".quarantined_at IS NULL AND NOT ",
            $o,
            ".held"
        )
    };
}

/// Exactly the waiting index's predicate.
macro_rules! is_waiting {
    ($o:literal) => {
        concat!(
            "(",
            $o,
            ".due_at IS NOT NULL OR ",
            $o,
            ".retry_at IS NOT NULL) AND ",
            $o,
            ".quarantined_at IS NULL AND NOT ",
            $o,
            ".held"
        )
    };
}

/// Whether a row `o` has to wait for an earlier one of its key, below `$before`.
///
/// The two EXISTS without a condition on the key run once per look and are nearly always false, on
/// an empty index; only then is each row asked about. A held row counts as well: when a key with
/// very many held rows is let go in several steps, a new row must not overtake the rest.
macro_rules! is_blocked {
    ($before:literal) => {
        concat!(
            "(o.key IS NOT NULL AND ( \
               (EXISTS (SELECT 1 FROM sendoff.outbox b WHERE ",
            blocks!("b"),
            ") AND EXISTS ( \
                  SELECT 1 FROM sendoff.outbox b WHERE ",
            blocks!("b"),
            " \
                     AND b.lane = o.lane AND b.key = o.key AND b.seq < ",
            $before,
            ")) \
               OR (EXISTS (SELECT 1 FROM sendoff.outbox b WHERE b.held) AND EXISTS ( \
                  SELECT 1 FROM sendoff.outbox b WHERE b.held \
                     AND b.lane = o.lane AND b.key = o.key AND b.seq < ",
            $before,
            "))))"
        )
    };
}

/// Ready rows. $1 lanes, $2 their afters, $3 known seqs, $4 rows, $5 rows of a lane (one more of
/// each is read than is given), $6 bytes.
///
/// Each lane seeks to its `after` in the ready index and stops at its limit. The window adds sizes
/// up in that order, which costs no detoasting; a body is read only where the row fits. The row at
/// which the bytes end comes without its body, to say that there is more.
pub(super) const LOOK_READY: &str = concat!(
    "SELECT (-1)::smallint, pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint, ",
    header_nulls!(),
    " FROM pg_current_snapshot() AS s \
     UNION ALL SELECT ",
    row_columns!(),
    " FROM ( \
        SELECT c.*, \
               sum(c.weight) OVER w <= $6 OR sum(c.weight) OVER w = c.weight AS fits, \
               sum(c.weight) OVER w - c.weight <= $6 \
               OR count(*) FILTER (WHERE c.weight > 0) OVER w <= 2 AS near \
          FROM ( \
            SELECT p.*, CASE WHEN p.blocked THEN 0 \
                        ELSE octet_length(p.body) + pg_column_size(p.headers) END AS weight \
              FROM unnest($1::smallint[], $2::bigint[]) AS l (lane, after) \
             CROSS JOIN LATERAL ( \
                SELECT o.seq, o.lane, o.attempts, false AS blocker, o.key, o.id, o.source, o.topic, \
                       o.headers, o.body, o.due_at, ",
    is_blocked!("o.seq"),
    " AS blocked \
                  FROM sendoff.outbox o \
                 WHERE o.lane = l.lane AND o.seq > l.after AND ",
    is_ready!("o"),
    " AND o.seq NOT IN (SELECT k FROM unnest($3::bigint[]) AS k) \
                 ORDER BY o.seq LIMIT $5::bigint) AS p \
             LIMIT $4::bigint) AS c \
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
pub(super) const LOOK_WAITING: &str = concat!(
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
     SELECT (-1)::smallint, (SELECT count(*) FROM found) - (SELECT count(*) FROM chosen), \
            (extract(epoch FROM (SELECT min(t.at) \
               FROM unnest($1::smallint[]) AS l (lane) \
              CROSS JOIN LATERAL ( \
                SELECT coalesce(o.retry_at, o.due_at) AS at FROM sendoff.outbox o \
                 WHERE o.lane = l.lane AND coalesce(o.retry_at, o.due_at) > now() AND ",
    is_waiting!("o"),
    " AND o.seq NOT IN (SELECT k FROM unnest($2::bigint[]) AS k) \
                 ORDER BY coalesce(o.retry_at, o.due_at), o.seq LIMIT 1) AS t) - now()) \
             * 1000000)::bigint, ",
    header_nulls!(),
    " UNION ALL SELECT ",
    row_columns!(),
    " FROM ( \
        SELECT c.*, \
               sum(c.weight) OVER w <= $5 OR sum(c.weight) OVER w = c.weight AS fits, \
               sum(c.weight) OVER w - c.weight <= $5 \
               OR count(*) FILTER (WHERE c.weight > 0) OVER w <= 2 AS near \
          FROM ( \
            SELECT p.*, CASE WHEN p.blocked THEN 0 \
                        ELSE octet_length(p.body) + pg_column_size(p.headers) END AS weight \
              FROM chosen h \
             CROSS JOIN LATERAL ( \
                SELECT o.seq, h.at, o.lane, o.attempts, o.retry_at IS NOT NULL AS blocker, o.key, \
                       o.id, o.source, o.topic, o.headers, o.body, o.due_at, ",
    // A row that falls due for the first time joins its key's order now, behind all that stands
    // there; a retrying one has had its place since it was sent.
    is_blocked!("CASE WHEN o.retry_at IS NULL THEN 9223372036854775807 ELSE o.seq END"),
    " AS blocked \
                  FROM sendoff.outbox o WHERE o.seq = h.seq OFFSET 0) AS p) AS c \
        WINDOW w AS (ORDER BY c.at, c.seq ROWS UNBOUNDED PRECEDING)) AS r \
     WHERE r.near",
);

/// Held rows of the keys in `k` (lane, key) that nothing blocks any more, in seq order: the first
/// `$limit` of each. Blockers that are in `$but` are gone. A row that is a blocker itself waits for
/// earlier ones only, one that fell due for the first time for any.
macro_rules! stuck_rows {
    ($but:literal, $limit:literal) => {
        concat!(
            "SELECT k.lane, k.key, f.seq, f.n FROM k \
               LEFT JOIN LATERAL ( \
                 SELECT b.seq AS first FROM sendoff.outbox b \
                  WHERE b.lane = k.lane AND b.key = k.key AND ",
            blocks!("b"),
            $but,
            "     ORDER BY b.seq LIMIT 1) AS m ON true \
              CROSS JOIN LATERAL ( \
                SELECT h.seq, row_number() OVER () AS n FROM ( \
                    SELECT o.seq FROM sendoff.outbox o \
                     WHERE o.held AND o.lane = k.lane AND o.key = k.key \
                       AND o.quarantined_at IS NULL \
                       AND (m.first IS NULL OR (o.seq <= m.first \
                            AND (o.due_at IS NULL OR o.retry_at IS NOT NULL))) \
                     ORDER BY o.seq LIMIT ",
            $limit,
            ") AS h) AS f"
        )
    };
}

/// A settlement of publishes only. $1 seqs, $2 the relay, $3 lanes, $4 their epochs. Gives how many
/// rows went and which of the lanes, counted from 1, are still the relay's at that epoch.
///
/// A publish is a fact, so no lane is locked. Where something is held at all, keys that are left
/// with held rows and without a blocker go on with the lowest of them.
pub(super) const SETTLE_PUBLISHED: &str = concat!(
    "WITH gone AS ( \
        DELETE FROM sendoff.outbox WHERE seq = ANY ($1::bigint[]) RETURNING lane, key \
     ), counted AS ( \
        INSERT INTO sendoff.tally (published) SELECT count(*) FROM gone HAVING count(*) > 0 \
     ), k AS MATERIALIZED ( \
        SELECT DISTINCT lane, key FROM gone \
         WHERE key IS NOT NULL AND EXISTS (SELECT 1 FROM sendoff.outbox h WHERE h.held) \
     ), lowest AS MATERIALIZED (",
    stuck_rows!(" AND b.seq <> ALL ($1)", "1"),
    "), promoted AS ( \
        UPDATE sendoff.outbox o SET held = false, retry_at = now() \
          FROM lowest WHERE o.seq = lowest.seq AND o.held \
     ) \
     SELECT (SELECT count(*) FROM gone), ARRAY( \
        SELECT a.n FROM sendoff.lane l \
          JOIN unnest($3::smallint[], $4::bigint[]) WITH ORDINALITY AS a (lane, epoch, n) \
         USING (lane, epoch) \
         WHERE l.owner = $2::text)",
);

/// A settlement of any verdicts but held ones. The parameters of [`SETTLE_PUBLISHED`], then of the
/// verdicts that are no publishes: $5 seqs, $6 lanes, $7 epochs, $8 whether it is quarantined (else
/// tried again), $9 waits in microseconds, $10 whether it counts, $11 errors, $12 reasons.
///
/// The lanes are locked in lane order; a take-over updates them, so either it comes first and the
/// epoch is another one, or it waits for these writes and what follows them in the transaction.
pub(super) const SETTLE: &str = "WITH fence AS MATERIALIZED ( \
        SELECT l.lane, l.epoch FROM sendoff.lane l \
         WHERE l.owner = $2::text AND l.lane = ANY ($3::smallint[]) \
         ORDER BY l.lane FOR NO KEY UPDATE \
     ), ours AS MATERIALIZED ( \
        SELECT lane, epoch, a.n FROM fence \
          JOIN unnest($3::smallint[], $4::bigint[]) WITH ORDINALITY AS a (lane, epoch, n) \
         USING (lane, epoch) \
     ), gone AS ( \
        DELETE FROM sendoff.outbox WHERE seq = ANY ($1::bigint[]) RETURNING 1 \
     ), counted AS ( \
        INSERT INTO sendoff.tally (published) SELECT count(*) FROM gone HAVING count(*) > 0 \
     ), verdict AS MATERIALIZED ( \
        SELECT v.* FROM unnest($5::bigint[], $6::smallint[], $7::bigint[], $8::boolean[], \
                               $9::bigint[], $10::boolean[], $11::text[], $12::text[]) \
               AS v (seq, lane, epoch, set_aside, wait, counts, error, reason) \
          JOIN ours USING (lane, epoch) \
     ), changed AS ( \
        UPDATE sendoff.outbox o SET \
               retry_at = CASE WHEN NOT v.set_aside \
                               THEN now() + v.wait * interval '1 microsecond' END, \
               quarantined_at = CASE WHEN v.set_aside THEN now() END, \
               quarantine_reason = CASE WHEN v.set_aside THEN v.reason END, \
               held = o.held AND NOT v.set_aside, \
               attempts = o.attempts + CASE WHEN v.counts THEN 1 ELSE 0 END, \
               last_error = v.error \
          FROM verdict v WHERE o.seq = v.seq AND o.quarantined_at IS NULL \
     ) \
     SELECT (SELECT count(*) FROM gone), ARRAY(SELECT n FROM ours)";

/// Rows of `$from` (seq, lane, epoch as arrays) whose lane is still the relay's ($1), which an
/// earlier statement of the transaction has locked.
macro_rules! ours {
    () => {
        "unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS v (seq, lane, epoch) \
          JOIN sendoff.lane l ON l.lane = v.lane AND l.epoch = v.epoch AND l.owner = $1::text"
    };
}

/// Marks rows that a look found to be blocked, where they still are. $1 the relay, $2 seqs, $3
/// lanes, $4 epochs.
pub(super) const HOLD: &str = concat!(
    "UPDATE sendoff.outbox AS h SET held = true FROM ( \
        SELECT o.seq FROM ",
    ours!(),
    " CROSS JOIN LATERAL (SELECT * FROM sendoff.outbox o WHERE o.seq = v.seq OFFSET 0) AS o \
         WHERE o.quarantined_at IS NULL AND ",
    is_blocked!(
        "CASE WHEN o.due_at IS NOT NULL AND o.retry_at IS NULL \
                      THEN 9223372036854775807 ELSE o.seq END"
    ),
    ") AS f WHERE h.seq = f.seq",
);

/// Marks the ready rows that come after failed rows of their key. The parameters of [`HOLD`], and $5
/// how many of a lane's next ready rows are searched, since no index has them by key. A look finds
/// those beyond to be blocked.
pub(super) const HOLD_FOLLOWERS: &str = concat!(
    "WITH failed AS MATERIALIZED ( \
        SELECT b.lane, b.key, b.seq FROM ",
    ours!(),
    " CROSS JOIN LATERAL (SELECT * FROM sendoff.outbox o WHERE o.seq = v.seq OFFSET 0) AS b \
         WHERE b.key IS NOT NULL AND ",
    blocks!("b"),
    "), follower AS MATERIALIZED ( \
        SELECT DISTINCT o.seq \
          FROM (SELECT lane, min(seq) AS first FROM failed GROUP BY lane) AS l \
         CROSS JOIN LATERAL ( \
            SELECT o.seq, o.key FROM sendoff.outbox o \
             WHERE o.lane = l.lane AND o.seq > l.first AND ",
    is_ready!("o"),
    " ORDER BY o.seq LIMIT $5::bigint) AS o \
          JOIN failed f ON f.lane = l.lane AND f.key = o.key AND f.seq < o.seq \
     ) \
     UPDATE sendoff.outbox o SET held = true FROM follower f WHERE o.seq = f.seq",
);

/// Lets go the held rows of keys whose blocker was published, and pulls the lanes' floors down to
/// it. $1 the relay, $2 seqs of the blockers, $3 lanes, $4 epochs, $5 keys, $6 at most so many rows
/// of one key. Gives how many rows were let go.
///
/// Where a key has more held rows than one statement can change in time, its lowest one
/// takes the place of the blocker: it is tried now, and the others stay held behind it.
pub(super) const RELEASE: &str = concat!(
    "WITH k AS MATERIALIZED ( \
        SELECT v.lane, v.key, min(v.seq) AS seq \
          FROM unnest($2::bigint[], $3::smallint[], $4::bigint[], $5::text[]) \
               AS v (seq, lane, epoch, key) \
          JOIN sendoff.lane l ON l.lane = v.lane AND l.epoch = v.epoch AND l.owner = $1::text \
         GROUP BY v.lane, v.key \
     ), stuck AS MATERIALIZED (",
    stuck_rows!("", "$6::bigint + 1"),
    "), free AS MATERIALIZED ( \
        SELECT s.seq, s.n, count(*) OVER (PARTITION BY s.lane, s.key) > $6::bigint AS too_many \
          FROM stuck s \
     ), floors AS ( \
        UPDATE sendoff.lane l SET floor = p.seq \
          FROM (SELECT k.lane, min(k.seq) AS seq FROM k GROUP BY k.lane) AS p \
         WHERE l.lane = p.lane AND l.floor > p.seq \
     ), released AS ( \
        UPDATE sendoff.outbox o \
           SET held = false, retry_at = CASE WHEN f.too_many THEN now() ELSE o.retry_at END \
          FROM free f WHERE o.seq = f.seq AND (f.n = 1 OR NOT f.too_many) RETURNING 1 \
     ) \
     SELECT count(*) FROM released",
);

/// Gives keys in the lanes of a relay ($1) that have held rows and no blocker one: the lowest held
/// row is tried now. At most $4 keys are asked about, from after lane $2 and key $3 on. Gives how
/// many keys were seen, and the last of them.
pub(super) const MEND_KEYS: &str = concat!(
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
        UPDATE sendoff.outbox o SET held = false, retry_at = now() \
          FROM lowest WHERE o.seq = lowest.seq AND o.held \
     ) \
     SELECT (SELECT count(*) FROM seen), s.lane, s.key \
       FROM (SELECT 1) AS one \
       LEFT JOIN (SELECT lane, key FROM seen ORDER BY lane DESC, key DESC LIMIT 1) AS s ON true",
);

/// Heartbeat, renew, give back and take. $1 the relay, $2 the lease in microseconds, $3 to $5 lanes,
/// epochs and floors to keep, $6 to $8 to give back, $9 whether to take, $10 whether to leave, $11
/// host, $12 boot id, $13 pid. The first row has the number of lanes and of live relays, the others
/// are the lanes that the relay holds now.
///
/// What the relay took in a call whose answer was lost is renewed too: this answer lists it. Lanes
/// are locked in lane order, as settlements do, so nothing waits in a circle. Relays that ask at
/// once may both find a lane free: the lock lets one of them have it, and the other takes what is
/// left at its next call.
pub(super) const LEASE: &str = "WITH beat AS ( \
        INSERT INTO sendoff.relay (id, lease_until, host, boot_id, pid) \
        SELECT $1::text, now() + $2::bigint * interval '1 microsecond', $11::text, $12::text, \
               $13::integer \
         WHERE NOT $10::boolean \
        ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until \
     ), leave AS ( \
        DELETE FROM sendoff.relay WHERE id = $1 AND $10 \
     ), live AS MATERIALIZED ( \
        SELECT count(*) + CASE WHEN $10 THEN 0 ELSE 1 END AS relays \
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
         WHERE (l.owner IS NULL OR l.lease_until <= now()) AND l.owner IS DISTINCT FROM $1 AND $9 \
         ORDER BY random() \
         LIMIT greatest(0, (SELECT ceil((SELECT count(*) FROM sendoff.lane)::numeric \
                                        / greatest(relays, 1)) FROM live) \
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

/// Deletes pairs whose horizon has passed. $1 at most so many, $2 the horizon in microseconds.
///
/// A pair whose message is still there is marked and looked at again after another horizon.
pub(super) const SWEEP_KEYS: &str = "WITH old AS MATERIALIZED ( \
        SELECT m.id, m.source, EXISTS (SELECT 1 FROM sendoff.outbox o WHERE o.seq = m.seq) AS stays \
          FROM sendoff.message_key m \
         WHERE coalesce(m.kept_at, m.sent_at) < now() - $2::bigint * interval '1 microsecond' \
         ORDER BY coalesce(m.kept_at, m.sent_at) LIMIT $1::bigint \
           FOR UPDATE OF m SKIP LOCKED \
     ), marked AS ( \
        UPDATE sendoff.message_key m SET kept_at = now() FROM old \
         WHERE old.stays AND m.id = old.id AND m.source = old.source \
     ), gone AS ( \
        DELETE FROM sendoff.message_key m USING old \
         WHERE NOT old.stays AND m.id = old.id AND m.source = old.source RETURNING 1 \
     ) \
     SELECT count(*) FROM gone";

/// Folds the tally into the total, and forgets relays that are long gone.
pub(super) const SWEEP_TALLY: &str = "WITH folded AS ( \
        DELETE FROM sendoff.tally WHERE ctid = ANY (ARRAY( \
            SELECT ctid FROM sendoff.tally LIMIT 10000 FOR UPDATE SKIP LOCKED)) \
        RETURNING published \
     ), gone AS ( \
        DELETE FROM sendoff.relay WHERE lease_until < now() - interval '1 hour' \
     ) \
     UPDATE sendoff.total SET published = published + (SELECT sum(published) FROM folded) \
      WHERE EXISTS (SELECT 1 FROM folded)";

/// Counts.
pub(super) const STATS: &str = "SELECT c.*, \
        (SELECT t.published FROM sendoff.total t) \
          + coalesce((SELECT sum(published) FROM sendoff.tally), 0)::bigint, \
        (SELECT count(*) FROM sendoff.lane), \
        (SELECT count(*) FROM sendoff.lane WHERE owner IS NOT NULL AND lease_until > now()), \
        (SELECT count(*) FROM sendoff.relay WHERE lease_until > now()) \
     FROM ( \
        SELECT count(*) FILTER (WHERE p.pending), \
               count(*) FILTER (WHERE p.pending AND p.since <= now()), \
               count(*) FILTER (WHERE p.pending AND p.retry_at IS NOT NULL), \
               count(*) FILTER (WHERE p.held AND p.quarantined_at IS NULL), \
               count(*) FILTER (WHERE p.quarantined_at IS NOT NULL), \
               (extract(epoch FROM now() - min(greatest(p.since, p.created_at)) \
                        FILTER (WHERE p.pending AND p.since <= now())) * 1000)::bigint \
          FROM (SELECT o.*, NOT o.held AND o.quarantined_at IS NULL AS pending, \
                       coalesce(o.due_at, least(o.created_at, now())) AS since \
                  FROM sendoff.outbox o) AS p) AS c";

/// Where the messages with an id ($1) are, of every source or of one ($2).
pub(super) const FIND: &str = concat!(
    "SELECT m.id, m.source, m.sent_at, o.seq, o.topic, o.key, o.lane, octet_length(o.body)::bigint, \
            o.created_at, o.due_at, o.retry_at, o.attempts, o.last_error, l.owner, \
            CASE WHEN o.seq IS NULL THEN 'gone' WHEN o.quarantined_at IS NOT NULL THEN 'quarantined' \
                 WHEN o.held THEN 'held' WHEN o.retry_at IS NOT NULL THEN 'retrying' \
                 WHEN o.due_at > now() THEN 'due_later' ELSE 'ready' END, \
            CASE WHEN o.held THEN ( \
                SELECT b.id FROM sendoff.outbox b \
                 WHERE b.lane = o.lane AND b.key = o.key AND b.seq <> o.seq AND ",
    blocks!("b"),
    "              AND (b.seq < o.seq OR (o.due_at IS NOT NULL AND o.retry_at IS NULL)) \
                 ORDER BY b.seq LIMIT 1) END \
       FROM sendoff.message_key m \
       LEFT JOIN sendoff.outbox o ON o.seq = m.seq \
       LEFT JOIN sendoff.lane l ON l.lane = o.lane AND l.lease_until > now() \
      WHERE m.id = $1::text AND ($2::text IS NULL OR m.source = $2) ORDER BY m.source",
);

/// The quarantine above a seq ($1), at most $2 messages.
pub(super) const QUARANTINED: &str = "SELECT o.seq, o.id, o.source, o.topic, o.key, o.headers, \
        octet_length(o.body)::bigint, coalesce(o.quarantine_reason, ''), coalesce(o.last_error, ''), \
        o.attempts, o.quarantined_at, \
        (SELECT count(*) FROM sendoff.outbox h WHERE h.held AND h.lane = o.lane AND h.key = o.key) \
      FROM sendoff.outbox o WHERE o.quarantined_at IS NOT NULL AND o.seq > $1::bigint \
     ORDER BY o.seq LIMIT $2::bigint";

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
pub(super) const REQUEUE: &str = concat!(
    "UPDATE sendoff.outbox o SET quarantined_at = NULL, quarantine_reason = NULL, attempts = 0, \
            retry_at = now() WHERE ",
    chosen!()
);

/// Gives lane and key of what was deleted.
pub(super) const DISCARD: &str =
    concat!("DELETE FROM sendoff.outbox o WHERE ", chosen!(), " RETURNING o.lane, o.key");

/// After rows have gone, in their transaction: the keys ($1 lanes, $2 keys) that are left with held
/// rows and nothing that these wait for go on with the lowest of them.
pub(super) const PROMOTE: &str = concat!(
    "WITH k AS MATERIALIZED ( \
        SELECT DISTINCT lane, key FROM unnest($1::smallint[], $2::text[]) AS u (lane, key) \
         WHERE key IS NOT NULL AND EXISTS (SELECT 1 FROM sendoff.outbox h WHERE h.held) \
     ), lowest AS MATERIALIZED (",
    stuck_rows!("", "1"),
    ") UPDATE sendoff.outbox o SET held = false, retry_at = now() \
         FROM lowest WHERE o.seq = lowest.seq AND o.held",
);

/// How many rows of the keys wait for nothing any more, before [`PROMOTE`].
pub(super) const COUNT_STUCK: &str = concat!(
    "WITH k AS MATERIALIZED ( \
        SELECT DISTINCT lane, key FROM unnest($1::smallint[], $2::text[]) AS u (lane, key) \
     ) SELECT count(*) FROM (",
    stuck_rows!("", "ALL"),
    ") AS s",
);

/// Held while migrating; two migrations at once run one after the other.
pub(super) const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(7236834120711234149)";

/// The schema's version, 0 where there is none.
pub(super) const SCHEMA_EXISTS: &str = "SELECT to_regclass('sendoff.schema_version') IS NOT NULL";
pub(super) const SCHEMA_VERSION: &str =
    "SELECT coalesce(max(version), 0) FROM sendoff.schema_version";
pub(super) const SCHEMA_RECORD: &str = "INSERT INTO sendoff.schema_version (version, checksum) \
     VALUES ($1::integer, md5($2::text)) \
     ON CONFLICT (version) DO UPDATE SET checksum = excluded.checksum";

/// Which of the names $1 are not there, as tables, indexes or sequences; of $2, as functions; of
/// $3, as triggers of the outbox that are on. And a sequence that draws ahead.
pub(super) const SCHEMA_MISSING: &str = "SELECT 'sendoff.' || n FROM unnest($1::text[]) AS n \
      WHERE to_regclass('sendoff.' || n) IS NULL \
     UNION ALL SELECT 'sendoff.' || n || '()' FROM unnest($2::text[]) AS n \
      WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_proc p WHERE p.proname = n \
                           AND p.pronamespace = to_regnamespace('sendoff')) \
     UNION ALL SELECT 'the trigger ' || n FROM unnest($3::text[]) AS n \
      WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t WHERE t.tgname = n \
                           AND t.tgrelid = to_regclass('sendoff.outbox') AND t.tgenabled <> 'D') \
     UNION ALL SELECT 'CACHE 1 on the sequence sendoff.outbox_seq_seq' \
      WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_sequence s \
                     WHERE s.seqrelid = to_regclass('sendoff.outbox_seq_seq') AND s.seqcache <> 1)";
