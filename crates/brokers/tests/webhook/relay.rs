//! A relay with a webhook for its target, on the reference store.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::memory::MemoryStore;
use sendoff_core::relay::{Backoff, OnceEnd, RelaySettings};
use sendoff_core::{Outbox, Relay};

use crate::receiver::{Receiver, publisher, status};

#[tokio::test]
async fn one_message_that_the_receiver_forbids_does_not_keep_the_others_from_it() {
    let server = Receiver::answering(|request| {
        status(match request.header("sendoff-id") {
            "forbidden" => 403,
            "crashes-the-gateway" => 502,
            _ => 204,
        })
    });
    let store = MemoryStore::new();
    let outbox = Outbox::new("shop");
    let mut transaction = store.begin();
    // First in the row, and nothing has been confirmed before.
    let ids = ["forbidden", "crashes-the-gateway", "a", "b", "c"];
    for id in ids {
        let message = outbox.message("orders.placed").id(id).key(id).body("{}").build().unwrap();
        outbox.send(&mut transaction, &message).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let settings = RelaySettings {
        attempts_max: Some(2),
        backoff: Backoff { first: Duration::from_millis(50), max: Duration::from_millis(50) },
        ..RelaySettings::default()
    };
    let store = Arc::new(store);
    let relay = Relay::builder(store.clone(), Arc::new(publisher(&server.url("/"))))
        .settings(settings)
        .build()
        .unwrap();
    let patience = tokio::time::sleep(Duration::from_secs(60));
    let once = relay.run_once(store, patience).await.unwrap();
    assert_eq!(once.end, OnceEnd::Quarantined, "{once:?}");
    assert_eq!(once.stats.as_ref().unwrap().quarantined, 2, "{once:?}");
    let arrived = server.arrived();
    for id in ["a", "b", "c"] {
        assert!(arrived.iter().any(|request| request.header("sendoff-id") == id), "{id}");
    }
}
