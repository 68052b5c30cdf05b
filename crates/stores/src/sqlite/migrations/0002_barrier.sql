-- Barriers of Sendoff, version 2.
--
-- Every statement may run again. Only Sendoff writes these tables. Times are whole microseconds since
-- 1970 in UTC.

CREATE TABLE IF NOT EXISTS sendoff_barrier (
    -- AUTOINCREMENT: a number never comes back, so members that are still being swept cannot be taken
    -- for those of a later barrier.
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    sealed INTEGER NOT NULL,
    digest TEXT NOT NULL,
    continue_with TEXT,
    policy TEXT NOT NULL,
    deadline_at INTEGER,
    on_deadline TEXT NOT NULL,
    parent_id TEXT,
    parent_member BLOB,
    probe TEXT,
    created_at INTEGER NOT NULL,
    completed_at INTEGER,
    expires_at INTEGER NOT NULL,
    continuation_id TEXT,
    -- A later barrier has the id; this one's rows are still to be swept.
    gone INTEGER NOT NULL DEFAULT 0,
    -- Last, since it may be large and no acknowledgement reads it.
    state_value TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS sendoff_barrier_id ON sendoff_barrier (tenant, id) WHERE NOT gone;
CREATE INDEX IF NOT EXISTS sendoff_barrier_end ON sendoff_barrier (expires_at);
CREATE INDEX IF NOT EXISTS sendoff_barrier_gone ON sendoff_barrier (no) WHERE gone;
CREATE INDEX IF NOT EXISTS sendoff_barrier_open ON sendoff_barrier (no)
    WHERE state = 'open' AND sealed AND NOT gone;

-- How many members of each group stand where. There is one writer, so these counts are right in every
-- transaction and cost one row.
CREATE TABLE IF NOT EXISTS sendoff_barrier_group (
    barrier INTEGER NOT NULL,
    grp TEXT NOT NULL,
    pending INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    last_ack_at INTEGER,
    PRIMARY KEY (barrier, grp)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS sendoff_barrier_member (
    barrier INTEGER NOT NULL,
    name BLOB NOT NULL,
    grp TEXT NOT NULL,
    resolved_at INTEGER,
    ok INTEGER,
    channel TEXT,
    missing INTEGER NOT NULL DEFAULT 0,
    outcome TEXT,
    PRIMARY KEY (barrier, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sendoff_barrier_member_pending ON sendoff_barrier_member (barrier, name)
    WHERE resolved_at IS NULL AND NOT missing;
CREATE INDEX IF NOT EXISTS sendoff_barrier_member_failed ON sendoff_barrier_member (barrier, name)
    WHERE ok = 0;
CREATE INDEX IF NOT EXISTS sendoff_barrier_member_missing ON sendoff_barrier_member (barrier, name)
    WHERE missing;

CREATE TABLE IF NOT EXISTS sendoff_barrier_evidence (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    barrier INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    member BLOB NOT NULL,
    near TEXT NOT NULL,
    ok INTEGER NOT NULL,
    channel TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS sendoff_barrier_evidence_of ON sendoff_barrier_evidence (barrier, seq);
