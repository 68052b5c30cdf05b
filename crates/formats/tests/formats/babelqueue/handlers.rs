//! Handlers that do not repeat their effects.

use std::convert::Infallible;

use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::idempotency::{
    Effect, IdempotencyStore, IdempotentError, InMemoryIdempotencyStore, idempotent,
};
use sendoff_formats::json::Json;

#[derive(Debug)]
struct Down;

impl std::fmt::Display for Down {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the store is down")
    }
}

impl std::error::Error for Down {}

/// Fails to look, or to note.
struct Store {
    seen_fails: bool,
    forgets: bool,
}

impl IdempotencyStore for Store {
    type Error = Down;
    async fn seen(&mut self, _: &str) -> Result<bool, Down> {
        if self.seen_fails { Err(Down) } else { Ok(false) }
    }
    async fn remember(&mut self, _: &str) -> Result<(), Down> {
        if self.forgets { Err(Down) } else { Ok(()) }
    }
    async fn forget(&mut self, _: &str) -> Result<(), Down> {
        Ok(())
    }
}

fn envelope() -> Envelope {
    Envelope::make("urn:a", Json::Null, "", None).unwrap()
}

#[tokio::test]
async fn where_the_store_cannot_say_nothing_runs() {
    let mut store = Store { seen_fails: true, forgets: false };
    let mut ran = false;
    let answer = idempotent(&mut store, &envelope(), || {
        ran = true;
        async { Ok::<_, Infallible>(()) }
    })
    .await;
    assert!(matches!(answer, Err(IdempotentError::Store(Down))));
    assert!(!ran);
}

#[tokio::test]
async fn a_note_that_fails_is_no_failure_of_the_message() {
    let mut store = Store { seen_fails: false, forgets: true };
    let answer = idempotent(&mut store, &envelope(), || async { Ok::<_, Infallible>(7) }).await;
    assert_eq!(answer.unwrap(), Effect::Ran(7));
}

#[tokio::test]
async fn the_store_in_memory_is_bounded_and_the_oldest_makes_room() {
    let mut store = InMemoryIdempotencyStore::with_capacity(2);
    for id in ["a", "b", "b", "c"] {
        store.remember(id).await.unwrap();
    }
    let seen = [
        store.seen("a").await.unwrap(),
        store.seen("b").await.unwrap(),
        store.seen("c").await.unwrap(),
    ];
    assert_eq!(seen, [false, true, true]);
    store.forget("b").await.unwrap();
    store.remember("d").await.unwrap();
    assert!(store.seen("c").await.unwrap() && !store.seen("b").await.unwrap());
}
