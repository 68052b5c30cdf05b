//! Every statement of the store, except the migrations beside it.
//!
//! A statement that reads through a partial index repeats the index's condition word for word and
//! names the index: SQLite then refuses to prepare it, instead of walking the table, where the two
//! have come apart.
//!
//! What does not belong here: the meaning of a row. See `look.rs`, `lease.rs` and `settle.rs`.

/// The one clock: SQLite's own, in whole microseconds since 1970 (it counts milliseconds).
///
/// Julian days are kept inside SQLite as whole milliseconds, so the rounding gives those back.
macro_rules! now {
    () => {
        "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
    };
}

/// Ready rows: the condition of the index `sendoff_outbox_ready`.
macro_rules! is_ready {
    () => {
        "due_at IS NULL AND retry_at IS NULL AND quarantined_at IS NULL AND NOT held"
    };
}

/// Waiting rows: the condition of the index `sendoff_outbox_waiting`.
macro_rules! is_waiting {
    () => {
        "(due_at IS NOT NULL OR retry_at IS NOT NULL) AND quarantined_at IS NULL AND NOT held"
    };
}

/// Blockers: the condition of the index `sendoff_outbox_holders`.
macro_rules! is_blocker {
    () => {
        "(retry_at IS NOT NULL OR quarantined_at IS NOT NULL) AND holds"
    };
}

pub(super) mod backlog;

/// The blocker with the lowest seq that the row of `sendoff_outbox` around it has to wait for; the
/// contract is at [`sendoff_core::store::Content::Blocked`].
macro_rules! blocker_of_outer {
    ($column:literal) => {
        concat!(
            "SELECT b.",
            $column,
            " FROM sendoff_outbox b INDEXED BY sendoff_outbox_holders
              WHERE b.key = sendoff_outbox.key
                AND (b.retry_at IS NOT NULL OR b.quarantined_at IS NOT NULL) AND b.holds
                AND (b.seq < sendoff_outbox.seq
                     OR (sendoff_outbox.due_at IS NOT NULL AND sendoff_outbox.retry_at IS NULL
                         AND b.seq <> sendoff_outbox.seq))
              ORDER BY b.seq LIMIT 1"
        )
    };
}

/// Whether the row of `sendoff_outbox` around it is paused; null where it is not parked.
macro_rules! is_paused {
    () => {
        "(SELECT m.mark IN (SELECT 'pause:' || s.kind || ':' || s.name FROM sendoff_pause s)
               FROM sendoff_parked m WHERE m.seq = sendoff_outbox.seq
                AND retry_at = 9223372036854775807)"
    };
}

pub(super) mod barrier;
pub(super) mod columns;
pub(super) mod line;

/// What a look reads of a row. Bodies and headers up to 4 KiB come along; of larger ones only the
/// size is read (SQLite takes it from the record's head), and [`CONTENT`] reads them once it is
/// clear that they fit. `?1` says whether there is any blocker at all.
macro_rules! look_columns {
    () => {
        concat!(
            "seq, id, source, topic, key, due_at, retry_at, attempts,
             octet_length(headers) AS headers_bytes,
             octet_length(body) AS body_bytes,
             CASE WHEN octet_length(headers) <= 4096 THEN headers END AS headers_inline,
             CASE WHEN octet_length(body) <= 4096 THEN body END AS body_inline,
             CASE WHEN ?1 AND key IS NOT NULL THEN EXISTS (",
            blocker_of_outer!("seq"),
            ") ELSE 0 END AS blocked, holds,
              created_at"
        )
    };
}

pub(super) mod claim;
mod desk;
mod keep;
mod pause;
mod sweep;
pub(super) use desk::*;
pub(super) use keep::*;
pub(super) use pause::*;
pub(super) use sweep::*;

/// Writes a message; any language, any driver, inside the caller's own transaction.
///
/// The parameters are id, source, topic, key (text or NULL), headers (text, a JSON object of
/// strings, `{}` where there are none), body (blob) and due time (microseconds since 1970 in UTC, or
/// NULL). Leave a column out and its default holds. A pair of source and id that was sent before fails
/// the command as a unique violation; `OR IGNORE` and `OR REPLACE` fail too.
pub const INSERT_SQL: &str = "INSERT INTO sendoff_outbox \
    (id, source, topic, key, headers, body, due_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

pub(super) const NOW: &str = concat!("SELECT ", now!());

// Schema.

pub(super) const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_outbox.sql"),
    include_str!("migrations/0002_barrier.sql"),
    concat!(
        include_str!("migrations/0003_keep.sql"),
        include_str!("migrations/0003_pause.sql"),
        include_str!("migrations/0003_policy.sql"),
    ),
];

pub(super) const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS sendoff_schema_version (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL,
    checksum TEXT NOT NULL
)";

pub(super) const VERSION: &str = "SELECT coalesce(max(version), 0) FROM sendoff_schema_version";

