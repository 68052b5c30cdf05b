//! How old a row is: since its commit, where the server keeps commit times, else since its insert.

use std::time::Duration;

use sendoff_conformance::servers::{Postgres, PostgresConfig};
use sendoff_core::lane::Lane;
use sendoff_core::store::{Age, AgeFrom, LaneLook, Look, OutboxDesk, OutboxStore};
use sendoff_core::{Message, Outbox};

use crate::stage::{connect, open};

/// How long the sender's transaction goes on after the insert.
const LATER: Duration = Duration::from_millis(700);

/// The age of a message whose transaction goes on after its insert.
async fn age(server: &Postgres) -> Age {
    let url = server.create_database("shop").unwrap();
    let store = open(&url);
    store.migrate().await.unwrap();
    let mut client = connect(&url).await;
    let mut transaction = client.transaction().await.unwrap();
    let message = Message::builder("shop", "placed").build().unwrap();
    // In a savepoint, whose own transaction id the row then has.
    let mut savepoint = transaction.transaction().await.unwrap();
    Outbox::new("shop").send(&mut savepoint, &message).await.unwrap();
    savepoint.commit().await.unwrap();
    tokio::time::sleep(LATER).await;
    transaction.commit().await.unwrap();
    let look = Look {
        lanes: (0..64).map(|lane| LaneLook { lane: Lane(lane), after: 0 }).collect(),
        ready: true,
        waiting: true,
        rows_max: 10,
        lane_rows_max: 10,
        bytes_max: 1_000,
        ..Look::default()
    };
    let sight = store.look(&look).await.unwrap();
    sight.rows.first().expect("it has committed").age
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_as_old_as_its_commit_where_the_server_keeps_commit_times() {
    let settings = vec![("track_commit_timestamp".to_owned(), "on".to_owned())];
    let config = PostgresConfig { settings, ..PostgresConfig::default() };
    let server = tokio::task::spawn_blocking(|| Postgres::start_with(config));
    let age = age(&server.await.unwrap().unwrap()).await;
    assert_eq!(age.from, AgeFrom::Commit);
    assert!(age.so_far < LATER, "{age:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_as_old_as_its_insert_where_the_server_keeps_no_commit_times() {
    let server = tokio::task::spawn_blocking(Postgres::start);
    let age = age(&server.await.unwrap().unwrap()).await;
    assert_eq!(age.from, AgeFrom::Creation);
    assert!(age.so_far >= LATER, "{age:?}");
}
