//! The schema: what is there, and the record of what was done.

use crate::postgres::schema_name::SchemaName;

/// Held while migrating; two migrations at once run one after the other.
pub(in crate::postgres) fn migration_lock(schema: &SchemaName) -> String {
    format!("SELECT pg_advisory_xact_lock({})", schema.lock(7_236_834_120_711_234_149))
}

/// The schema's version, 0 where there is none.
pub(in crate::postgres) const SCHEMA_EXISTS: &str =
    "SELECT to_regclass('sendoff.schema_version') IS NOT NULL";
/// And the least version that a program has to know to use it. The column came with version 3.
pub(in crate::postgres) const SCHEMA_VERSION: &str = "SELECT coalesce(max(v.version), 0), \
        coalesce(max((to_jsonb(v) ->> 'usable_from')::integer) FILTER ( \
            WHERE v.version = (SELECT max(n.version) FROM sendoff.schema_version n)), max(v.version), 0) \
      FROM sendoff.schema_version v";

/// Which of the versions $1 were applied with another text than $2 has for them.
pub(in crate::postgres) const SCHEMA_CHANGED: &str = "SELECT v.version \
       FROM unnest($1::integer[], $2::text[]) AS m (version, text) \
       JOIN sendoff.schema_version v USING (version) \
      WHERE v.checksum <> md5(m.text) ORDER BY v.version";
pub(in crate::postgres) const SCHEMA_RECORD: &str = "INSERT INTO sendoff.schema_version (version, checksum) \
     VALUES ($1::integer, md5($2::text)) \
     ON CONFLICT (version) DO UPDATE SET checksum = excluded.checksum";

/// Records from which version on ($2) programs may use version $1.
pub(in crate::postgres) const SCHEMA_USABLE: &str =
    "UPDATE sendoff.schema_version SET usable_from = $2::integer WHERE version = $1::integer";

/// Which of the names $1 are not there, as tables, indexes or sequences; of $2, as functions; of
/// $3, as triggers of the outbox that are on. And a sequence that draws ahead. $4 is the schema, quoted.
pub(in crate::postgres) const SCHEMA_MISSING: &str = "SELECT $4::text || '.' || n FROM unnest($1::text[]) AS n \
      WHERE to_regclass($4 || '.' || n) IS NULL \
     UNION ALL SELECT $4 || '.' || n || '()' FROM unnest($2::text[]) AS n \
      WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_proc p WHERE p.proname = n \
                           AND p.pronamespace = to_regnamespace($4)) \
     UNION ALL SELECT 'the trigger ' || n FROM unnest($3::text[]) AS n \
      WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t WHERE t.tgname = n \
                           AND t.tgrelid = to_regclass($4 || '.outbox') AND t.tgenabled <> 'D') \
     UNION ALL SELECT 'CACHE 1 on the sequence ' || $4 || '.outbox_seq_seq' \
      WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_sequence s \
                     WHERE s.seqrelid = to_regclass($4 || '.outbox_seq_seq') AND s.seqcache <> 1)";
