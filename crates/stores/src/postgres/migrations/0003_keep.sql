-- What is kept of published messages, and what a schema says of the programs that may use it.

-- The least schema version that a program has to know to use this one; null: this one. A version that
-- only adds leaves the programs of the version before at work.
ALTER TABLE sendoff.schema_version ADD COLUMN IF NOT EXISTS usable_from integer;

ALTER TABLE sendoff.relay ADD COLUMN IF NOT EXISTS version text;
ALTER TABLE sendoff.relay ADD COLUMN IF NOT EXISTS target text;

-- One row: whether published messages are kept, and for how long. keep_for stays as it was where keeping
-- is turned off, so that what was kept goes at its time.
CREATE TABLE IF NOT EXISTS sendoff.retention (
    one      boolean  PRIMARY KEY DEFAULT true CHECK (one),
    keeps    boolean  NOT NULL DEFAULT false,
    keep_for interval NOT NULL DEFAULT interval '7 days' CHECK (keep_for >= interval '1 minute')
);
INSERT INTO sendoff.retention DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Published messages, as they stood in the outbox. n is the place within the settlement: messages of one
-- key come in the order of their publishes by (published_at, n). The partitions are made ahead by
-- keep_turn() and dropped whole; what has none goes to the rest, so that a settlement never fails.
CREATE TABLE IF NOT EXISTS sendoff.kept (
    published_at timestamptz NOT NULL,
    n            integer     NOT NULL,
    seq          bigint      NOT NULL,
    created_at   timestamptz NOT NULL,
    due_at       timestamptz,
    attempts     integer     NOT NULL,
    id           text        COLLATE "C" NOT NULL,
    source       text        COLLATE "C" NOT NULL,
    topic        text        COLLATE "C" NOT NULL,
    key          text        COLLATE "C",
    headers      jsonb       NOT NULL,
    body         bytea       NOT NULL,
    relay        text,
    target       text
) PARTITION BY RANGE (published_at);
CREATE INDEX IF NOT EXISTS kept_time ON sendoff.kept (published_at, n, seq);
CREATE INDEX IF NOT EXISTS kept_id ON sendoff.kept (id);
DO $$ BEGIN
    IF to_regclass('sendoff.kept_rest') IS NULL THEN
        CREATE TABLE sendoff.kept_rest PARTITION OF sendoff.kept DEFAULT;
    END IF;
END $$;

-- The partitions that keep_turn() made, with their bounds.
CREATE TABLE IF NOT EXISTS sendoff.kept_partition (
    name    text        PRIMARY KEY,
    from_at timestamptz NOT NULL,
    to_at   timestamptz NOT NULL
);

-- Positions in the outbox of messages that were kept at their first publish and are sent again: they
-- are not kept a second time.
CREATE TABLE IF NOT EXISTS sendoff.resent (seq bigint PRIMARY KEY)
    WITH (autovacuum_vacuum_threshold = 1000, vacuum_truncate = false);

-- Drops partitions whose time is over and makes the next ones, two ahead: at most some twenty are there
-- at once, however long is kept. Answers how many were dropped. Whoever comes while another is at it
-- does nothing; a lock that is not to be had soon is left for the next time, since settlements would
-- queue behind it. With the definer's rights: a relay may not make tables.
CREATE OR REPLACE FUNCTION sendoff.keep_turn() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' SET client_min_messages = warning
AS $$
DECLARE
    keeps    boolean;
    keep_for interval;
    span     double precision;
    old      record;
    from_at  timestamptz;
    to_at    timestamptz;
    ahead    timestamptz;
    name     text;
    dropped  integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(7236834120711234151) THEN RETURN 0; END IF;
    SELECT r.keeps, r.keep_for INTO keeps, keep_for FROM sendoff.retention r;
    FOR old IN SELECT p.name FROM sendoff.kept_partition p
                WHERE p.to_at < now() - keep_for ORDER BY p.to_at LOOP
        EXECUTE format('DROP TABLE IF EXISTS sendoff.%I', old.name);
        DELETE FROM sendoff.kept_partition p WHERE p.name = old.name;
        dropped := dropped + 1;
    END LOOP;
    IF EXISTS (SELECT 1 FROM sendoff.kept_rest)
       AND (SELECT max(k.published_at) FROM sendoff.kept_rest k) < now() - keep_for THEN
        TRUNCATE sendoff.kept_rest;
        dropped := dropped + 1;
    END IF;
    IF keeps IS NOT TRUE THEN RETURN dropped; END IF;

    -- A sixteenth of the time, in whole hours.
    span := greatest(1, ceil(extract(epoch FROM keep_for) / 16 / 3600)) * 3600;
    ahead := now() + 2 * span * interval '1 second';
    SELECT max(p.to_at) INTO to_at FROM sendoff.kept_partition p;
    WHILE to_at IS NULL OR to_at < ahead LOOP
        -- Behind what is there, what has gone to the rest, and the past.
        from_at := greatest(to_at, now(), (SELECT max(k.published_at) FROM sendoff.kept_rest k)
                                          + interval '1 microsecond');
        to_at := to_timestamp((floor(extract(epoch FROM from_at) / span) + 1) * span);
        name := 'kept_' || to_char(from_at AT TIME ZONE 'UTC', 'YYYYMMDD"t"HH24MISSUS');
        -- Made apart and attached, so that no settlement waits for it.
        EXECUTE format('CREATE TABLE sendoff.%I (LIKE sendoff.kept INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE sendoff.kept ATTACH PARTITION sendoff.%I FOR VALUES FROM (%L) TO (%L)',
                       name, from_at, to_at);
        INSERT INTO sendoff.kept_partition VALUES (name, from_at, to_at);
    END LOOP;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;

