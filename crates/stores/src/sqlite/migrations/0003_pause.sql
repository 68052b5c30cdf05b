-- Pauses, version 3. Every statement may run again.
--
-- A row that may not leave now, since it is paused or since its target takes nothing, is parked: its
-- retry time is the last one there is, and it stands in sendoff_parked with a mark that says what for:
-- 'pause:topic:orders.>', 'target:mail'. So it is what its key's later rows wait for, and stands in no
-- look's way. A relay brings it back.

-- A row here whose message has another retry time, or is gone, says nothing.
CREATE TABLE IF NOT EXISTS sendoff_parked (
    seq INTEGER PRIMARY KEY,
    mark TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS sendoff_parked_mark ON sendoff_parked (mark, seq);

CREATE TABLE IF NOT EXISTS sendoff_pause (
    kind TEXT NOT NULL CHECK (kind IN ('target', 'topic', 'key')),
    name TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    paused_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
);
