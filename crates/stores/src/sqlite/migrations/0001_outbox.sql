-- The outbox of Sendoff, version 1.
--
-- Every statement may run again: `migrate` runs the file once more where something of it is missing.
-- Only functions that SQLite has had for long are used here (no octet_length, no unixepoch('subsec')),
-- because every program that inserts evaluates the constraints and the default with its own library.
-- Times are whole microseconds since 1970 in UTC; SQLite's own clock counts milliseconds.

CREATE TABLE IF NOT EXISTS sendoff_outbox (
    -- AUTOINCREMENT: without it the numbers begin again once the table is empty, and a position that
    -- a relay has passed would come back.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,

    -- The sender's. A plain INSERT of these seven is complete.
    id TEXT NOT NULL
        CONSTRAINT sendoff_the_id_has_1_to_255_bytes
        CHECK (typeof(id) = 'text' AND length(CAST(id AS BLOB)) BETWEEN 1 AND 255),
    source TEXT NOT NULL
        CONSTRAINT sendoff_the_source_has_1_to_255_bytes
        CHECK (typeof(source) = 'text' AND length(CAST(source AS BLOB)) BETWEEN 1 AND 255),
    topic TEXT NOT NULL
        CONSTRAINT sendoff_the_topic_has_1_to_255_bytes
        CHECK (typeof(topic) = 'text' AND length(CAST(topic AS BLOB)) BETWEEN 1 AND 255),
    key TEXT
        CONSTRAINT sendoff_the_key_has_at_most_1024_bytes
        CHECK (key IS NULL OR (typeof(key) = 'text' AND length(CAST(key AS BLOB)) <= 1024)),
    headers TEXT NOT NULL DEFAULT '{}'
        CONSTRAINT sendoff_headers_are_text CHECK (typeof(headers) = 'text'),
    body BLOB NOT NULL DEFAULT x''
        CONSTRAINT sendoff_the_body_is_blob_or_text CHECK (typeof(body) IN ('blob', 'text')),
    -- The years -9999 to 9999. Nanoseconds by mistake are refused by that, since such a message would
    -- wait for ever.
    due_at INTEGER
        CONSTRAINT sendoff_due_at_is_in_microseconds
        CHECK (due_at IS NULL
               OR (typeof(due_at) = 'integer' AND due_at BETWEEN -377705023201000000 AND 253402207200999999)),

    created_at INTEGER NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000),

    -- The relay's. One writer at a time is the nature of SQLite, so there is one lane.
    lane INTEGER GENERATED ALWAYS AS (0) VIRTUAL,
    retry_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    held INTEGER NOT NULL DEFAULT 0,
    quarantined_at INTEGER,
    quarantine_reason TEXT
);

-- Each row that is not quarantined and not held stands in one of the first two, so that a million rows
-- that wait neither fill a look for ready ones nor slow it down.
CREATE INDEX IF NOT EXISTS sendoff_outbox_ready ON sendoff_outbox (seq)
    WHERE due_at IS NULL AND retry_at IS NULL AND quarantined_at IS NULL AND NOT held;
CREATE INDEX IF NOT EXISTS sendoff_outbox_waiting ON sendoff_outbox (coalesce(retry_at, due_at), seq)
    WHERE (due_at IS NOT NULL OR retry_at IS NOT NULL) AND quarantined_at IS NULL AND NOT held;
-- What later rows of a key wait for. Empty in good times, which is what a look asks first.
CREATE INDEX IF NOT EXISTS sendoff_outbox_blockers ON sendoff_outbox (key, seq)
    WHERE retry_at IS NOT NULL OR quarantined_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS sendoff_outbox_held ON sendoff_outbox (key, seq) WHERE held;
CREATE INDEX IF NOT EXISTS sendoff_outbox_quarantine ON sendoff_outbox (seq)
    WHERE quarantined_at IS NOT NULL;

-- Source and id are unique together while the row is kept and for a horizon after. The outbox's seq is
-- the key here too: whether the row is still there is one look-up, and the sweep walks in seq order,
-- which is the order of time, without an index on time.
CREATE TABLE IF NOT EXISTS sendoff_message_key (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    sent_at INTEGER NOT NULL,
    UNIQUE (id, source)
);

-- A pair that was sent before fails the sender's command, however it was written. A statement inside a
-- trigger follows the OR clause of the statement outside: the first one here is a unique violation
-- under INSERT, OR ABORT, OR FAIL and OR ROLLBACK; OR IGNORE and OR REPLACE pass over it and meet the
-- second. Both come before the row is written, which OR FAIL would leave behind.
CREATE TRIGGER IF NOT EXISTS sendoff_outbox_pair BEFORE INSERT ON sendoff_outbox
BEGIN
    INSERT INTO sendoff_message_key (id, source, sent_at)
    SELECT new.id, new.source, 0 WHERE EXISTS (
        SELECT 1 FROM sendoff_message_key WHERE id = new.id AND source = new.source);
    SELECT RAISE(ABORT, 'sendoff: this pair of source and id was sent before') WHERE EXISTS (
        SELECT 1 FROM sendoff_message_key WHERE id = new.id AND source = new.source);
END;

CREATE TRIGGER IF NOT EXISTS sendoff_outbox_message_key AFTER INSERT ON sendoff_outbox
BEGIN
    INSERT INTO sendoff_message_key (seq, id, source, sent_at)
    VALUES (new.seq, new.id, new.source,
            CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000);
END;

CREATE TABLE IF NOT EXISTS sendoff_lane (
    lane INTEGER PRIMARY KEY,
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL DEFAULT 0,
    floor INTEGER NOT NULL DEFAULT 0
);
INSERT OR IGNORE INTO sendoff_lane (lane) VALUES (0);

-- host, boot_id, pid and pid_started name the process, so that another one on the same machine can tell
-- that it has died. boot_id also holds the process id namespace: a pid means nothing in another one.
CREATE TABLE IF NOT EXISTS sendoff_relay (
    id TEXT PRIMARY KEY,
    lease_until INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    host TEXT,
    boot_id TEXT,
    pid INTEGER,
    pid_started INTEGER
);

-- One row. Settlements cannot overlap here, so they add to it where PostgreSQL appends deltas.
CREATE TABLE IF NOT EXISTS sendoff_total (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    published INTEGER NOT NULL DEFAULT 0
);
INSERT OR IGNORE INTO sendoff_total (one) VALUES (1);

-- So that the counter's row is there from the start, and so that an outbox that was dropped and made
-- again goes on behind the numbers that its keys and the relay's floor have.
INSERT INTO sqlite_sequence (name, seq)
SELECT 'sendoff_outbox',
       max(coalesce((SELECT max(seq) FROM sendoff_message_key), 0),
           coalesce((SELECT max(floor) FROM sendoff_lane), 0))
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'sendoff_outbox');
