//! The disk is full under a SQLite file while a relay works on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_conformance::servers::Disk;
use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::relay::{RelaySettings, Report};
use sendoff_core::store::OutboxDesk;
use sendoff_core::{ErrorKind, Outbox, PublishError, Relay};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore};

use super::shop::{connection, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_on_a_full_disk_says_so_and_goes_on_once_there_is_room() {
    const NAME: &str = "full_disk::a_relay_on_a_full_disk_says_so_and_goes_on_once_there_is_room";
    let Some(disk) = Disk::small(NAME, "4m", false).unwrap() else { return };
    let Some(folder) = disk.folder() else {
        eprintln!("no file system can be mounted here: only the send's own test shows a full disk");
        return;
    };
    let path = folder.join("shop.db");
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, options.clone()).unwrap();
    store.migrate().await.unwrap();
    let target = MemoryPublisher::new();
    target.always(On::Any, Act::Refuse(PublishError::unreachable("not yet")));
    let told: Arc<Mutex<Vec<ErrorKind>>> = Arc::default();
    let heard = Arc::clone(&told);
    let relays = Arc::new(SqliteStore::open(&path, options).unwrap());
    let relay = Relay::builder(relays, Arc::new(target.clone()))
        // No lease lapses while the disk is full, so nothing has to be published twice.
        .settings(RelaySettings { lease: Duration::from_secs(60), ..RelaySettings::default() })
        .report(move |report| {
            if let Report::StoreFailed(error) = report {
                heard.lock().unwrap().push(error.kind());
            }
        })
        .build()
        .unwrap();
    let ready = relay.readiness();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let relay = tokio::spawn(relay.run(async move {
        while !stopped.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }));
    let message = |id: &str| {
        let body = vec![b'x'; 4_000];
        Outbox::new("shop").message("t").id(id).key("k").body(body).build().unwrap()
    };
    let mut sent: Vec<String> = Vec::new();
    for n in 0..50 {
        sent.push(format!("{n:03}"));
        store.send_all(&[message(&sent[n])]).await.unwrap();
    }
    // All of the log is in the file, so that every write needs room of its own.
    connection(&path).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    disk.fill().unwrap();
    let error = store.send_all(&[message("refused")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(error.to_string().contains("free space"), "{error}");
    target.clear();
    wait_until("the relay says so", || told.lock().unwrap().contains(&ErrorKind::DiskFull));
    assert!(!ready.is_ready());
    disk.make_room().unwrap();
    let mut published = 0;
    while published < 50 {
        published = store.stats().await.unwrap().published;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((target.ids(), target.tally().repeated), (sent, 0));
    assert!(store.find("refused", None).await.unwrap().is_empty(), "nothing of it was sent");
    wait_until("it is ready again", || ready.is_ready());
    store.send_all(&[message("refused")]).await.unwrap();
    stop.store(true, Ordering::SeqCst);
    relay.await.unwrap();
}
