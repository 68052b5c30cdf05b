-- What a failed message holds back, version 3. Every statement may run again. The column that it is
-- about, sendoff_outbox.holds, is added before, where it is not there: SQLite has no ADD COLUMN IF NOT
-- EXISTS.

-- What other rows wait for. A million rows that fail and hold nobody are not in it. The statements of
-- version 2 name sendoff_outbox_blockers, which has all rows that failed, so it stays.
CREATE INDEX IF NOT EXISTS sendoff_outbox_holders ON sendoff_outbox (key, seq)
    WHERE (retry_at IS NOT NULL OR quarantined_at IS NOT NULL) AND holds;

-- Where a look in the order of all rows ends: at the first row that failed and holds.
CREATE INDEX IF NOT EXISTS sendoff_outbox_stop ON sendoff_outbox (seq)
    WHERE retry_at IS NOT NULL AND quarantined_at IS NULL AND NOT held AND holds;
