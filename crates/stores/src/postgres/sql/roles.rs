//! Who may do what. `sendoff_role` and the words for the single roles are put in as names are.

/// After every migration: nothing of the schema is everybody's, but for `send`, which runs with the
/// rights of whoever calls it.
pub(in crate::postgres) const PRIVATE: &str = "DO $$ DECLARE f regprocedure; BEGIN \
    FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p \
              WHERE p.pronamespace = to_regnamespace('sendoff') AND p.proname <> 'send' \
                AND pg_has_role(p.proowner, 'USAGE') \
    LOOP EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f); END LOOP; \
    REVOKE ALL ON SCHEMA sendoff FROM PUBLIC; END $$";

/// An owner, of the schema or of the outbox, for whom who asks may not act; whether who asks may make
/// roles; who asks; which of the names $1 are no roles yet; and which of them are above what is granted.
pub(in crate::postgres) const ROLES_RIGHTS: &str = "SELECT \
        (SELECT pg_get_userbyid(o)::text FROM unnest(ARRAY[n.nspowner, c.relowner]) AS o \
          WHERE NOT pg_has_role(o, 'USAGE') LIMIT 1), \
        (SELECT r.rolcreaterole OR r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user), \
        current_user::text, \
        ARRAY(SELECT g FROM unnest($1::text[]) AS g \
               WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = g)), \
        ARRAY(SELECT r.rolname::text FROM pg_catalog.pg_roles r \
               WHERE r.rolname = ANY ($1) AND (r.rolsuper OR r.oid IN (n.nspowner, c.relowner))) \
      FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid \
     WHERE n.oid = to_regnamespace('sendoff') AND c.relname = 'outbox' AND c.relkind = 'r'";

/// The role is there, and has no right in the schema.
pub(in crate::postgres) const ROLE_MADE: &str = "\
DO $$ BEGIN
    IF to_regrole('sendoff_role') IS NULL THEN CREATE ROLE sendoff_role NOLOGIN; END IF;
END $$;
REVOKE ALL ON ALL TABLES IN SCHEMA sendoff FROM sendoff_role;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA sendoff FROM sendoff_role;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sendoff FROM sendoff_role;
REVOKE ALL ON SCHEMA sendoff FROM sendoff_role;
";

/// Sends, and reads nothing.
pub(in crate::postgres) const WRITER: &str = "\
GRANT USAGE ON SCHEMA sendoff TO sendoff_writer;
GRANT INSERT (id, source, topic, key, headers, body, due_at) ON sendoff.outbox TO sendoff_writer;
GRANT EXECUTE ON FUNCTION sendoff.send TO sendoff_writer;
";

/// Acknowledges members of barriers, and asks how a barrier stands.
pub(in crate::postgres) const ACKER: &str = "\
GRANT USAGE ON SCHEMA sendoff TO sendoff_acker;
GRANT EXECUTE ON FUNCTION
    sendoff.barrier_ack(text, bytea, boolean, text, jsonb, text, text),
    sendoff.barrier_ack(text, text, boolean, text, jsonb, text, text),
    sendoff.barrier_resolve,
    sendoff.barrier_resolve_one,
    sendoff.barrier_names,
    sendoff.barrier_witness,
    sendoff.barrier_status
TO sendoff_acker;
";

/// Creates barriers, changes them, acknowledges, and reads all of them.
pub(in crate::postgres) const COORDINATOR: &str = "\
GRANT USAGE ON SCHEMA sendoff TO sendoff_coordinator;
GRANT SELECT (tenant, id, gone, incarnation, epoch, probe) ON sendoff.barrier TO sendoff_coordinator;
GRANT EXECUTE ON FUNCTION
    sendoff.barrier_create(text, bytea[], text, jsonb, interval, text, bigint, text, boolean, boolean,
        boolean, text),
    sendoff.barrier_create(text, text[], text, jsonb, interval, text, bigint, text, boolean, boolean,
        boolean, text),
    sendoff.barrier_ack(text, bytea, boolean, text, jsonb, text, text),
    sendoff.barrier_ack(text, text, boolean, text, jsonb, text, text),
    sendoff.barrier_insert,
    sendoff.barrier_grow,
    sendoff.barrier_seal,
    sendoff.barrier_cancel,
    sendoff.barrier_reopen,
    sendoff.barrier_resolve,
    sendoff.barrier_resolve_one,
    sendoff.barrier_names,
    sendoff.barrier_witness,
    sendoff.barrier_status,
    sendoff.barrier_state,
    sendoff.barrier_list,
    sendoff.barrier_page,
    sendoff.barrier_reasons
