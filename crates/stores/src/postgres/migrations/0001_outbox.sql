-- Sendoff's outbox, version 1. Run by `migrate` in one transaction, under an advisory lock.
--
-- A program in any language sends with a plain INSERT of (id, source, topic, key, headers, body,
-- due_at) in its own transaction, or with sendoff.send(); everything else is the relay's.

-- Every statement may run again: that is how a damaged schema is mended. The schema may have been
-- made by somebody with more rights than whoever migrates.
DO $$ BEGIN
    IF to_regnamespace('sendoff') IS NULL THEN CREATE SCHEMA sendoff; END IF;
END $$;

CREATE TABLE IF NOT EXISTS sendoff.schema_version (
    version    integer     PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now(),
    checksum   text        NOT NULL
);

-- seq has to follow the order of the inserts of one key, so the sequence caches nothing.
--
-- The short, fixed columns come first: the ready index's predicate and the bounds of a look read
-- only them. Headers are kept uncompressed, so that their size is known without reading them.
-- Names compare byte by byte, whatever the database's collation.
CREATE TABLE IF NOT EXISTS sendoff.outbox (
    seq               bigint      GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lane              smallint    NOT NULL GENERATED ALWAYS AS (
        ((('x' || substr(md5(coalesce(key, id)), 1, 8))::bit(32)::bigint) % 64)::smallint
    ) STORED,
    held              boolean     NOT NULL DEFAULT false,
    attempts          integer     NOT NULL DEFAULT 0,
    due_at            timestamptz,
    retry_at          timestamptz,
    quarantined_at    timestamptz,
    id                text        COLLATE "C" NOT NULL,
    source            text        COLLATE "C" NOT NULL,
    topic             text        COLLATE "C" NOT NULL,
    key               text        COLLATE "C",
    headers           jsonb       NOT NULL DEFAULT '{}',
    body              bytea       NOT NULL DEFAULT '',
    last_error        text,
    quarantine_reason text,
    CONSTRAINT outbox_id_bytes     CHECK (octet_length(id) BETWEEN 1 AND 255),
    CONSTRAINT outbox_source_bytes CHECK (octet_length(source) BETWEEN 1 AND 255),
    CONSTRAINT outbox_topic_bytes  CHECK (octet_length(topic) BETWEEN 1 AND 255),
    CONSTRAINT outbox_key_bytes    CHECK (octet_length(key) <= 1024)
) WITH (
    -- Rows live for milliseconds: vacuum by count, and never lock the table to give space back.
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_analyze_scale_factor = 0.5,
    autovacuum_analyze_threshold = 100000,
    vacuum_truncate = false
);
ALTER TABLE sendoff.outbox ALTER COLUMN headers SET STORAGE EXTERNAL;
ALTER TABLE sendoff.outbox ALTER COLUMN seq SET CACHE 1;

CREATE INDEX IF NOT EXISTS outbox_ready ON sendoff.outbox (lane, seq)
    WHERE due_at IS NULL AND retry_at IS NULL AND quarantined_at IS NULL AND NOT held;
CREATE INDEX IF NOT EXISTS outbox_waiting ON sendoff.outbox (lane, (coalesce(retry_at, due_at)), seq)
    WHERE (due_at IS NOT NULL OR retry_at IS NOT NULL) AND quarantined_at IS NULL AND NOT held;
CREATE INDEX IF NOT EXISTS outbox_blockers ON sendoff.outbox (lane, key, seq)
    WHERE retry_at IS NOT NULL OR quarantined_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS outbox_held ON sendoff.outbox (lane, key, seq) WHERE held;
CREATE INDEX IF NOT EXISTS outbox_quarantine ON sendoff.outbox (seq) WHERE quarantined_at IS NOT NULL;

-- Source and id are unique together while the row is kept and for a horizon after. The id comes
-- first, so that a message is found by its id alone. kept_at is set where a sweep found the row
-- still in the outbox, so that a row that stays for long is not looked at by every sweep.
CREATE TABLE IF NOT EXISTS sendoff.message_key (
    id      text        COLLATE "C" NOT NULL,
    source  text        COLLATE "C" NOT NULL,
    seq     bigint      NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT now(),
    kept_at timestamptz,
    PRIMARY KEY (id, source)
) WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = false);
CREATE INDEX IF NOT EXISTS message_key_sweep ON sendoff.message_key ((coalesce(kept_at, sent_at)));

-- A sender needs INSERT on the outbox and nothing else, hence the definer's rights.
CREATE OR REPLACE FUNCTION sendoff.record_keys() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO sendoff.message_key (id, source, seq) SELECT s.id, s.source, s.seq FROM sent s;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER outbox_record_keys AFTER INSERT ON sendoff.outbox
    REFERENCING NEW TABLE AS sent FOR EACH STATEMENT EXECUTE FUNCTION sendoff.record_keys();
ALTER TABLE sendoff.outbox ENABLE TRIGGER outbox_record_keys;

-- Which relay owns which lane, until when, under which epoch. All 64 rows fit one page with room
-- for updates in place.
CREATE TABLE IF NOT EXISTS sendoff.lane (
    lane        smallint PRIMARY KEY,
    owner       text,
    epoch       bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    floor       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 25, autovacuum_vacuum_threshold = 1000);
INSERT INTO sendoff.lane (lane) SELECT generate_series(0, 63)
    ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS sendoff.relay (
    id          text PRIMARY KEY,
    lease_until timestamptz NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now(),
    host        text,
    boot_id     text,
    pid         integer,
    pid_started bigint
) WITH (fillfactor = 25, autovacuum_vacuum_threshold = 1000);

-- Published messages: each settlement adds a row, a sweep folds them into the total, so that no
-- two settlements wait for one row.
CREATE TABLE IF NOT EXISTS sendoff.tally (published bigint NOT NULL)
    WITH (autovacuum_vacuum_threshold = 1000, vacuum_truncate = false);
CREATE TABLE IF NOT EXISTS sendoff.total (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    published bigint NOT NULL DEFAULT 0
);
INSERT INTO sendoff.total DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Sends one message in the caller's transaction and answers its id.
--
--     BEGIN;
--     INSERT INTO orders ...;
--     SELECT sendoff.send('orders.placed', key => 'customer-7', body => '{"order":1}');
--     COMMIT;
CREATE OR REPLACE FUNCTION sendoff.send(
    topic   text,
    key     text        DEFAULT NULL,
    body    bytea       DEFAULT '',
    headers jsonb       DEFAULT '{}',
    source  text        DEFAULT 'sql',
    id      text        DEFAULT gen_random_uuid()::text,
    due_at  timestamptz DEFAULT NULL
) RETURNS text
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO sendoff.outbox (id, source, topic, key, headers, body, due_at)
    VALUES ($6, $5, $1, $2, $4, $3, $7)
    RETURNING outbox.id
$$;
