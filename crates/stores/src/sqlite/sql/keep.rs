//! What is kept of published messages, what was sent lately, and what a sweep takes.

/// From which version on programs may use the newest version. The column came with version 3.
pub(in crate::sqlite) const USABLE_FROM: &str = "SELECT coalesce(usable_from, version) FROM sendoff_schema_version ORDER BY version DESC LIMIT 1";

pub(in crate::sqlite) const USABLE_FROM_WRITE: &str =
    "UPDATE sendoff_schema_version SET usable_from = ?2 WHERE version = ?1";

pub(in crate::sqlite) const RETENTION: &str =
    "SELECT keeps, keep_for FROM sendoff_retention WHERE one = 1";

pub(in crate::sqlite) const RETENTION_WRITE: &str =
    "INSERT INTO sendoff_retention (one, keeps, keep_for) VALUES (1, ?1, coalesce(?2, 604800000000))
     ON CONFLICT (one) DO UPDATE SET keeps = excluded.keeps, keep_for = coalesce(?2, keep_for)";

/// Keeps a row that was published now (?2) by the relay ?3; neither errands nor what was kept before.
pub(in crate::sqlite) const KEEP: &str = "INSERT INTO sendoff_kept
        (published_at, seq, created_at, due_at, attempts, id, source, topic, key, headers, body, relay, target)
    SELECT ?2, seq, created_at, due_at, attempts, id, source, topic, key, headers, body, ?3,
           (SELECT r.target FROM sendoff_relay r WHERE r.id = ?3)
      FROM sendoff_outbox
     WHERE seq = ?1 AND substr(topic, 1, 9) <> '$sendoff.'
       AND NOT EXISTS (SELECT 1 FROM sendoff_resent m WHERE m.seq = ?1)";

pub(in crate::sqlite) const RESENT_DELETE: &str = "DELETE FROM sendoff_resent WHERE seq = ?1";

/// Forgets what was kept before ?1, at most ?2 rows.
pub(in crate::sqlite) const KEPT_SWEEP: &str = "DELETE FROM sendoff_kept WHERE n IN (
    SELECT n FROM sendoff_kept INDEXED BY sendoff_kept_time WHERE published_at < ?1
     ORDER BY published_at, n, seq LIMIT ?2)";

/// Forgets marks of rows that are not in the outbox any more, among the ?1 oldest.
pub(in crate::sqlite) const RESENT_SWEEP: &str = "DELETE FROM sendoff_resent WHERE seq IN (
    SELECT r.seq FROM (SELECT seq FROM sendoff_resent ORDER BY seq LIMIT ?1) AS r
     WHERE NOT EXISTS (SELECT 1 FROM sendoff_outbox o WHERE o.seq = r.seq))";

/// Kept messages in the order of their first publish: published from ?1 and before ?2, with the id ?3,
/// behind the mark of ?4 to ?6, at most ?7.
pub(in crate::sqlite) const KEPT: &str = "SELECT published_at, n, seq, id, source, topic, key,
        octet_length(body), created_at, attempts, target
      FROM sendoff_kept
     WHERE published_at >= coalesce(?1, -9223372036854775808)
       AND published_at < coalesce(?2, 9223372036854775807)
       AND (?3 IS NULL OR id = ?3)
       AND (?4 IS NULL OR (published_at >= ?4 AND (published_at, n, seq) > (?4, ?5, ?6)))
     ORDER BY published_at, n, seq LIMIT ?7";

/// Whether a message of the pair of the kept message (?1 published, ?2 seq) stands in the outbox: no row
/// where nothing is kept, else n, 0 or 1.
pub(in crate::sqlite) const KEPT_WAITS: &str = "SELECT c.n, EXISTS (
        SELECT 1 FROM sendoff_message_key m JOIN sendoff_outbox o ON o.seq = m.seq
         WHERE m.id = c.id AND m.source = c.source)
      FROM sendoff_kept c WHERE c.published_at = ?1 AND c.seq = ?2";

/// Lets the pair of a kept message (?1, its n) be sent again.
pub(in crate::sqlite) const PAIR_FORGET: &str = "DELETE FROM sendoff_message_key
    WHERE (id, source) = (SELECT id, source FROM sendoff_kept WHERE n = ?1)";

/// Puts a kept message (?1, its n) into the outbox again.
pub(in crate::sqlite) const RESEND: &str =
    "INSERT INTO sendoff_outbox (id, source, topic, key, headers, body)
     SELECT id, source, topic, key, headers, body FROM sendoff_kept WHERE n = ?1";

pub(in crate::sqlite) const RESENT_WRITE: &str =
    "INSERT OR IGNORE INTO sendoff_resent (seq) VALUES (?1)";

/// The pairs that were written last, with where their messages are: the columns of [`super::FIND`], at
/// most ?1. Of one that is gone the names come from what is kept, where it is.
pub(in crate::sqlite) const RECENT: &str = concat!(
    "SELECT k.id, k.source, k.sent_at, sendoff_outbox.seq, coalesce(sendoff_outbox.topic, p.topic),
            coalesce(sendoff_outbox.key, p.key),
            coalesce(octet_length(sendoff_outbox.body), octet_length(p.body)),
            sendoff_outbox.created_at, sendoff_outbox.due_at, retry_at,
            coalesce(sendoff_outbox.attempts, p.attempts), last_error, held, quarantined_at,
            CASE WHEN held AND sendoff_outbox.key IS NOT NULL THEN (",
    blocker_of_outer!("id"),
    ") END,
            (SELECT owner FROM sendoff_lane WHERE lane = 0 AND lease_until > ?2),
            ",
    is_paused!(),
    ", k.seq
       FROM (SELECT * FROM sendoff_message_key ORDER BY seq DESC LIMIT ?1) AS k
       LEFT JOIN sendoff_outbox ON sendoff_outbox.seq = k.seq
       LEFT JOIN sendoff_kept p
         ON sendoff_outbox.seq IS NULL AND p.n = (
            SELECT max(n) FROM sendoff_kept WHERE id = k.id AND source = k.source)
      ORDER BY k.seq"
);

pub(in crate::sqlite) const BODY: &str =
    "SELECT coalesce(substr(CAST(body AS BLOB), 1, ?2), x'') FROM sendoff_outbox WHERE seq = ?1";

/// Ids that others wait for, oldest first.
pub(in crate::sqlite) const EXAMINE_BLOCKERS: &str = concat!(
    "SELECT id FROM sendoff_outbox INDEXED BY sendoff_outbox_holders WHERE ",
    is_blocker!(),
    " ORDER BY seq LIMIT 5"
);

/// The versions of the relays that are live at ?1.
pub(in crate::sqlite) const EXAMINE_VERSIONS: &str =
    "SELECT DISTINCT version FROM sendoff_relay WHERE lease_until > ?1";