/// Every version with the checksum of the text that made it.
pub(super) const VERSIONS: &str =
    "SELECT version, checksum FROM sendoff_schema_version ORDER BY version";

pub(super) const VERSION_WRITE: &str = concat!(
    "INSERT OR IGNORE INTO sendoff_schema_version (version, applied_at, checksum) VALUES (?1, ",
    now!(),
    ", ?2)"
);

pub(super) const OBJECTS: &str =
    r"SELECT name FROM sqlite_schema WHERE name LIKE 'sendoff\_%' ESCAPE '\'";

/// What the migrations make, in the order in which a person would want to read it.
pub(super) const OBJECTS_NEEDED: [&str; 35] = [
    "sendoff_schema_version",
    "sendoff_outbox",
    "sendoff_outbox_ready",
    "sendoff_outbox_waiting",
    "sendoff_outbox_blockers",
    "sendoff_outbox_holders",
    "sendoff_outbox_stop",
    "sendoff_outbox_held",
    "sendoff_outbox_quarantine",
    "sendoff_message_key",
    "sendoff_outbox_pair",
    "sendoff_outbox_message_key",
    "sendoff_lane",
    "sendoff_relay",
    "sendoff_total",
    "sendoff_barrier",
    "sendoff_barrier_id",
    "sendoff_barrier_end",
    "sendoff_barrier_gone",
    "sendoff_barrier_open",
    "sendoff_barrier_group",
    "sendoff_barrier_member",
    "sendoff_barrier_member_pending",
    "sendoff_barrier_member_failed",
    "sendoff_barrier_member_missing",
    "sendoff_barrier_evidence",
    "sendoff_barrier_evidence_of",
    "sendoff_retention",
    "sendoff_kept",
    "sendoff_kept_time",
    "sendoff_kept_id",
    "sendoff_resent",
    "sendoff_parked",
    "sendoff_parked_mark",
    "sendoff_pause",
];

// Looks.

pub(super) const HAS_BLOCKERS: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM sendoff_outbox INDEXED BY sendoff_outbox_holders WHERE ",
    is_blocker!(),
    ")"
);

pub(super) const READY: &str = concat!(
    "SELECT ",
    look_columns!(),
    " FROM sendoff_outbox INDEXED BY sendoff_outbox_ready WHERE ",
    is_ready!(),
    " AND seq > ?2 ORDER BY seq"
);

pub(super) const READY_SEQS: &str = concat!(
    "SELECT seq FROM sendoff_outbox INDEXED BY sendoff_outbox_ready WHERE ",
    is_ready!(),
    " AND seq > ?1 AND seq <= ?2 ORDER BY seq"
);

pub(super) const READY_ONE: &str =
    concat!("SELECT ", look_columns!(), " FROM sendoff_outbox WHERE seq = ?2");

/// In the order of their time, those that are not due yet too: the first of them tells when to look
/// again.
pub(super) const WAITING: &str = concat!(
    "SELECT ",
    look_columns!(),
    ", coalesce(retry_at, due_at) AS wait_until
      FROM sendoff_outbox INDEXED BY sendoff_outbox_waiting WHERE ",
    is_waiting!(),
    " ORDER BY coalesce(retry_at, due_at), seq"
);

pub(super) const CONTENT: &str = "SELECT headers, body FROM sendoff_outbox WHERE seq = ?1";

pub(super) const SEQ_LAST: &str =
    "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'sendoff_outbox'), 0)";

pub(super) const DATA_VERSION: &str = "PRAGMA data_version";

// Leases.

pub(super) const RELAY_WRITE: &str = "INSERT INTO sendoff_relay
    (id, lease_until, started_at, host, boot_id, pid, pid_started, version, target)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, target = excluded.target";

pub(super) const RELAY_DELETE: &str = "DELETE FROM sendoff_relay WHERE id = ?1";

pub(super) const RELAYS_LAPSED_DELETE: &str = "DELETE FROM sendoff_relay WHERE lease_until <= ?1";

pub(super) const RELAYS_OF_THIS_MACHINE: &str = "SELECT id, pid, pid_started FROM sendoff_relay
    WHERE host = ?1 AND boot_id = ?2 AND id <> ?3";

pub(super) const RELAYS_COUNT: &str = "SELECT count(*) FROM sendoff_relay WHERE lease_until > ?1";

pub(super) const LANE: &str =
    "SELECT owner, epoch, lease_until, floor FROM sendoff_lane WHERE lane = 0";

pub(super) const LANE_GIVE_BACK: &str = "UPDATE sendoff_lane SET owner = NULL, floor = ?3
    WHERE lane = 0 AND owner = ?1 AND epoch = ?2";

pub(super) const LANE_KEEP: &str = "UPDATE sendoff_lane SET lease_until = ?3, floor = ?4
    WHERE lane = 0 AND owner = ?1 AND epoch = ?2";

