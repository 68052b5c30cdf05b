//! Settlements.
//!
//! Each is there twice: for a store that deletes what is published, and for one that keeps it. The first
//! costs what it would cost if nothing could be kept: one row is read, once. Where the store's retention
//! is the other one by now, a settlement changes nothing and says so.

/// Keeps what is `gone`, all its columns, as published by $2 at a time to a target; neither errands nor
/// what was kept before.
macro_rules! kept {
    ($now:literal, $target:literal, $and:literal) => {
        concat!(
            "marked AS ( \
            DELETE FROM sendoff.resent WHERE seq = ANY ($1) \
               AND (SELECT r.keeps FROM sendoff.retention r) IS TRUE RETURNING seq \
         ), kept AS ( \
            INSERT INTO sendoff.kept (published_at, n, seq, created_at, due_at, attempts, id, source, \
                                      topic, key, headers, body, relay, target) \
            SELECT ",
            $now,
            ", u.n::integer, g.seq, g.created_at, g.due_at, g.attempts, g.id, g.source, \
                   g.topic, g.key, g.headers, g.body, $2::text, ",
            $target,
            " FROM gone g JOIN unnest($1) WITH ORDINALITY AS u (seq, n) ON u.seq = g.seq \
             WHERE g.seq NOT IN (SELECT m.seq FROM marked m) \
               AND left(g.topic, 9) <> '$sendoff.'",
            $and,
            " )"
        )
    };
}

/// Deletes what was published, as `gone`.
macro_rules! gone {
    (deletes) => {
        "gone AS ( \
            DELETE FROM sendoff.outbox WHERE seq = ANY ($1::bigint[]) \
               AND (SELECT r.keeps FROM sendoff.retention r) IS NOT TRUE RETURNING lane, key \
         )"
    };
    (keeps) => {
        concat!(
            "gone AS ( \
            DELETE FROM sendoff.outbox WHERE seq = ANY ($1::bigint[]) \
               AND (SELECT r.keeps FROM sendoff.retention r) IS TRUE RETURNING * \
         ), ",
            kept!("now()", "(SELECT r.target FROM sendoff.relay r WHERE r.id = $2)", "")
        )
    };
}

/// Whether the store's retention is the one that the statement is for.
macro_rules! is_its_time {
    (deletes) => {
        "(SELECT r.keeps FROM sendoff.retention r) IS NOT TRUE"
    };
    (keeps) => {
        "(SELECT r.keeps FROM sendoff.retention r) IS TRUE"
    };
}

macro_rules! settle_published {
    ($retention:ident) => {
        concat!(
            "WITH ",
            gone!($retention),
            ", counted AS ( \
                INSERT INTO sendoff.tally (published) SELECT count(*) FROM gone HAVING count(*) > 0 \
             ), k AS MATERIALIZED ( \
                SELECT DISTINCT lane, key FROM gone \
                 WHERE key IS NOT NULL AND EXISTS (SELECT 1 FROM sendoff.outbox h WHERE h.held) \
             ), lowest AS MATERIALIZED (",
            stuck_rows!(" AND b.seq <> ALL ($1)", "1"),
            "), promoted AS ( \
                UPDATE sendoff.outbox o SET held = false, retry_at = now(), holds = true \
                 WHERE o.seq = ANY (ARRAY(SELECT seq FROM lowest)) AND o.held IS NOT FALSE \
             ) \
             SELECT (SELECT count(*) FROM gone), ARRAY( \
                SELECT a.n FROM sendoff.lane l \
                  JOIN unnest($3::smallint[], $4::bigint[]) WITH ORDINALITY AS a (lane, epoch, n) \
                 USING (lane, epoch) \
                 WHERE l.owner = $2::text), ",
            is_its_time!($retention)
        )
    };
}

/// A settlement of publishes only. $1 seqs, $2 the relay, $3 lanes, $4 their epochs. Gives how many
/// rows went, which of the lanes, counted from 1, are still the relay's at that epoch, and whether
/// the store's retention is this statement's.
///
/// A publish is a fact, so no lane is locked. Where something is held at all, keys that are left
/// with held rows and without a blocker go on with the lowest of them.
pub(in crate::postgres) const SETTLE_PUBLISHED: &str = settle_published!(deletes);
pub(in crate::postgres) const SETTLE_PUBLISHED_KEEPING: &str = settle_published!(keeps);

macro_rules! settle {
    ($retention:ident) => {
        concat!(
            "WITH fence AS MATERIALIZED ( \
        SELECT l.lane, l.epoch FROM sendoff.lane l \
         WHERE l.owner = $2::text AND l.lane = ANY ($3::smallint[]) \
         ORDER BY l.lane FOR NO KEY UPDATE \
     ), ours AS MATERIALIZED ( \
        SELECT lane, epoch, a.n FROM fence \
          JOIN unnest($3::smallint[], $4::bigint[]) WITH ORDINALITY AS a (lane, epoch, n) \
         USING (lane, epoch) \
     ), ",
            gone!($retention),
            ", counted AS ( \
        INSERT INTO sendoff.tally (published) SELECT count(*) FROM gone HAVING count(*) > 0 \
     ), verdict AS MATERIALIZED ( \
        SELECT v.* FROM unnest($5::bigint[], $6::smallint[], $7::bigint[], $8::boolean[], \
                               $9::bigint[], $10::boolean[], $11::text[], $12::text[], \
                               $13::boolean[]) \
               AS v (seq, lane, epoch, set_aside, wait, counts, error, reason, holds) \
          JOIN ours USING (lane, epoch) \
     ), changed AS ( \
        UPDATE sendoff.outbox o SET \
               retry_at = CASE WHEN v.set_aside THEN NULL \
                               WHEN v.reason IS NOT NULL THEN timestamptz 'infinity' \
                               ELSE now() + v.wait * interval '1 microsecond' END, \
               parked = CASE WHEN NOT v.set_aside THEN v.reason END, \
               quarantined_at = CASE WHEN v.set_aside THEN now() END, \
               quarantine_reason = CASE WHEN v.set_aside THEN v.reason END, \
               held = o.held AND NOT v.set_aside, \
               holds = v.holds, \
               attempts = o.attempts + CASE WHEN v.counts THEN 1 ELSE 0 END, \
               last_error = CASE WHEN v.set_aside OR v.reason IS NULL THEN v.error \
                                 ELSE o.last_error END \
          FROM verdict v \
         WHERE o.seq = ANY ($5) AND o.seq = v.seq AND o.quarantined_at IS NULL AND ",
            is_its_time!($retention),
            " ) \
     SELECT (SELECT count(*) FROM gone), ARRAY(SELECT n FROM ours), ",
            is_its_time!($retention)
        )
    };
}

