//! Sweeps of what was sent long ago.

/// A window of sent pairs in seq order: whether their horizon has passed, whether their message is gone.
pub(in crate::sqlite) const SWEEP_WINDOW: &str = "SELECT seq, sent_at < ?3, NOT EXISTS (
        SELECT 1 FROM sendoff_outbox o WHERE o.seq = k.seq
    ) FROM sendoff_message_key k WHERE seq > ?1 ORDER BY seq LIMIT ?2";

pub(in crate::sqlite) const SWEEP_DELETE: &str = "DELETE FROM sendoff_message_key WHERE seq = ?1";
