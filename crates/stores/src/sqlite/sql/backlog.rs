//! The backlog, counted up to a bound (`?1`), which every statement keeps inside, whatever it then
//! counts.

/// Ready rows, and since when the first of them is there.
pub(in crate::sqlite) const READY: &str = concat!(
    "SELECT count(*), min(created_at) FROM (
        SELECT created_at FROM sendoff_outbox INDEXED BY sendoff_outbox_ready WHERE ",
    is_ready!(),
    " AND seq > (SELECT floor FROM sendoff_lane WHERE lane = 0) ORDER BY seq LIMIT ?1)"
);

/// Rows whose due time has come (`?2` is now), and since when the oldest of them is due.
pub(in crate::sqlite) const DUE: &str = concat!(
    "SELECT count(*), min(max(due_at, created_at)) FROM (
        SELECT due_at, created_at, retry_at
          FROM sendoff_outbox INDEXED BY sendoff_outbox_waiting WHERE ",
    is_waiting!(),
    " AND coalesce(retry_at, due_at) <= ?2
          ORDER BY coalesce(retry_at, due_at), seq LIMIT ?1) WHERE retry_at IS NULL"
);

/// Rows that have failed and are tried again, and since when the oldest of them is due.
pub(in crate::sqlite) const FAILED: &str = concat!(
    "SELECT count(*), min(max(coalesce(due_at, created_at), created_at)) FROM (
        SELECT due_at, created_at, retry_at, quarantined_at, held
          FROM sendoff_outbox INDEXED BY sendoff_outbox_blockers WHERE ",
    is_blocker!(),
    " LIMIT ?1) WHERE retry_at IS NOT NULL AND quarantined_at IS NULL AND NOT held"
);

pub(in crate::sqlite) const HELD: &str = "SELECT count(*) FROM (
    SELECT quarantined_at FROM sendoff_outbox INDEXED BY sendoff_outbox_held
     WHERE held LIMIT ?1) WHERE quarantined_at IS NULL";

pub(in crate::sqlite) const QUARANTINED: &str = "SELECT count(*) FROM (
    SELECT 1 FROM sendoff_outbox INDEXED BY sendoff_outbox_quarantine
     WHERE quarantined_at IS NOT NULL LIMIT ?1)";