-- Puts kept messages back into the outbox, in the order of their first publish, in the caller's
-- transaction: `published` and `seqs` name them, as sendoff.kept has them. The same source and id, so
-- the pairs are taken out and written anew. With the definer's rights and for nobody who was not given
-- it: a sender may not send a pair a second time.
CREATE OR REPLACE FUNCTION sendoff.resend(
    published timestamptz[], seqs bigint[], OUT sent bigint, OUT waiting bigint, OUT gone bigint
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found_at  timestamptz[];
    found     bigint[];
    chosen_at timestamptz[];
    chosen    bigint[];
BEGIN
    SELECT array_agg(k.published_at), array_agg(k.seq) INTO found_at, found
      FROM (SELECT DISTINCT u.at, u.seq FROM unnest(published, seqs) AS u (at, seq)) AS u
     CROSS JOIN LATERAL (SELECT k.published_at, k.seq FROM sendoff.kept k
                          WHERE k.published_at = u.at AND k.seq = u.seq LIMIT 1) AS k;
    gone := cardinality(seqs) - coalesce(cardinality(found), 0);
    -- Whoever sends or sweeps one of these pairs now is waited for, and waits.
    PERFORM 1 FROM unnest(found_at, found) AS u (at, seq)
     CROSS JOIN LATERAL (SELECT k.id, k.source FROM sendoff.kept k
                          WHERE k.published_at = u.at AND k.seq = u.seq LIMIT 1) AS k
      JOIN sendoff.message_key m ON m.id = k.id AND m.source = k.source
     ORDER BY m.id, m.source FOR UPDATE OF m;
    -- The first publish of each pair that is not in the outbox now.
    SELECT array_agg(c.published_at), array_agg(c.seq) INTO chosen_at, chosen
      FROM (SELECT DISTINCT ON (k.id, k.source) k.published_at, k.seq
              FROM unnest(found_at, found) AS u (at, seq)
             CROSS JOIN LATERAL (SELECT k.* FROM sendoff.kept k
                                  WHERE k.published_at = u.at AND k.seq = u.seq LIMIT 1) AS k
             WHERE NOT EXISTS (SELECT 1 FROM sendoff.message_key m
                                 JOIN sendoff.outbox o ON o.seq = m.seq
                                WHERE m.id = k.id AND m.source = k.source)
             ORDER BY k.id, k.source, k.published_at, k.n) AS c;
    DELETE FROM sendoff.message_key m
     USING unnest(chosen_at, chosen) AS u (at, seq)
     CROSS JOIN LATERAL (SELECT k.id, k.source FROM sendoff.kept k
                          WHERE k.published_at = u.at AND k.seq = u.seq LIMIT 1) AS k
     WHERE m.id = k.id AND m.source = k.source;
    INSERT INTO sendoff.outbox (id, source, topic, key, headers, body)
    SELECT k.id, k.source, k.topic, k.key, k.headers, k.body
      FROM unnest(chosen_at, chosen) AS u (at, seq)
     CROSS JOIN LATERAL (SELECT k.* FROM sendoff.kept k
                          WHERE k.published_at = u.at AND k.seq = u.seq LIMIT 1) AS k
     ORDER BY k.published_at, k.n, k.seq;
    INSERT INTO sendoff.resent (seq)
    SELECT m.seq
      FROM unnest(chosen_at, chosen) AS u (at, seq)
     CROSS JOIN LATERAL (SELECT k.id, k.source FROM sendoff.kept k
                          WHERE k.published_at = u.at AND k.seq = u.seq LIMIT 1) AS k
      JOIN sendoff.message_key m ON m.id = k.id AND m.source = k.source
        ON CONFLICT DO NOTHING;
    sent := coalesce(cardinality(chosen), 0);
    waiting := coalesce(cardinality(found), 0) - sent;
END
$$;
REVOKE ALL ON FUNCTION sendoff.resend(timestamptz[], bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION sendoff.keep_turn() FROM PUBLIC;

-- Whoever is a relay here goes on being one: it may delete from the outbox, so it may keep.
DO $$
DECLARE
    relay text;
BEGIN
    FOR relay IN SELECT DISTINCT a.grantee::regrole::text
                   FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
                  WHERE c.oid = to_regclass('sendoff.outbox') AND a.privilege_type = 'DELETE'
                    AND a.grantee <> 0 AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON sendoff.retention, sendoff.kept,'
                       ' sendoff.resent, sendoff.kept_partition TO %s', relay);
        EXECUTE format('GRANT EXECUTE ON FUNCTION sendoff.keep_turn() TO %s', relay);
    END LOOP;
END $$;
