//! The server fails or refuses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_conformance::servers::Postgres;
use sendoff_core::ErrorKind;
use sendoff_core::error::Retry;
use sendoff_core::store::{OutboxDesk, OutboxStore, Outcome};

use crate::stage::{
    Owner, PATIENCE, connect, content, database, eventually, message, migrated, open, published,
    retry,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_cut_off_by_a_crash_of_the_database_is_settled_again_without_harm() {
    let mut server = Postgres::start().unwrap();
    let store = Arc::new(open(&server.url()));
    store.migrate().await.unwrap();
    let owner = Owner::of(&store).await;
    for round in 0..3 {
        let ids: Vec<String> = (0..200).map(|n| format!("{round}-{n}")).collect();
        let messages: Vec<_> = ids.iter().map(|id| message(id, id)).collect();
        store.send_all(&messages).await.unwrap();
        let rows = owner.rows(&store).await;
        assert_eq!(rows.len(), 200);
        let settling = {
            let store = Arc::clone(&store);
            let verdicts: Vec<_> = rows.iter().map(|row| owner.verdict(row, published())).collect();
            let relay = owner.id.clone();
            tokio::spawn(async move {
                for verdict in verdicts {
                    let mut settled = store.settle(&relay, std::slice::from_ref(&verdict)).await;
                    let begun = Instant::now();
                    while let Err(error) = settled {
                        let kinds = [ErrorKind::Unreachable, ErrorKind::Timeout];
                        assert!(kinds.contains(&error.kind()), "{error}");
                        assert_eq!(error.retry(), Retry::Later);
                        assert!(begun.elapsed() < PATIENCE, "{error}");
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        settled = store.settle(&relay, std::slice::from_ref(&verdict)).await;
                    }
                }
            })
        };
        eventually("it settles", || async {
            let published = store.stats().await.unwrap().published;
            (published > round * 200 + 20).then_some(())
        })
        .await;
        server.kill().unwrap();
        server.restart().unwrap();
        settling.await.unwrap();
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.pending, stats.published), (0, (round + 1) * 200));
    }
}

#[tokio::test]
async fn a_read_only_database_says_so_and_loses_nothing() {
    let (store, url) = migrated().await;
    store.send_all(&[message("1", "k")]).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    let client = connect(&url).await;
    let name = url.rsplit_once('/').unwrap().1;
    let read_only =
        |on: &str| format!("ALTER DATABASE {name} SET default_transaction_read_only = {on}");
    client.batch_execute(&read_only("on")).await.unwrap();
    let late = open(&url);
    let verdict = owner.verdict(&rows[0], published());
    for outcome in [published(), retry("no")] {
        let verdict = owner.verdict(&rows[0], outcome);
        let error = late.settle(&owner.id, &[verdict]).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::ReadOnly, Retry::Later), "{error}");
    }
    let error = late.send_all(&[message("2", "k")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("standby"), "{error}");
    assert_eq!(owner.rows(&late).await.len(), 1, "it can still be read");
    client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    client.batch_execute(&read_only("off")).await.unwrap();
    // The connections that were refused are gone, so new ones meet the new setting.
    let settled = late.settle(&owner.id, &[verdict]).await.unwrap();
    assert_eq!(settled.published, 1);
}

