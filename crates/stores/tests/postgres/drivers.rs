//! What the tests of every driver send and read back.

use sendoff_core::Message;
use sendoff_core::time::Timestamp;
use sendoff_stores::postgres::PostgresStore;

use crate::stage::{Owner, content};

/// A message with everything that a message may have.
pub(crate) fn full(id: &str) -> Message {
    Message::builder("test", "test.topic")
        .id(id)
        .key("ключ")
        .header("content-type", "text/plain")
        .header("ü", "☃ \"quoted\" \\")
        .body(vec![0, 255, 1])
        .due_at(Timestamp::from_microsecond(1_700_000_000_123_456).unwrap())
        .build()
        .unwrap()
}

/// A message with nothing that a message need not have.
pub(crate) fn bare(id: &str) -> Message {
    Message::builder("test", "test.topic").id(id).build().unwrap()
}

/// Checks that the messages 1 to 4 arrived: full, bare, full, bare.
pub(crate) async fn rows_are_as_sent(store: &PostgresStore) {
    let rows = Owner::of(store).await.rows(store).await;
    let mut arrived: Vec<&Message> = rows.iter().map(content).collect();
    arrived.sort_by_key(|message| message.id());
    assert_eq!(arrived, [&full("1"), &bare("2"), &full("3"), &bare("4")]);
}

/// The ids of all messages that are there.
pub(crate) async fn ids(store: &PostgresStore) -> Vec<String> {
    let rows = Owner::of(store).await.rows(store).await;
    let mut ids: Vec<String> = rows.iter().map(|row| content(row).id().to_owned()).collect();
    ids.sort();
    ids
}
