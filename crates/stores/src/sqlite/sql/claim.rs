//! Claims.

/// What may be claimed: the oldest first, whatever it waits for but its due time.
pub(in crate::sqlite) const CLAIMABLE: &str = concat!(
    "SELECT ",
    look_columns!(),
    " FROM sendoff_outbox WHERE seq > ?2 AND quarantined_at IS NULL
        AND (due_at IS NULL OR due_at <= ?3) ORDER BY seq"
);

/// A failure that leaves the row as it is: it can be claimed at once.
pub(in crate::sqlite) const FAILED: &str = "UPDATE sendoff_outbox
    SET attempts = attempts + ?2, last_error = ?3 WHERE seq = ?1";
