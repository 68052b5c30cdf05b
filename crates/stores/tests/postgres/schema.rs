//! The schema: made once, mended, and refused where it is not ours to use.

use std::sync::Arc;

use sendoff_core::ErrorKind;
use sendoff_core::error::Retry;
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
    assert_eq!(applied, 3);
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
async fn a_schema_that_another_text_of_a_migration_made_is_refused_and_not_touched() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    client
        .batch_execute(
            "UPDATE sendoff.schema_version SET checksum = md5('another text') \
              WHERE version = 1; \
             DROP INDEX sendoff.outbox_held",
        )
        .await
        .unwrap();
    let schema = store.schema().await.unwrap();
    assert_eq!((schema.state, &schema.changed), (SchemaState::Changed, &vec![1]));
    let error = store.migrate().await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::SchemaChanged, Retry::Never), "{error}");
    let text = error.to_string();
    assert!(text.contains("migration 1") && text.contains("nothing was changed"), "{text}");
    assert_eq!(store.schema().await.unwrap(), schema, "it is still as it was");
}

#[tokio::test]
async fn a_database_that_is_not_utf8_is_refused_by_every_call() {
    let url = database().await;
    let client = connect(&url).await;
    let (server, name) = url.rsplit_once('/').unwrap();
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let odd = format!("{name}_{}", encoding.to_lowercase());
        client
            .batch_execute(&format!(
                "CREATE DATABASE {odd} ENCODING '{encoding}' \
                 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
            ))
            .await
            .unwrap();
        let odd_url = format!("{server}/{odd}");
        let store = open(&odd_url);
        for error in [
            store.migrate().await.unwrap_err(),
            store.schema().await.unwrap_err(),
            store.send_all(&[message("1", "k")]).await.unwrap_err(),
        ] {
            assert_eq!(
                (error.kind(), error.retry()),
                (ErrorKind::Invalid, Retry::Never),
                "{error}"
            );
            let text = error.to_string();
            assert!(text.contains(&format!("encoding {encoding}")), "{text}");
            assert!(text.contains("ENCODING 'UTF8'") && text.contains(&odd), "{text}");
        }
        let there: bool = connect(&odd_url)
            .await
            .query_one("SELECT to_regnamespace('sendoff') IS NOT NULL", &[])
            .await
            .unwrap()
            .get(0);
        assert!(!there, "nothing was made");
        // It stays, as every test's does: a drop waits for a checkpoint of the whole server, and holds up
        // every other test's horizon meanwhile.
    }
}

#[tokio::test]
async fn a_store_of_the_second_version_is_upgraded_and_what_failed_goes_on_holding() {
    let (store, url) = migrated().await;
    store.send_all(&[message("1", "k"), message("2", "k")]).await.unwrap();
    let client = connect(&url).await;
    client
        .batch_execute(
            "ALTER TABLE sendoff.outbox DROP COLUMN holds; \
             UPDATE sendoff.outbox SET retry_at = now() + interval '1 hour' WHERE id = '1'; \
             UPDATE sendoff.outbox SET held = true WHERE id = '2'; \
             DELETE FROM sendoff.schema_version WHERE version = 3",
        )
        .await
        .unwrap();
    let schema = store.schema().await.unwrap();
    assert_eq!((schema.version, schema.needed, schema.state), (2, 3, SchemaState::Missing));
    let schema = store.migrate().await.unwrap();
    assert_eq!((schema.version, schema.state), (3, SchemaState::Current));
    store.send_all(&[message("3", "k")]).await.unwrap();
    let rows = Owner::of(&store).await.rows(&store).await;
    assert!(matches!(rows[0].content, sendoff_core::store::Content::Blocked), "{rows:?}");
    let found = store.find("2", None).await.unwrap();
    assert_eq!(found[0].held_behind.as_deref(), Some("1"));
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