TO sendoff_coordinator;
";

/// Partitions of what is kept are written through their table, where the rights on that one count.
macro_rules! no_partition {
    ($role:literal) => {
        concat!(
            "DO $$ DECLARE part regclass; BEGIN
    FOR part IN SELECT i.inhrelid::regclass FROM pg_catalog.pg_inherits i
                      WHERE i.inhparent = to_regclass('sendoff.kept')
    LOOP EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON TABLE %s FROM ",
            $role,
            "', part); END LOOP;
END $$;
"
        )
    };
}

/// Publishes: reads every message, changes none, and deletes what is published. What it may not do is
/// taken away again, so that a table or a function that is new is its own.
pub(in crate::postgres) const RELAY: &str = concat!(
    "\
GRANT USAGE ON SCHEMA sendoff TO sendoff_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sendoff TO sendoff_relay;
REVOKE INSERT, UPDATE, DELETE ON sendoff.schema_version, sendoff.barrier, sendoff.barrier_member,
    sendoff.barrier_evidence, sendoff.retention, sendoff.kept_partition, sendoff.pause
    FROM sendoff_relay;
REVOKE UPDATE, DELETE ON sendoff.kept FROM sendoff_relay;
REVOKE INSERT, UPDATE ON sendoff.resent FROM sendoff_relay;
REVOKE INSERT, UPDATE ON sendoff.outbox, sendoff.message_key FROM sendoff_relay;
REVOKE INSERT, DELETE ON sendoff.lane, sendoff.total FROM sendoff_relay;
GRANT UPDATE (held, holds, parked, attempts, retry_at, quarantined_at, quarantine_reason, last_error)
    ON sendoff.outbox TO sendoff_relay;
GRANT UPDATE (kept_at) ON sendoff.message_key TO sendoff_relay;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA sendoff TO sendoff_relay;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sendoff TO sendoff_relay;
REVOKE EXECUTE ON FUNCTION
    sendoff.send,
    sendoff.resend,
    sendoff.barrier_create(text, bytea[], text, jsonb, interval, text, bigint, text, boolean, boolean,
        boolean, text),
    sendoff.barrier_create(text, text[], text, jsonb, interval, text, bigint, text, boolean, boolean,
        boolean, text),
    sendoff.barrier_insert,
    sendoff.barrier_grow,
    sendoff.barrier_seal,
    sendoff.barrier_cancel,
    sendoff.barrier_reopen
FROM sendoff_relay;
",
    no_partition!("sendoff_relay")
);

/// Looks at everything and mends: quarantine, barriers. What is the relay's own, it reads.
pub(in crate::postgres) const OPERATOR: &str = concat!(
    "\
GRANT USAGE ON SCHEMA sendoff TO sendoff_operator;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sendoff TO sendoff_operator;
REVOKE INSERT, UPDATE, DELETE ON sendoff.schema_version, sendoff.message_key, sendoff.lane,
    sendoff.relay, sendoff.tally, sendoff.total, sendoff.barrier, sendoff.barrier_member,
    sendoff.barrier_evidence, sendoff.kept, sendoff.kept_partition, sendoff.resent
    FROM sendoff_operator;
REVOKE INSERT, UPDATE ON sendoff.outbox FROM sendoff_operator;
REVOKE DELETE ON sendoff.retention FROM sendoff_operator;
GRANT UPDATE (held, holds, parked, attempts, retry_at, quarantined_at, quarantine_reason, last_error)
    ON sendoff.outbox TO sendoff_operator;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA sendoff TO sendoff_operator;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sendoff TO sendoff_operator;
REVOKE EXECUTE ON FUNCTION sendoff.send FROM sendoff_operator;
",
    no_partition!("sendoff_operator")
);
