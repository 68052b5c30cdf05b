//! Every parameter of a statement has a cast: behind a pooler its type is read from there.

use tokio_postgres::types::Type;

use crate::postgres::sql;
use crate::postgres::statement::types_of;

#[test]
fn every_parameter_has_a_cast() {
    for (name, text) in [
        ("count_stuck", sql::COUNT_STUCK),
        ("discard", sql::DISCARD),
        ("find", sql::FIND),
        ("hold", sql::HOLD),
        ("hold_followers", sql::HOLD_FOLLOWERS),
        ("last_seq", sql::LAST_SEQ),
        ("lease", sql::LEASE),
        ("look_ready", sql::LOOK_READY),
        ("look_ready_small", sql::LOOK_READY_SMALL),
        ("look_waiting", sql::LOOK_WAITING),
        ("mend_keys", sql::MEND_KEYS),
        ("promote", sql::PROMOTE),
        ("quarantined", sql::QUARANTINED),
        ("release", sql::RELEASE),
        ("requeue", sql::REQUEUE),
        ("roles_rights", sql::ROLES_RIGHTS),
        ("schema_changed", sql::SCHEMA_CHANGED),
        ("schema_missing", sql::SCHEMA_MISSING),
        ("schema_record", sql::SCHEMA_RECORD),
        ("settle", sql::SETTLE),
        ("settle_published", sql::SETTLE_PUBLISHED),
        ("stats", sql::STATS),
        ("sweep_keys", sql::SWEEP_KEYS),
        ("sweep_tally", sql::SWEEP_TALLY),
    ] {
        let types = types_of(text);
        assert!(!types.contains(&Type::UNKNOWN), "{name}: {types:?}");
    }
}
