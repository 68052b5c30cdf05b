-- Sendoff's barriers, version 2: the tables. The functions that work on them follow in
-- 0002_barrier_baton.sql and the others, all run by `migrate` as one migration.
--
-- A program in any language creates, acknowledges and asks with sendoff.barrier_create,
-- sendoff.barrier_ack and sendoff.barrier_status; everything else is the product's own.
--
-- How acknowledgements meet without waiting for each other (the baton): of a barrier's pending
-- members a few are *watched*, for a plain barrier one. An acknowledgement resolves its own member in
-- one UPDATE that also tells whether it was watched. One that was not can never be the one that
-- completes the barrier, so it touches nothing else. One that was hands the watch on to another
-- pending member, picked at random among those that nobody has locked; only where there is none does
-- it lock the barrier's row and look, waiting for whoever is about to commit. So between any two
-- commits so many are watched as have to be, and the last one finds that it is the last.

CREATE TABLE IF NOT EXISTS sendoff.barrier (
    no            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Counted up by whatever has to be seen by an older snapshot as a conflict. A mere lock would
    -- let a REPEATABLE READ transaction go on with what it saw before.
    version       bigint      NOT NULL DEFAULT 0,
    epoch         integer     NOT NULL DEFAULT 1,
    state         text        COLLATE "C" NOT NULL DEFAULT 'open',
    reason        text        COLLATE "C",
    sealed        boolean     NOT NULL DEFAULT true,
    -- The policy is plainly "every member is resolved".
    plain         boolean     NOT NULL DEFAULT true,
    first_failure boolean     NOT NULL DEFAULT false,
    gone          boolean     NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The creation, or the last reopening.
    opened_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline_at   timestamptz,
    closing_at    timestamptz,
    completed_at  timestamptz,
    expires_at    timestamptz NOT NULL DEFAULT clock_timestamp() + interval '7 days',
    total         bigint      NOT NULL DEFAULT 0,
    incarnation   uuid        NOT NULL DEFAULT gen_random_uuid(),
    tenant        text        COLLATE "C" NOT NULL,
    id            text        COLLATE "C" NOT NULL,
    on_deadline   text        COLLATE "C" NOT NULL DEFAULT 'mark',
    continue_with text        COLLATE "C",
    continuation  text        COLLATE "C",
    parent_id     text        COLLATE "C",
    parent_member bytea,
    -- Groups that have what they want, as the last evaluation found.
    met           text[]      NOT NULL DEFAULT '{}',
    digest        bytea       NOT NULL,
    policy        jsonb       NOT NULL,
    probe         text,
    handed        text,
    CONSTRAINT barrier_state_word CHECK (
        state IN ('open', 'closing', 'complete', 'deadline', 'cancelled')),
    CONSTRAINT barrier_id_bytes CHECK (octet_length(id) BETWEEN 1 AND 255),
    CONSTRAINT barrier_tenant_bytes CHECK (octet_length(tenant) <= 255)
) WITH (fillfactor = 70, vacuum_truncate = false);
-- An id can be used again once its barrier has expired: the old one is then gone.
CREATE UNIQUE INDEX IF NOT EXISTS barrier_id ON sendoff.barrier (tenant, id) WHERE NOT gone;
CREATE INDEX IF NOT EXISTS barrier_expiry ON sendoff.barrier (expires_at) WHERE NOT gone;
CREATE INDEX IF NOT EXISTS barrier_gone ON sendoff.barrier (no) WHERE gone;
CREATE INDEX IF NOT EXISTS barrier_open ON sendoff.barrier (no) WHERE state IN ('open', 'closing');

CREATE TABLE IF NOT EXISTS sendoff.barrier_member (
    barrier     bigint      NOT NULL,
    resolved_at timestamptz,
    place       integer     NOT NULL,
    watched     boolean     NOT NULL DEFAULT false,
    -- Whether it went well; null while it is pending, and of one that was given up.
    ok          boolean,
    missing     boolean     NOT NULL DEFAULT false,
    name        bytea       NOT NULL,
    grp         text        COLLATE "C" NOT NULL DEFAULT '',
    channel     text        COLLATE "C" NOT NULL DEFAULT '',
    -- A JSON object with ok, and error and result where they are given, as it was encoded.
    outcome     text,
    CONSTRAINT barrier_member_pkey PRIMARY KEY (barrier, name),
    CONSTRAINT barrier_member_name_bytes CHECK (octet_length(name) BETWEEN 1 AND 1024)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_analyze_scale_factor = 0.5,
    autovacuum_analyze_threshold = 100000,
    vacuum_truncate = false
);
-- Pending members at random places, those that are watched apart.
CREATE INDEX IF NOT EXISTS barrier_member_pending
    ON sendoff.barrier_member (barrier, grp, watched, place) WHERE resolved_at IS NULL;
CREATE INDEX IF NOT EXISTS barrier_member_failed
    ON sendoff.barrier_member (barrier, name) WHERE resolved_at IS NOT NULL AND ok IS NOT TRUE;

-- Acknowledgements that were refused and may explain something; bounded for each barrier.
CREATE TABLE IF NOT EXISTS sendoff.barrier_evidence (
    barrier bigint      NOT NULL,
    n       bigint      GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind    text        COLLATE "C" NOT NULL,
    member  bytea       NOT NULL,
    near    bytea[]     NOT NULL DEFAULT '{}',
    ok      boolean     NOT NULL,
    channel text        COLLATE "C" NOT NULL DEFAULT '',
    CONSTRAINT barrier_evidence_pkey PRIMARY KEY (barrier, n)
) WITH (vacuum_truncate = false);
