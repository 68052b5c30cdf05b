//! Statements on barriers.
//!
//! Lists of names come as one JSON array of hexadecimal texts, so that a batch of any size is one
//! statement with one text.

macro_rules! header_columns {
    () => {
        "no, tenant, id, incarnation, epoch, state, reason, sealed, digest, continue_with, policy,
         deadline_at, on_deadline, parent_id, parent_member, probe, created_at, completed_at,
         expires_at, continuation_id"
    };
}

/// Pending members: the condition of the index `sendoff_barrier_member_pending`.
macro_rules! is_pending {
    () => {
        "resolved_at IS NULL AND NOT missing"
    };
}

/// Changes nothing and takes the write lock. Without it a transaction that reads first cannot write
/// once another one has committed since, and is told so without a wait (`SQLITE_BUSY_SNAPSHOT`).
pub(in crate::sqlite) const LOCK: &str = "DELETE FROM sendoff_barrier WHERE no < 0";

pub(in crate::sqlite) const BEGIN_CALL: &str = "SAVEPOINT sendoff_barrier";
pub(in crate::sqlite) const END_CALL: &str = "RELEASE sendoff_barrier";
pub(in crate::sqlite) const UNDO_CALL: &str =
    "ROLLBACK TO sendoff_barrier; RELEASE sendoff_barrier";

pub(in crate::sqlite) const HEADER: &str = concat!(
    "SELECT ",
    header_columns!(),
    " FROM sendoff_barrier INDEXED BY sendoff_barrier_id
      WHERE tenant = ?1 AND id = ?2 AND NOT gone"
);

pub(in crate::sqlite) const LIST: &str = "SELECT id
    FROM sendoff_barrier INDEXED BY sendoff_barrier_id
    WHERE tenant = ?1 AND id > ?2 AND NOT gone ORDER BY id LIMIT ?3";

pub(in crate::sqlite) const STEP_ASIDE: &str = "UPDATE sendoff_barrier SET gone = 1
    WHERE tenant = ?1 AND id = ?2 AND NOT gone";

pub(in crate::sqlite) const INSERT: &str = "INSERT INTO sendoff_barrier
    (tenant, id, incarnation, epoch, state, reason, sealed, digest, continue_with, policy,
     deadline_at, on_deadline, parent_id, parent_member, probe, created_at, completed_at,
     expires_at, continuation_id, state_value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
    RETURNING no";

pub(in crate::sqlite) const UPDATE: &str = "UPDATE sendoff_barrier
    SET epoch = ?2, state = ?3, reason = ?4, sealed = ?5, deadline_at = ?6, completed_at = ?7,
        expires_at = ?8, continuation_id = ?9
    WHERE no = ?1";

pub(in crate::sqlite) const STATE_VALUE: &str =
    "SELECT state_value FROM sendoff_barrier WHERE no = ?1";

pub(in crate::sqlite) const STANDS: &str = "SELECT EXISTS (
    SELECT 1 FROM sendoff_message_key k JOIN sendoff_outbox o ON o.seq = k.seq
     WHERE k.id = ?2 AND k.source = ?1)";

// Groups.

pub(in crate::sqlite) const TALLIES: &str = "SELECT grp, pending, ok, failed, missing, last_ack_at
    FROM sendoff_barrier_group WHERE barrier = ?1";

/// Adds to a group's counts, which may be by less than nothing.
pub(in crate::sqlite) const COUNT: &str = "INSERT INTO sendoff_barrier_group
    (barrier, grp, pending, ok, failed, missing, last_ack_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (barrier, grp) DO UPDATE SET
        pending = pending + excluded.pending,
        ok = ok + excluded.ok,
        failed = failed + excluded.failed,
        missing = missing + excluded.missing,
        last_ack_at = coalesce(max(last_ack_at, excluded.last_ack_at),
                               last_ack_at, excluded.last_ack_at)";

pub(in crate::sqlite) const COUNT_GIVEN_UP: &str = "UPDATE sendoff_barrier_group
    SET missing = missing + pending, pending = 0 WHERE barrier = ?1";

pub(in crate::sqlite) const COUNT_REOPENED: &str = "UPDATE sendoff_barrier_group
    SET pending = pending + failed + missing, failed = 0, missing = 0 WHERE barrier = ?1";

// Members.

pub(in crate::sqlite) const ADD: &str = "INSERT OR IGNORE INTO sendoff_barrier_member
    (barrier, name, grp) SELECT ?1, unhex(value), ?3 FROM json_each(?2)";

/// The CROSS JOIN keeps the order: a look-up for each name that is asked for.
pub(in crate::sqlite) const FIND: &str =
    "SELECT m.name, m.grp, m.resolved_at, m.outcome, m.channel, m.missing
    FROM json_each(?2) j CROSS JOIN sendoff_barrier_member m
    WHERE m.barrier = ?1 AND m.name = unhex(j.value)";

/// Each element is an array of name, ok and outcome. The barrier comes from the list too, so that
/// SQLite cannot but look each name up: with a constant it walks over all members instead.
pub(in crate::sqlite) const RESOLVE: &str = concat!(
    "WITH j AS MATERIALIZED (
        SELECT ?1 AS barrier, unhex(value ->> 0) AS name, value ->> 1 AS ok, value ->> 2 AS outcome
          FROM json_each(?2))
     UPDATE sendoff_barrier_member AS m
        SET resolved_at = ?3, channel = ?4, ok = j.ok, outcome = j.outcome
       FROM j
      WHERE m.barrier = j.barrier AND m.name = j.name AND ",
    is_pending!(),
    " RETURNING name, grp, ok"
);

