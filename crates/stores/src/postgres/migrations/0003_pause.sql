-- Pauses, version 3. Run by `migrate` with the rest of version 3, in one transaction.
--
-- A row that may not leave now, since it is paused or since its target takes nothing, is parked: it has
-- the retry time 'infinity' and a mark that says what for: 'pause:topic:orders.>', 'target:mail'. So
-- it is what its key's later rows wait for, and stands in no look's way. A relay brings it back.

-- Without a default, so the table is not rewritten.
ALTER TABLE sendoff.outbox ADD COLUMN IF NOT EXISTS parked text COLLATE "C";
CREATE INDEX IF NOT EXISTS outbox_parked ON sendoff.outbox (parked, lane, seq) WHERE parked IS NOT NULL;

CREATE TABLE IF NOT EXISTS sendoff.pause (
    kind      text        COLLATE "C" NOT NULL,
    name      text        COLLATE "C" NOT NULL,
    reason    text        NOT NULL DEFAULT '',
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pause_pkey PRIMARY KEY (kind, name),
    CONSTRAINT pause_kind_word CHECK (kind IN ('target', 'topic', 'key'))
);
