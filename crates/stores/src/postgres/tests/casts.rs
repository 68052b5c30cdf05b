//! Every parameter of a statement has a cast: behind a pooler its type is read from there.

use tokio_postgres::types::Type;

use crate::postgres::sql;
use crate::postgres::statement::types_of;

#[test]
fn every_parameter_has_a_cast() {
    for (name, text) in [
        ("count_stuck", sql::COUNT_STUCK),
        ("discard", sql::DISCARD),
        ("examine_transactions", sql::EXAMINE_TRANSACTIONS),
        ("find", sql::FIND),
        ("hold", sql::HOLD),
        ("hold_followers", sql::HOLD_FOLLOWERS),
        ("kept", sql::KEPT),
        ("last_seq", sql::LAST_SEQ),
        ("lease", sql::LEASE),
        ("look_line", sql::LOOK_LINE),
        ("look_ready", sql::LOOK_READY),
        ("look_ready_small", sql::LOOK_READY_SMALL),
        ("look_waiting", sql::LOOK_WAITING),
        ("mend_keys", sql::MEND_KEYS),
        ("promote", sql::PROMOTE),
        ("quarantined", sql::QUARANTINED),
        ("release", sql::RELEASE),
        ("resend", sql::RESEND),
        ("retention_write", sql::RETENTION_WRITE),
        ("requeue", sql::REQUEUE),
        ("roles_rights", sql::ROLES_RIGHTS),
        ("schema_changed", sql::SCHEMA_CHANGED),
        ("schema_missing", sql::SCHEMA_MISSING),
        ("schema_record", sql::SCHEMA_RECORD),
        ("settle", sql::SETTLE),
        ("settle_keeping", sql::SETTLE_KEEPING),
        ("settle_published", sql::SETTLE_PUBLISHED),
        ("settle_published_keeping", sql::SETTLE_PUBLISHED_KEEPING),
        ("stats", sql::STATS),
        ("sweep_keys", sql::SWEEP_KEYS),
        ("sweep_resent", sql::SWEEP_RESENT),
        ("sweep_tally", sql::SWEEP_TALLY),
    ] {
        let types = types_of(text);
        assert!(!types.contains(&Type::UNKNOWN), "{name}: {types:?}");
    }
}