pub(in crate::sqlite) const RESOLVE_ONE: &str = concat!(
    "UPDATE sendoff_barrier_member
        SET resolved_at = ?3, channel = ?4, ok = ?5, outcome = ?6
      WHERE barrier = ?1 AND name = ?2 AND ",
    is_pending!(),
    " RETURNING name, grp, ok"
);

pub(in crate::sqlite) const GIVE_UP: &str =
    concat!("UPDATE sendoff_barrier_member SET missing = 1 WHERE barrier = ?1 AND ", is_pending!());

pub(in crate::sqlite) const REOPEN_ALL: &str = "UPDATE sendoff_barrier_member
    SET resolved_at = NULL, ok = NULL, outcome = NULL, channel = NULL, missing = 0
    WHERE barrier = ?1 AND (ok = 0 OR missing)";

pub(in crate::sqlite) const REOPEN: &str = "UPDATE sendoff_barrier_member
    SET resolved_at = NULL, ok = NULL, outcome = NULL, channel = NULL, missing = 0
    WHERE barrier = ?1 AND name IN (SELECT unhex(value) FROM json_each(?2)) AND (ok = 0 OR missing)";

pub(in crate::sqlite) const ANY_PENDING: &str = concat!(
    "SELECT EXISTS (SELECT 1
       FROM sendoff_barrier_member INDEXED BY sendoff_barrier_member_pending
      WHERE barrier = ?1 AND ",
    is_pending!(),
    ")"
);

pub(in crate::sqlite) const NAMES: &str = "SELECT name FROM sendoff_barrier_member
    WHERE barrier = ?1 AND name > ?2 ORDER BY name LIMIT ?3";

pub(in crate::sqlite) const NAMES_PENDING: &str = concat!(
    "SELECT name FROM sendoff_barrier_member INDEXED BY sendoff_barrier_member_pending
      WHERE barrier = ?1 AND name > ?2 AND ",
    is_pending!(),
    " ORDER BY name LIMIT ?3"
);

pub(in crate::sqlite) const RESOLVED_SINCE: &str =
    "SELECT count(*) FROM sendoff_barrier_member WHERE barrier = ?1 AND resolved_at > ?2";

/// A page of members, in the order of their names.
macro_rules! page {
    ($index:literal, $which:expr) => {
        concat!(
            "SELECT name, resolved_at, outcome, channel FROM sendoff_barrier_member ",
            $index,
            " WHERE barrier = ?1 AND name > ?2 AND ",
            $which,
            " ORDER BY name LIMIT ?3"
        )
    };
}

pub(in crate::sqlite) const PAGE_RESOLVED: &str = page!("", "resolved_at IS NOT NULL");
pub(in crate::sqlite) const PAGE_FAILED: &str =
    page!("INDEXED BY sendoff_barrier_member_failed", "ok = 0");
pub(in crate::sqlite) const PAGE_MISSING: &str =
    page!("INDEXED BY sendoff_barrier_member_missing", "missing");
pub(in crate::sqlite) const PAGE_PENDING: &str =
    page!("INDEXED BY sendoff_barrier_member_pending", is_pending!());

/// One member, by the primary key.
pub(in crate::sqlite) const PAGE_ONLY: &str =
    "SELECT name, resolved_at, outcome, channel FROM sendoff_barrier_member
      WHERE barrier = ?1 AND name = ?2 LIMIT ?3";

// Evidence.

pub(in crate::sqlite) const EVIDENCE_ADD: &str = "INSERT INTO sendoff_barrier_evidence
    (barrier, at, kind, member, near, ok, channel)
    SELECT no, ?3, ?4, ?5, ?6, ?7, ?8 FROM sendoff_barrier INDEXED BY sendoff_barrier_id
     WHERE tenant = ?1 AND id = ?2 AND NOT gone";

