//! What an examination reads.

/// Version, encoding, the settings that decide how durable a commit is, whether tables are vacuumed, and
/// the server's clock in microseconds.
pub(in crate::postgres) const EXAMINE_SERVER: &str = "SELECT current_setting('server_version'), \
        current_setting('server_encoding'), current_setting('synchronous_commit'), \
        current_setting('fsync'), current_setting('full_page_writes'), \
        current_setting('autovacuum'), \
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Which rights the connection's role lacks: for sending, then for relaying, as the roles' grants give
/// them; and whether it may read all tables.
pub(in crate::postgres) const EXAMINE_RIGHTS: &str = "WITH ours AS MATERIALIZED ( \
        SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.oid = to_regnamespace('sendoff') \
     ), relation AS MATERIALIZED ( \
        SELECT c.* FROM pg_catalog.pg_class c \
         WHERE c.relnamespace IN (SELECT oid FROM ours) AND NOT c.relispartition \
     ), needed (relays, relname, p, columns) AS (VALUES \
        (false, 'outbox', 'INSERT', '{id,source,topic,key,headers,body,due_at}'::name[]), \
        (true, 'outbox', 'UPDATE', \
         '{held,holds,parked,attempts,retry_at,quarantined_at,quarantine_reason,last_error}'), \
        (true, 'outbox', 'DELETE', NULL), \
        (true, 'message_key', 'UPDATE', '{kept_at}'), (true, 'message_key', 'DELETE', NULL), \
        (true, 'lane', 'UPDATE', NULL), (true, 'total', 'UPDATE', NULL), \
        (true, 'relay', 'INSERT', NULL), (true, 'relay', 'UPDATE', NULL), (true, 'relay', 'DELETE', NULL), \
        (true, 'tally', 'INSERT', NULL), (true, 'tally', 'DELETE', NULL), \
        (true, 'kept', 'INSERT', NULL), (true, 'resent', 'DELETE', NULL) \
     ), lacking AS MATERIALIZED ( \
        SELECT w.relays, w.p || ' on sendoff.' || w.relname AS told \
          FROM needed w JOIN relation c USING (relname) \
         WHERE CASE WHEN w.columns IS NULL THEN NOT has_table_privilege(c.oid, w.p) \
                    ELSE EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a \
                                  WHERE a.attrelid = c.oid AND a.attname = ANY (w.columns) \
                                    AND NOT has_column_privilege(c.oid, a.attnum, w.p)) END \
     ) \
     SELECT ARRAY( \
            SELECT 'USAGE on the schema sendoff' FROM ours \
             WHERE NOT has_schema_privilege(ours.oid, 'USAGE') \
            UNION ALL SELECT told FROM lacking WHERE NOT relays), \
        ARRAY( \
            SELECT told FROM lacking WHERE relays \
            UNION ALL SELECT 'SELECT on sendoff.' || c.relname FROM relation c \
             WHERE (c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, 'SELECT')) \
                OR (c.relname = 'outbox_seq_seq' AND c.relkind = 'S' \
                    AND NOT has_sequence_privilege(c.oid, 'SELECT')) \
            UNION ALL SELECT 'EXECUTE on sendoff.' || f.proname FROM pg_catalog.pg_proc f \
             WHERE f.pronamespace IN (SELECT oid FROM ours) \
               AND f.proname <> ALL ('{send,resend,barrier_create,barrier_insert,barrier_grow, \
                                       barrier_seal,barrier_cancel,barrier_reopen}'::name[]) \
               AND NOT has_function_privilege(f.oid, 'EXECUTE')), \
        coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM ours), true) \
          AND NOT EXISTS (SELECT 1 FROM relation c WHERE c.relkind IN ('r', 'p') \
                             AND NOT has_table_privilege(c.oid, 'SELECT'))";

/// The oldest transactions that keep dead rows from being removed, older than $1 microseconds: sessions,
/// prepared ones, and slots by how many transactions lie behind them. Of other users' sessions the age is
/// told to whoever may read all statistics.
pub(in crate::postgres) const EXAMINE_TRANSACTIONS: &str = "SELECT 'pid ' || a.pid::text || ' (' \
            || coalesce(a.usename, '') || ', ' || coalesce(a.state, '') || ')', \
            extract(epoch FROM now() - a.xact_start)::bigint \
          FROM pg_catalog.pg_stat_activity a \
         WHERE a.xact_start < now() - $1::bigint * interval '1 microsecond' \
           AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() \
        UNION ALL SELECT 'the prepared transaction ' || p.gid, extract(epoch FROM now() - p.prepared)::bigint \
          FROM pg_catalog.pg_prepared_xacts p \
         WHERE p.prepared < now() - $1 * interval '1 microsecond' \
         ORDER BY 2 DESC LIMIT 5";

/// Our tables whose vacuum is off, and those with many dead rows, more than live ones.
pub(in crate::postgres) const EXAMINE_TABLES: &str = "SELECT ARRAY( \
            SELECT c.relname::text FROM pg_catalog.pg_class c \
             WHERE c.relnamespace = to_regnamespace('sendoff') AND c.relkind = 'r' \
               AND 'autovacuum_enabled=false' = ANY (c.reloptions) ORDER BY 1), \
        ARRAY( \
            SELECT s.relname || ' (' || s.n_dead_tup || ' dead)' FROM pg_catalog.pg_stat_user_tables s \
              JOIN pg_catalog.pg_class c ON c.oid = s.relid \
             WHERE c.relnamespace = to_regnamespace('sendoff') AND s.n_dead_tup > 100000 \
               AND s.n_dead_tup > 2 * s.n_live_tup ORDER BY s.n_dead_tup DESC), \
        pg_total_relation_size(to_regclass('sendoff.message_key')), \
        (SELECT greatest(c.reltuples, 0)::bigint FROM pg_catalog.pg_class c \
          WHERE c.oid = to_regclass('sendoff.message_key'))";

/// Ids that others wait for: in quarantine or retrying, oldest first.
pub(in crate::postgres) const EXAMINE_BLOCKERS: &str =
    concat!("SELECT b.id FROM sendoff.outbox b WHERE ", blocks!("b"), " ORDER BY b.seq LIMIT 5");

/// The versions of the live relays, and how many rows of what is kept have no partition of their own.
pub(in crate::postgres) const EXAMINE_RELAYS: &str = "SELECT ARRAY( \
            SELECT DISTINCT r.version FROM sendoff.relay r WHERE r.lease_until > now()), \
        (SELECT count(*) FROM (SELECT 1 FROM sendoff.kept_rest LIMIT 100000) AS k)";