/// A settlement of any verdicts but held ones. The parameters of [`SETTLE_PUBLISHED`], then of the
/// verdicts that are no publishes: $5 seqs, $6 lanes, $7 epochs, $8 whether it is quarantined (else
/// tried again), $9 waits in microseconds, $10 whether it counts, $11 errors, $12 reasons; a reason of one that
/// is tried again is the mark under which it is parked; $13 whether it holds others.
///
/// The lanes are locked in lane order; a take-over updates them, so either it comes first and the
/// epoch is another one, or it waits for these writes and what follows them in the transaction.
pub(in crate::postgres) const SETTLE: &str = settle!(deletes);
pub(in crate::postgres) const SETTLE_KEEPING: &str = settle!(keeps);

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
pub(in crate::postgres) const HOLD: &str = concat!(
    "UPDATE sendoff.outbox AS h SET held = true WHERE h.seq = ANY (ARRAY( \
        SELECT o.seq FROM ",
    ours!(),
    " CROSS JOIN LATERAL (SELECT * FROM sendoff.outbox o WHERE o.seq = v.seq OFFSET 0) AS o \
         WHERE o.quarantined_at IS NULL AND ",
    is_blocked!(
        "CASE WHEN o.due_at IS NOT NULL AND o.retry_at IS NULL \
                      THEN 9223372036854775807 ELSE o.seq END"
    ),
    "))",
);

/// Marks the ready rows that come after failed rows of their key. The parameters of [`HOLD`], and $5
/// how many of a lane's next ready rows are searched, since no index has them by key. A look finds
/// those beyond to be blocked.
pub(in crate::postgres) const HOLD_FOLLOWERS: &str = concat!(
    "WITH failed AS MATERIALIZED ( \
        SELECT b.lane, b.key, b.seq FROM ",
    ours!(),
    " CROSS JOIN LATERAL (SELECT * FROM sendoff.outbox o WHERE o.seq = v.seq OFFSET 0) AS b \
         WHERE b.key IS NOT NULL AND ",
    blocks!("b"),
    "), follower AS MATERIALIZED ( \
        SELECT o.seq \
          FROM (SELECT lane, min(seq) AS first FROM failed GROUP BY lane) AS l \
         CROSS JOIN LATERAL ( \
            SELECT o.seq, o.key FROM sendoff.outbox o \
             WHERE o.lane = l.lane AND o.seq > l.first AND ",
    is_ready!("o"),
    // First one probe of a hash table for each row; the few that pass are compared.
    " ORDER BY o.seq LIMIT $5::bigint) AS o \
         WHERE (o.key NOT IN (SELECT f.key FROM failed f)) IS FALSE \
           AND EXISTS (SELECT 1 FROM failed f WHERE f.key = o.key AND f.seq < o.seq) \
     ) \
     UPDATE sendoff.outbox o SET held = true WHERE o.seq = ANY (ARRAY(SELECT seq FROM follower))",
);

/// Lets go the held rows of keys whose blocker was published, and pulls the lanes' floors down to
/// it. $1 the relay, $2 seqs of the blockers, $3 lanes, $4 epochs, $5 keys, $6 at most so many rows
/// of one key. Gives how many rows were let go.
///
/// Where a key has more held rows than one statement can change in time, its lowest one
/// takes the place of the blocker: it is tried now, and the others stay held behind it.
pub(in crate::postgres) const RELEASE: &str = concat!(
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
           SET held = false, \
               retry_at = CASE WHEN o.seq = ANY (ARRAY(SELECT seq FROM free WHERE too_many AND n = 1)) \
                               THEN now() ELSE o.retry_at END, \
               holds = o.holds OR o.seq = ANY (ARRAY(SELECT seq FROM free WHERE too_many)) \
         WHERE o.seq = ANY (ARRAY(SELECT seq FROM free WHERE n = 1 OR NOT too_many)) RETURNING 1 \
     ) \
     SELECT count(*) FROM released",
);

/// After rows have gone or stopped holding, in their transaction: the keys ($1 lanes, $2 keys) that are left with held
/// rows and nothing that these wait for go on with the lowest of them.
pub(in crate::postgres) const PROMOTE: &str = concat!(
    "WITH k AS MATERIALIZED ( \
        SELECT DISTINCT lane, key FROM unnest($1::smallint[], $2::text[]) AS u (lane, key) \
         WHERE key IS NOT NULL AND EXISTS (SELECT 1 FROM sendoff.outbox h WHERE h.held) \
     ), lowest AS MATERIALIZED (",
    stuck_rows!("", "1"),
    ") UPDATE sendoff.outbox o SET held = false, retry_at = now(), holds = true \
      WHERE o.seq = ANY (ARRAY(SELECT seq FROM lowest)) AND o.held IS NOT FALSE",
);
