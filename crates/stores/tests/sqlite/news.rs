//! News: which commits are told, and how soon.

use std::time::{Duration, Instant};

use sendoff_core::Outbox;
use sendoff_core::store::{OutboxDesk, OutboxStore, Outcome, QuarantineReason, RelayId, Which};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore};

use super::shop::{PATIENCE, Shop, message};

/// Long enough for the thread to have asked several times.
const QUIET: Duration = Duration::from_millis(100);

async fn is_told(store: &SqliteStore) -> bool {
    tokio::time::timeout(QUIET, store.news()).await.is_ok()
}

/// A new connection counts as news once; here it is out of the way.
async fn settled_shop() -> Shop {
    let shop = Shop::open().await;
    tokio::time::timeout(PATIENCE, shop.store.news()).await.unwrap().unwrap();
    while is_told(&shop.store).await {}
    shop
}

#[tokio::test]
async fn a_commit_of_another_connection_is_told_within_milliseconds() {
    let shop = settled_shop().await;
    let outbox = Outbox::new("shop");
    let mut service = shop.connection();
    let mut best = PATIENCE;
    for n in 0..10 {
        let mut news = std::pin::pin!(shop.store.news());
        assert!(tokio::time::timeout(QUIET, news.as_mut()).await.is_err());
        let transaction = service.transaction().unwrap();
        outbox.send_blocking(&transaction, &message(&n.to_string())).unwrap();
        transaction.commit().unwrap();
        let begun = Instant::now();
        tokio::time::timeout(PATIENCE, news).await.unwrap().unwrap();
        best = best.min(begun.elapsed());
    }
    // The longest pause between two questions is 20 ms; on a busy machine one of ten may be so.
    assert!(best < Duration::from_millis(25), "{best:?}");
}

#[tokio::test]
async fn what_came_while_nobody_waited_is_told_to_the_next_who_waits() {
    let shop = settled_shop().await;
    assert!(!is_told(&shop.store).await);
    shop.send(&[message("a")]).await;
    assert!(is_told(&shop.store).await);
    assert!(!is_told(&shop.store).await);
}

#[tokio::test]
async fn news_for_somebody_who_stopped_waiting_is_told_to_the_next() {
    let shop = settled_shop().await;
    {
        let mut news = std::pin::pin!(shop.store.news());
        assert!(tokio::time::timeout(QUIET, news.as_mut()).await.is_err());
        shop.send(&[message("a")]).await;
        // Long enough for it to be told to the future, which is dropped before it hears.
        std::thread::sleep(QUIET);
    }
    assert!(is_told(&shop.store).await);
}

#[tokio::test]
async fn everybody_who_waits_is_told() {
    let shop = settled_shop().await;
    let (one, other) = (shop.store.news(), shop.store.news());
    let send = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        shop.send(&[message("a")]).await;
    };
    let all = async { tokio::join!(one, other, send) };
    let (one, other, ()) = tokio::time::timeout(PATIENCE, all).await.unwrap();
    one.unwrap();
    other.unwrap();
}

#[tokio::test]
async fn the_relays_own_settlements_and_leases_are_no_news() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    shop.send(&[message("a"), message("b")]).await;
    let rows = shop.rows().await;
    tokio::time::timeout(PATIENCE, shop.store.news()).await.unwrap().unwrap();
    while is_told(&shop.store).await {}
    for row in &rows {
        let published = Outcome::Published { releases: false };
        shop.settle(&relay, epoch, row, published).await;
        shop.lease(&relay, PATIENCE).await;
        assert!(!is_told(&shop.store).await);
    }
}

#[tokio::test]
async fn a_requeue_by_another_process_is_news() {
    let shop = settled_shop().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    shop.send(&[message("a")]).await;
    let quarantined = Outcome::Quarantined {
        reason: QuarantineReason::Permanent,
        error: "no".to_owned(),
        holds: true,
    };
    shop.settle(&relay, epoch, &shop.rows().await[0], quarantined).await;
    while is_told(&shop.store).await {}
    let desk = SqliteStore::open(&shop.path, SqliteOptions::default()).unwrap();
    assert_eq!(desk.requeue(&Which::All).await.unwrap().messages, 1);
    assert!(is_told(&shop.store).await);
}

#[tokio::test]
async fn a_file_that_was_exchanged_is_news_and_is_used() {
    let shop = settled_shop().await;
    assert!(shop.rows().await.is_empty());
    let other = Shop::open().await;
    other.send(&[message("x")]).await;
    drop(other.store);
    super::shop::wait_until("the other store is closed", || {
        std::fs::read_dir(other.folder.path()).unwrap().count() == 1
    });
    for end in ["-wal", "-shm"] {
        let mut path = shop.path.clone().into_os_string();
        path.push(end);
        let _ = std::fs::remove_file(path);
    }
    std::fs::rename(&other.path, &shop.path).unwrap();
    tokio::time::timeout(PATIENCE, shop.store.news()).await.unwrap().unwrap();
    assert_eq!(shop.rows().await.len(), 1);
    shop.send(&[message("y")]).await;
    assert_eq!(super::shop::ids(&shop.rows().await), ["x", "y"]);
}
