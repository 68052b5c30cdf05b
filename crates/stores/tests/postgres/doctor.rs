//! The examination of a real server: each condition is broken, and named.

use std::time::Duration;

use sendoff_conformance::servers::{Postgres, PostgresConfig};
use sendoff_core::store::doctor::Limits;
use sendoff_core::store::{
    Doctor, Finding, Grade, OutboxDesk, OutboxStore, Outcome, QuarantineReason,
};
use sendoff_stores::postgres::PostgresStore;

use crate::stage::{Owner, connect, database, eventually, message, migrated, open, retry};

async fn examine(store: &PostgresStore) -> Vec<Finding> {
    store.examine(&Limits::default()).await
}

fn named<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("there is no check {check}: {findings:?}"))
}

/// A finding of this grade that says this, and what to do.
fn assert_found(findings: &[Finding], check: &str, grade: Grade, words: &str) {
    let finding = named(findings, check);
    assert_eq!(finding.grade, grade, "{finding:?}");
    assert!(finding.found.contains(words), "{finding:?}");
    assert_eq!(finding.next.is_some(), grade != Grade::Ok, "{finding:?}");
}

#[tokio::test]
async fn a_store_that_is_well_has_nothing_to_look_at_but_its_missing_relay() {
    let (store, _) = migrated().await;
    let findings = examine(&store).await;
    for finding in findings.iter().filter(|finding| {
        // The shared server of the tests may run without fsync.
        !["lanes", "fsync", "old-transactions"].contains(&finding.check)
    }) {
        assert_eq!(finding.grade, Grade::Ok, "{finding:?}");
    }
    assert_found(&findings, "lanes", Grade::Warning, "0 of 64");
    let owner = Owner::of(&store).await;
    assert_found(&examine(&store).await, "lanes", Grade::Ok, "64 of 64");
    drop(owner);
}

#[tokio::test]
async fn a_store_that_is_not_there_or_not_migrated_says_so_and_nothing_more() {
    let findings = examine(&open("postgres://nobody@127.0.0.1:1/shop")).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_found(&findings, "reachable", Grade::Failure, "127.0.0.1:1");
    let url = database().await;
    let findings = examine(&open(&url)).await;
    assert_found(&findings, "schema", Grade::Failure, "never migrated");
    assert!(named(&findings, "schema").next.as_deref().unwrap().contains("sendoff migrate"));
    assert_eq!(findings.last().unwrap().check, "schema");
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    client.batch_execute("DROP INDEX sendoff.outbox_ready").await.unwrap();
    assert_found(&examine(&store).await, "schema", Grade::Failure, "sendoff.outbox_ready");
    client
        .batch_execute("INSERT INTO sendoff.schema_version (version, checksum) VALUES (99, '')")
        .await
        .unwrap();
    assert_found(&examine(&store).await, "schema", Grade::Failure, "99");
}

#[tokio::test]
async fn settings_that_weaken_commits_are_named() {
    let server = Postgres::start_with(PostgresConfig {
        fsync: false,
        settings: vec![
            ("full_page_writes".to_owned(), "off".to_owned()),
            ("autovacuum".to_owned(), "off".to_owned()),
            ("synchronous_commit".to_owned(), "off".to_owned()),
        ],
        ..PostgresConfig::default()
    })
    .unwrap();
    let store = open(&server.create_database("shop").unwrap());
    store.migrate().await.unwrap();
    let findings = examine(&store).await;
    assert_found(&findings, "fsync", Grade::Failure, "fsync is off");
    assert_found(&findings, "full-page-writes", Grade::Failure, "full_page_writes is off");
    assert_found(&findings, "synchronous-commit", Grade::Warning, "synchronous_commit is off");
    assert_found(&findings, "autovacuum", Grade::Warning, "autovacuum is off");
}

#[tokio::test]
async fn an_old_transaction_is_named_by_its_pid_and_age() {
    let (store, url) = migrated().await;
    let mut old = connect(&url).await;
    let pid: i32 = old.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let transaction = old.transaction().await.unwrap();
    transaction.query("SELECT txid_current()", &[]).await.unwrap();
    let limits = Limits { old_transaction: Duration::from_millis(1), ..Limits::default() };
    tokio::time::sleep(Duration::from_millis(5)).await;
    let findings = store.examine(&limits).await;
    assert_found(&findings, "old-transactions", Grade::Warning, &format!("pid {pid} "));
    transaction.rollback().await.unwrap();
    // Other tests on the same server may have old ones as well.
    let findings = store.examine(&limits).await;
    assert!(!named(&findings, "old-transactions").found.contains(&format!("pid {pid} ")));
}

