//! The schema: made once, mended, and refused where it is not ours to use.

use std::sync::Arc;

use sendoff_core::ErrorKind;
use sendoff_core::store::{OutboxDesk, SchemaState};

use crate::stage::{Owner, connect, database, message, migrated, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_migrations_at_once_make_one_schema() {
    let url = database().await;
    let migrations: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::new(open(&url));
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    for migration in migrations {
        let schema = migration.await.unwrap().unwrap();
        assert_eq!(schema.state, SchemaState::Current, "{schema:?}");
    }
    let client = connect(&url).await;
    let applied: i64 =
        client.query_one("SELECT count(*) FROM sendoff.schema_version", &[]).await.unwrap().get(0);
    assert_eq!(applied, 2);
}

#[tokio::test]
async fn what_is_missing_is_named_and_mended_by_a_migration() {
    let (store, url) = migrated().await;
    store.send_all(&[message("1", "k")]).await.unwrap();
    let client = connect(&url).await;
    for (damage, named) in [
        ("DROP INDEX sendoff.outbox_ready", "sendoff.outbox_ready"),
        ("DROP TABLE sendoff.tally", "sendoff.tally"),
        (
            "DROP FUNCTION sendoff.send(text, text, bytea, jsonb, text, text, timestamptz)",
            "sendoff.send()",
        ),
        (
            "ALTER TABLE sendoff.outbox DISABLE TRIGGER outbox_record_keys",
            "the trigger outbox_record_keys",
        ),
        (
            "ALTER SEQUENCE sendoff.outbox_seq_seq CACHE 20",
            "CACHE 1 on the sequence sendoff.outbox_seq_seq",
        ),
    ] {
        client.batch_execute(damage).await.unwrap();
        let schema = store.schema().await.unwrap();
        assert_eq!(schema.state, SchemaState::Missing, "{damage}");
        assert_eq!(schema.missing, [named], "{damage}");
        assert_eq!(store.migrate().await.unwrap().state, SchemaState::Current, "{damage}");
    }
    let duplicate = store.send_all(&[message("1", "k")]).await.unwrap_err();
    assert_eq!(duplicate.kind(), ErrorKind::Duplicate, "nothing was lost");
    assert_eq!(Owner::of(&store).await.rows(&store).await.len(), 1);
}

#[tokio::test]
async fn a_migration_works_where_somebody_else_made_the_schema() {
    let url = database().await;
    let client = connect(&url).await;
    let name = url.rsplit_once('/').unwrap().1;
    let role = format!("owner_{name}");
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; CREATE SCHEMA sendoff AUTHORIZATION {role}; \
             REVOKE ALL ON DATABASE {name} FROM {role}"
        ))
        .await
        .unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    let host = server.rsplit_once('@').unwrap().1;
    let store = open(&format!("postgres://{role}@{host}/{name}"));
    assert_eq!(store.migrate().await.unwrap().state, SchemaState::Current);
    store.send_all(&[message("1", "k")]).await.unwrap();
    assert_eq!(Owner::of(&store).await.rows(&store).await.len(), 1);
    drop(store);
    client.batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await.unwrap();
}
