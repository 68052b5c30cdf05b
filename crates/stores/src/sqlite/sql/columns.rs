//! Columns that versions of the schema add to tables that were there before.

/// What a version adds, before its text runs: whether one is there, and what adds it.
pub(in crate::sqlite) const ADDED: [(u32, &str, &str); 4] = [
    (
        3,
        "SELECT EXISTS (SELECT 1 FROM pragma_table_info('sendoff_outbox') WHERE name = 'holds')",
        // Where it has failed: whether later rows of its key wait for it. Those that failed before do.
        "ALTER TABLE sendoff_outbox ADD COLUMN holds INTEGER NOT NULL DEFAULT 1",
    ),
    (
        3,
        "SELECT EXISTS (SELECT 1 FROM pragma_table_info('sendoff_schema_version') WHERE name = 'usable_from')",
        "ALTER TABLE sendoff_schema_version ADD COLUMN usable_from INTEGER",
    ),
    (
        3,
        "SELECT EXISTS (SELECT 1 FROM pragma_table_info('sendoff_relay') WHERE name = 'version')",
        "ALTER TABLE sendoff_relay ADD COLUMN version TEXT",
    ),
    (
        3,
        "SELECT EXISTS (SELECT 1 FROM pragma_table_info('sendoff_relay') WHERE name = 'target')",
        "ALTER TABLE sendoff_relay ADD COLUMN target TEXT",
    ),
];