#[tokio::test]
async fn tables_that_are_not_vacuumed_and_full_of_dead_rows_are_named() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    client
        .batch_execute(
            "ALTER TABLE sendoff.message_key SET (autovacuum_enabled = false); \
             INSERT INTO sendoff.message_key (id, source, seq) \
             SELECT n::text, 's', n FROM generate_series(1, 120000) n; \
             DELETE FROM sendoff.message_key",
        )
        .await
        .unwrap();
    drop(client);
    assert_found(&examine(&store).await, "table-vacuum", Grade::Warning, "message_key");
    eventually("the dead rows are counted", || async {
        let findings = examine(&store).await;
        let bloat = named(&findings, "bloat");
        (bloat.grade == Grade::Warning && bloat.found.contains("message_key")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_waits_and_what_is_set_aside_is_counted_with_the_ids_to_begin_with() {
    let (store, _) = migrated().await;
    store.send_all(&[message("bad", "a"), message("a2", "a"), message("slow", "b")]).await.unwrap();
    let limits = Limits { oldest_due: Duration::ZERO, ..Limits::default() };
    let findings = store.examine(&limits).await;
    assert_found(&findings, "lanes", Grade::Failure, "3 messages are due");
    assert_found(&findings, "oldest-due", Grade::Warning, "3 due");
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    let aside = Outcome::Quarantined {
        reason: QuarantineReason::Permanent,
        error: "no".to_owned(),
        holds: true,
    };
    let verdicts = [owner.verdict(&rows[0], aside), owner.verdict(&rows[2], retry("later"))];
    store.settle(&owner.id, &verdicts).await.unwrap();
    let findings = examine(&store).await;
    let bad = crate::stage::content(&rows[0]).id().to_owned();
    assert_found(&findings, "quarantined", Grade::Warning, &bad);
    let held = store.stats().await.unwrap().held;
    let grade = if held == 0 { Grade::Ok } else { Grade::Warning };
    assert_eq!(named(&findings, "held").grade, grade);
}

#[tokio::test]
async fn a_role_with_too_few_rights_is_told_which() {
    let (_, url) = migrated().await;
    let client = connect(&url).await;
    let name = url.rsplit_once('/').unwrap().1;
    let role = format!("patient_{name}");
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    let host = server.rsplit_once('@').unwrap().1;
    let patient = open(&format!("postgres://{role}@{host}/{name}"));
    let findings = examine(&patient).await;
    assert_found(&findings, "privileges-to-send", Grade::Warning, "USAGE on the schema sendoff");
    client
        .batch_execute(&format!(
            "GRANT USAGE ON SCHEMA sendoff TO {role}; GRANT INSERT ON sendoff.outbox TO {role}"
        ))
        .await
        .unwrap();
    let findings = examine(&patient).await;
    assert_found(&findings, "privileges-to-send", Grade::Ok, "none");
    assert_found(&findings, "privileges-to-relay", Grade::Warning, "DELETE on sendoff.outbox");
    client
        .batch_execute(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sendoff TO {role}; \
             GRANT SELECT ON ALL SEQUENCES IN SCHEMA sendoff TO {role}; \
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sendoff TO {role}; \
             REVOKE EXECUTE ON FUNCTION sendoff.keep_turn() FROM {role}"
        ))
        .await
        .unwrap();
    let findings = examine(&patient).await;
    assert_found(&findings, "privileges-to-relay", Grade::Warning, "EXECUTE on sendoff.keep_turn");
    client
        .batch_execute(&format!("GRANT EXECUTE ON FUNCTION sendoff.keep_turn() TO {role}"))
        .await
        .unwrap();
    assert_found(&examine(&patient).await, "privileges-to-relay", Grade::Ok, "none");
    drop(patient);
    client.batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn relays_of_another_version_and_kept_rows_without_a_partition_are_named() {
    let (store, url) = migrated().await;
    let _owner = Owner::of(&store).await;
    let client = connect(&url).await;
    assert_found(&examine(&store).await, "versions", Grade::Ok, "every live relay");
    client
        .batch_execute(
            "UPDATE sendoff.relay SET version = '0.0.1'; \
             INSERT INTO sendoff.relay (id, lease_until) VALUES ('old', now() + interval '1 hour'); \
             INSERT INTO sendoff.kept (published_at, n, seq, created_at, attempts, id, source, topic, \
                                       headers, body) \
             VALUES (now(), 1, 1, now(), 0, 'x', 's', 't', '{}', '')",
        )
        .await
        .unwrap();
    let findings = examine(&store).await;
    assert_found(&findings, "versions", Grade::Warning, "0.0.1");
    assert_found(&findings, "versions", Grade::Warning, "does not say its version");
    assert_found(&findings, "kept", Grade::Warning, "1 kept messages");
}
