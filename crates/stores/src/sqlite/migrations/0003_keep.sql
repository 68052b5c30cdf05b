-- What is kept of published messages. Columns that tables of earlier versions gained (usable_from of the
-- schema's versions, version and target of relays) are added by the program, since SQLite cannot add one
-- only where it is missing.

-- One row: whether published messages are kept, and for how many microseconds. keep_for stays as it was
-- where keeping is turned off, so that what was kept goes at its time.
CREATE TABLE IF NOT EXISTS sendoff_retention (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    keeps INTEGER NOT NULL DEFAULT 0 CHECK (keeps IN (0, 1)),
    keep_for INTEGER NOT NULL DEFAULT 604800000000 CHECK (keep_for >= 60000000)
);
INSERT OR IGNORE INTO sendoff_retention (one) VALUES (1);

-- Published messages, as they stood in the outbox, in the order of their publishes: n goes up.
CREATE TABLE IF NOT EXISTS sendoff_kept (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    published_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    due_at INTEGER,
    attempts INTEGER NOT NULL,
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    topic TEXT NOT NULL,
    key TEXT,
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    relay TEXT,
    target TEXT
);
CREATE INDEX IF NOT EXISTS sendoff_kept_time ON sendoff_kept (published_at, n, seq);
CREATE INDEX IF NOT EXISTS sendoff_kept_id ON sendoff_kept (id);

-- Positions in the outbox of messages that were kept at their first publish and are sent again: they are
-- not kept a second time.
CREATE TABLE IF NOT EXISTS sendoff_resent (seq INTEGER PRIMARY KEY);