pub(super) const LANE_RENEW: &str =
    "UPDATE sendoff_lane SET lease_until = ?2 WHERE lane = 0 AND owner = ?1";

pub(super) const LANE_TAKE: &str = "UPDATE sendoff_lane
    SET owner = ?1, epoch = epoch + 1, lease_until = ?2 WHERE lane = 0";

// Settlements.

pub(super) const LANE_HELD_BY: &str =
    "SELECT epoch FROM sendoff_lane WHERE lane = 0 AND owner = ?1";

pub(super) const PUBLISHED: &str = "DELETE FROM sendoff_outbox WHERE seq = ?1";

pub(super) const PUBLISHED_COUNT: &str =
    "UPDATE sendoff_total SET published = published + ?1 WHERE one = 1";

pub(super) const RETRY: &str = "UPDATE sendoff_outbox
    SET retry_at = ?2, attempts = attempts + ?3, last_error = ?4, holds = ?5
    WHERE seq = ?1";

pub(super) const QUARANTINE: &str = "UPDATE sendoff_outbox
    SET quarantined_at = coalesce(quarantined_at, ?2),
        quarantine_reason = coalesce(quarantine_reason, ?3),
        last_error = ?4, retry_at = NULL, held = 0, holds = ?5
    WHERE seq = ?1";

/// Holds a row, where something that it has to wait for is still there: nothing else lets it go.
pub(super) const HOLD: &str = concat!(
    "UPDATE sendoff_outbox SET held = 1
      WHERE seq = ?1 AND key IS NOT NULL AND quarantined_at IS NULL AND EXISTS (",
    blocker_of_outer!("seq"),
    ")"
);

/// The next ready rows with their keys (as blobs), to find a failed row's followers among them.
pub(super) const FOLLOWERS: &str = concat!(
    "SELECT seq, CAST(key AS BLOB) FROM sendoff_outbox INDEXED BY sendoff_outbox_ready WHERE ",
    is_ready!(),
    " AND seq > ?1 ORDER BY seq LIMIT ?2"
);

pub(super) const HOLD_FOLLOWER: &str = "UPDATE sendoff_outbox SET held = 1 WHERE seq = ?1";

/// The lowest blocker of a key (as a blob of its bytes).
pub(super) const BLOCKER_FIRST: &str = concat!(
    "SELECT min(seq) FROM sendoff_outbox INDEXED BY sendoff_outbox_holders
      WHERE key = CAST(?1 AS TEXT) AND ",
    is_blocker!()
);

/// The held rows of the key `?1` that nothing blocks, where `?2` is its lowest blocker or NULL. A row
/// waits for blockers below it, so these are the rows up to the first one (which may be held itself);
/// a row that fell due for the first time waits for any.
macro_rules! is_stuck {
    () => {
        "key = CAST(?1 AS TEXT) AND held AND seq <= coalesce(?2, 9223372036854775807)
           AND (?2 IS NULL OR due_at IS NULL OR retry_at IS NOT NULL)"
    };
}

pub(super) const STUCK_COUNT: &str = concat!(
    "SELECT count(*) FROM sendoff_outbox INDEXED BY sendoff_outbox_held WHERE ",
    is_stuck!()
);

/// Lets go all of them: they are ready again.
pub(super) const LET_GO: &str = concat!(
    "UPDATE sendoff_outbox INDEXED BY sendoff_outbox_held SET held = 0 WHERE ",
    is_stuck!()
);

/// Lets go the first of them, with the retry time `?3`: it takes the blocker's place.
pub(super) const PROMOTE: &str = concat!(
    "UPDATE sendoff_outbox SET held = 0, retry_at = ?3, holds = 1 WHERE seq = (
        SELECT seq FROM sendoff_outbox INDEXED BY sendoff_outbox_held WHERE ",
    is_stuck!(),
    " ORDER BY seq LIMIT 1)"
);

pub(super) const FLOOR_DOWN: &str = "UPDATE sendoff_lane SET floor = min(floor, ?1) WHERE lane = 0";

pub(super) const HAS_HELD: &str = "SELECT EXISTS (
    SELECT 1 FROM sendoff_outbox INDEXED BY sendoff_outbox_held WHERE held)";

/// The next key in order that has held rows, as a blob.
pub(super) const HELD_KEY_AFTER: &str =
    "SELECT CAST(key AS BLOB) FROM sendoff_outbox INDEXED BY sendoff_outbox_held
      WHERE held AND key > CAST(?1 AS TEXT) ORDER BY key LIMIT 1";

/// The first key in order that has held rows, as a blob.
pub(super) const HELD_KEY_FIRST: &str =
    "SELECT CAST(key AS BLOB) FROM sendoff_outbox INDEXED BY sendoff_outbox_held
      WHERE held AND key IS NOT NULL ORDER BY key LIMIT 1";