#[tokio::test]
async fn what_the_server_refuses_has_a_kind_and_an_advice() {
    let (_, url) = migrated().await;
    let client = connect(&url).await;
    let name = url.rsplit_once('/').unwrap().1;
    let (server, _) = url.rsplit_once('/').unwrap();
    let host = server.rsplit_once('@').unwrap().1;
    client
        .batch_execute(&format!(
            "CREATE ROLE mute_{name}; CREATE ROLE full_{name} LOGIN CONNECTION LIMIT 0; \
             CREATE ROLE poor_{name} LOGIN"
        ))
        .await
        .unwrap();
    for (url, kind, advice) in [
        (format!("postgres://mute_{name}:s3cret@{host}/{name}"), ErrorKind::Denied, "privileges"),
        (format!("postgres://full_{name}:s3cret@{host}/{name}"), ErrorKind::Unreachable, "connect"),
        (format!("postgres://poor_{name}:s3cret@{host}/{name}"), ErrorKind::Denied, "privileges"),
        (format!("{server}/not_there_{name}"), ErrorKind::NotFound, "create the database"),
        (database().await, ErrorKind::SchemaMissing, "sendoff migrate"),
        ("postgres://u:s3cret@127.0.0.1:1/d".to_owned(), ErrorKind::Unreachable, "server runs"),
    ] {
        let store = open(&url);
        let error = store.stats().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = format!("{error} {error:?} {store:?}");
        assert!(text.contains(advice), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
        let relays = store.look(&sendoff_core::store::Look::default()).await;
        let asked = store
            .look(&sendoff_core::store::Look { ready: true, ..Default::default() })
            .await
            .unwrap_err();
        assert_eq!(asked.kind(), kind, "the relay is told the same: {asked}");
        assert!(relays.is_err());
    }
    client
        .batch_execute(&format!(
            "DROP ROLE mute_{name}; DROP ROLE full_{name}; DROP ROLE poor_{name}"
        ))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_error_does_not_quote_the_row_that_broke_a_rule() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    client
        .batch_execute(
            "ALTER TABLE sendoff.outbox ADD CONSTRAINT ours CHECK (topic <> 'test.topic')",
        )
        .await
        .unwrap();
    let error = store.send_all(&[message("1", "s3cret-key")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = format!("{error} {error:?}");
    assert!(text.contains("\"ours\"") || text.contains("ours"), "{text}");
    assert!(!text.contains("s3cret-key"), "{text}");
}

#[tokio::test]
async fn an_error_text_with_a_nul_is_stored_without_it() {
    let (store, _) = migrated().await;
    store.send_all(&[message("1", "k")]).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    let verdict = owner.verdict(&rows[0], retry("no\0 way, nats://me:pw@host"));
    store.settle(&owner.id, &[verdict]).await.unwrap();
    let found = store.find("1", None).await.unwrap();
    assert_eq!(found[0].last_error.as_deref(), Some("no way, nats://***@host"));
}

#[tokio::test]
async fn seqs_beyond_32_bits_are_seqs_like_others() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    client.batch_execute("ALTER SEQUENCE sendoff.outbox_seq_seq RESTART 4294967296").await.unwrap();
    store.send_all(&[message("1", "k"), message("2", "k")]).await.unwrap();
    let owner = Owner::of(&store).await;
    let sight = store.look(&owner.look()).await.unwrap();
    assert_eq!(sight.rows[0].seq, 4_294_967_296);
    assert_eq!(sight.horizon.unwrap().seq, 4_294_967_297);
    let verdicts =
        [owner.verdict(&sight.rows[0], retry("no")), owner.verdict(&sight.rows[1], Outcome::Held)];
    store.settle(&owner.id, &verdicts).await.unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.retrying, stats.held), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_strict_isolation_and_another_time_zone_is_one_like_others() {
    let (first, url) = migrated().await;
    let name = url.rsplit_once('/').unwrap().1;
    connect(&url)
        .await
        .batch_execute(&format!(
            "ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'; \
             ALTER DATABASE {name} SET timezone = 'Asia/Kolkata'; \
             ALTER DATABASE {name} SET datestyle = 'SQL, DMY'"
        ))
        .await
        .unwrap();
    drop(first);
    let store = Arc::new(open(&url));
    let due_at = sendoff_core::time::Timestamp::from_microsecond(1_700_000_000_123_456).unwrap();
    let due = sendoff_core::Message::builder("test", "t").id("due").due_at(due_at).build().unwrap();
    let mut messages: Vec<_> = (0..400).map(|n| message(&n.to_string(), &n.to_string())).collect();
    messages.push(due);
    store.send_all(&messages).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    assert_eq!(rows.len(), 401);
    assert_eq!(content(rows.last().unwrap()).due_at(), Some(due_at));
    // Serializable transactions that write side by side would conflict.
    let settling: Vec<_> = rows
        .chunks(50)
        .map(|rows| {
            let store = Arc::clone(&store);
            let relay = owner.id.clone();
            let verdicts: Vec<_> = rows
                .iter()
                .map(|row| {
                    owner.verdict(row, if row.seq % 2 == 0 { published() } else { retry("no") })
                })
                .collect();
            tokio::spawn(async move {
                for verdict in verdicts.chunks(2) {
                    store.settle(&relay, verdict).await?;
                }
                Ok::<_, sendoff_core::Error>(())
            })
        })
        .collect();
    for settling in settling {
        settling.await.unwrap().unwrap();
    }
    let stats = store.stats().await.unwrap();
    assert_eq!(stats.published + stats.retrying, 401);
}
