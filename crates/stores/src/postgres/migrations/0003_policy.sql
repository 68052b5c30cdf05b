-- What a failed message holds back, version 3. Every statement may run again.

-- Where it has failed: whether later rows of its key wait for it. Rows that failed before this version
-- hold, and so does a row that takes a blocker's place.
ALTER TABLE sendoff.outbox ADD COLUMN IF NOT EXISTS holds boolean NOT NULL DEFAULT true;

-- What other rows wait for. A million rows that fail and hold nobody are not in it, so that the question
-- whether anything blocks stays a glance at an empty index. outbox_blockers, which has all rows that
-- failed, stays for relays of version 2. The condition is put so that neither index can answer for the
-- other: a plan cannot take the wrong one.
CREATE INDEX IF NOT EXISTS outbox_holders ON sendoff.outbox (lane, key, seq)
    WHERE coalesce(retry_at, quarantined_at) IS NOT NULL AND holds;

-- Where a look in the order of all rows ends: at the first row that failed and holds.
CREATE INDEX IF NOT EXISTS outbox_stop ON sendoff.outbox (seq)
    WHERE retry_at IS NOT NULL AND quarantined_at IS NULL AND NOT held AND holds;
