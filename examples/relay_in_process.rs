//! A service with its relay inside: each commit wakes it, and a stop drains it.

use std::sync::Arc;

use sendoff::file::FilePublisher;
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::store::OutboxDesk;
use sendoff::{Outbox, Relay, Wake};
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (shop, arrived) = (folder.path().join("shop.db"), folder.path().join("arrived.jsonl"));

    let store =
        Arc::new(SqliteStore::open(&shop, SqliteOptions { create: true, ..Default::default() })?);
    store.migrate().await?;

    let wake = Wake::new();
    let relay = Relay::builder(store.clone(), Arc::new(FilePublisher::open(&arrived)?))
        .wake(wake.clone())
        .report(|report| eprintln!("{report:?}"))
        .build()?;
    let progress = relay.progress();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(relay.run(async {
        let _ = stopped.await;
    }));

    let mut database = rusqlite::Connection::open(&shop)?;
    database.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;")?;
    let outbox = Outbox::new("shop");
    for state in ["placed", "packed", "shipped"] {
        let message = outbox.message("orders.moved").key("order-1").body(state).build()?;
        let transaction = database.transaction()?;
        outbox.send_blocking(&transaction, &message)?;
        // Commits, then wakes the relay: it need not wait for its poll.
        wake.commit_blocking(transaction)?;
    }
    while progress.tally().settled < 3 {
        tokio::task::yield_now().await;
    }

    // A graceful stop: what is in flight is confirmed and settled, the lease is given back.
    let _ = stop.send(());
    let tally = running.await?;
    println!("confirmed: {}, settled: {}", tally.confirmed, tally.settled);
    println!("waiting: {}", store.stats().await?.pending);
    let lines = std::fs::read_to_string(&arrived)?;
    let moved: Vec<&str> = ["placed", "packed", "shipped"]
        .into_iter()
        .filter(|state| lines.contains(&format!("\"body\":\"{state}\"")))
        .collect();
    println!("arrived: {}", moved.join(", "));
    Ok(())
}