/// Leaves the last `?3` ones.
pub(in crate::sqlite) const EVIDENCE_CAP: &str = "DELETE FROM sendoff_barrier_evidence
    WHERE barrier = (SELECT no FROM sendoff_barrier INDEXED BY sendoff_barrier_id
                      WHERE tenant = ?1 AND id = ?2 AND NOT gone)
      AND seq <= (SELECT seq FROM sendoff_barrier_evidence INDEXED BY sendoff_barrier_evidence_of
                   WHERE barrier = (SELECT no FROM sendoff_barrier INDEXED BY sendoff_barrier_id
                                     WHERE tenant = ?1 AND id = ?2 AND NOT gone)
                   ORDER BY seq DESC LIMIT 1 OFFSET ?3)";

pub(in crate::sqlite) const EVIDENCE: &str = "SELECT at, kind, member, near, ok, channel
    FROM sendoff_barrier_evidence WHERE barrier = (
        SELECT no FROM sendoff_barrier INDEXED BY sendoff_barrier_id
         WHERE tenant = ?1 AND id = ?2 AND NOT gone) ORDER BY seq";

// The sweep.

/// A barrier whose rows are to go: a later one has its id, or its week is over and its continuation
/// has left the outbox.
pub(in crate::sqlite) const OVER: &str =
    "SELECT no FROM sendoff_barrier INDEXED BY sendoff_barrier_gone WHERE gone
     UNION ALL
     SELECT no FROM sendoff_barrier b INDEXED BY sendoff_barrier_end
      WHERE expires_at <= ?1 AND NOT gone AND NOT EXISTS (
            SELECT 1 FROM sendoff_message_key k JOIN sendoff_outbox o ON o.seq = k.seq
             WHERE k.id = b.continuation_id AND k.source = ?2)
     LIMIT 1";

pub(in crate::sqlite) const SWEEP_MEMBERS: &str = "DELETE FROM sendoff_barrier_member
    WHERE barrier = ?1 AND name IN (
        SELECT name FROM sendoff_barrier_member WHERE barrier = ?1 ORDER BY name LIMIT ?2)";

pub(in crate::sqlite) const SWEEP_EVIDENCE: &str =
    "DELETE FROM sendoff_barrier_evidence WHERE barrier = ?1";
pub(in crate::sqlite) const SWEEP_GROUPS: &str =
    "DELETE FROM sendoff_barrier_group WHERE barrier = ?1";
pub(in crate::sqlite) const SWEEP_HEADER: &str = "DELETE FROM sendoff_barrier WHERE no = ?1";

/// Open and sealed barriers behind `?1`, whose week is not over at `?3`, and whether they have nothing
/// pending.
pub(in crate::sqlite) const STUCK: &str = concat!(
    "SELECT no, tenant, id, NOT EXISTS (SELECT 1
            FROM sendoff_barrier_member m INDEXED BY sendoff_barrier_member_pending
           WHERE m.barrier = b.no AND ",
    is_pending!(),
    ") FROM sendoff_barrier b INDEXED BY sendoff_barrier_open
      WHERE state = 'open' AND sealed AND NOT gone AND no > ?1 AND expires_at > ?3
      ORDER BY no LIMIT ?2"
);

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use crate::sqlite::sql;

    /// The plan of a statement, a line for each step.
    fn plan(connection: &Connection, statement: &str) -> Vec<String> {
        let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        for parameter in 1..=explained.parameter_count() {
            explained.raw_bind_parameter(parameter, "[]").unwrap();
        }
        let mut rows = explained.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get(3).unwrap());
        }
        steps
    }

    #[test]
    fn no_statement_of_an_acknowledgement_walks_over_members() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql::VERSION_TABLE).unwrap();
        for (version, migration) in (1_u32..).zip(sql::MIGRATIONS) {
            for (_, _, add) in sql::columns::ADDED.iter().filter(|(of, ..)| *of == version) {
                connection.execute_batch(add).unwrap();
            }
            connection.execute_batch(migration).unwrap();
        }
        let statements = [
            super::HEADER,
            super::TALLIES,
            super::FIND,
            super::RESOLVE,
            super::RESOLVE_ONE,
            super::REOPEN,
            super::STANDS,
            super::PAGE_ONLY,
        ];
        for statement in statements {
            for step in plan(&connection, statement) {
                let whole_key = ["name=?", "grp", "(tenant=? AND id=?)", "id=? AND", "rowid=?"];
                let walks = (step.starts_with("SCAN") || step.starts_with("SEARCH"))
                    && (step.contains("sendoff_barrier_member") || step.contains(" m USING"))
                    && !whole_key.iter().any(|key| step.contains(key));
                assert!(!walks, "{step} in {statement}");
                assert!(!step.starts_with("SCAN sendoff"), "{step} in {statement}");
            }
        }
        // One look into an index for whether anything is pending, and for each page.
        for statement in [super::ANY_PENDING, super::NAMES_PENDING, super::PAGE_PENDING] {
            let steps = plan(&connection, statement);
            assert!(
                steps.iter().any(|step| step.contains("sendoff_barrier_member_pending (barrier=?")),
                "{steps:?}"
            );
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
        }
    }
}
