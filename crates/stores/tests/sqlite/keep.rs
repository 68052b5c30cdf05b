//! What is kept of published messages goes at its time, in bounded batches; and an old program beside a
//! new one.

use std::time::Duration;

use sendoff_core::store::{KeptDesk, KeptLook, OutboxStore, Outcome, RelayId, Retention};

use super::shop::{Shop, ids, message, verdict};

const HOUR: Duration = Duration::from_secs(3_600);

async fn kept(shop: &Shop) -> usize {
    let look = KeptLook { rows_max: 10_000, ..KeptLook::default() };
    shop.store.kept(&look).await.unwrap().len()
}

#[tokio::test]
async fn what_is_kept_goes_at_its_time_in_bounded_batches_also_once_keeping_is_off() {
    let shop = Shop::open().await;
    shop.store.set_retention(Retention::KeepFor(HOUR)).await.unwrap();
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    let sent: Vec<_> = (0..100).map(|n| message(&format!("{n:03}"))).collect();
    shop.send(&sent).await;
    let published = |row| verdict(epoch, row, Outcome::Published { releases: false });
    let verdicts: Vec<_> = shop.rows().await.iter().map(published).collect();
    shop.store.settle(&relay, &verdicts).await.unwrap();
    assert_eq!(shop.store.sweep(1_000).await.unwrap(), 0);
    assert_eq!(kept(&shop).await, 100);
    shop.store.set_retention(Retention::DeleteBehind).await.unwrap();
    shop.connection()
        .execute(
            "UPDATE sendoff_kept SET published_at = published_at - 3601000000 WHERE n <= 70",
            [],
        )
        .unwrap();
    for left in [70, 40, 30, 30] {
        assert!(shop.store.sweep(30).await.unwrap() <= 30);
        assert_eq!(kept(&shop).await, left);
    }
}

/// The statements of a program of schema version 2 that version 3 could have broken.
#[tokio::test]
async fn a_relay_of_version_2_works_on_a_schema_of_version_3() {
    let shop = Shop::open().await;
    shop.send(&[message("1"), message("2")]).await;
    let old = shop.connection();
    old.execute(
        "INSERT INTO sendoff_relay (id, lease_until, started_at, host, boot_id, pid, pid_started)
         VALUES ('old', 9000000000000000, 0, NULL, NULL, 1, 1)
         ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until",
        [],
    )
    .unwrap();
    old.execute(
        "UPDATE sendoff_lane SET owner = 'old', epoch = epoch + 1, lease_until = 9000000000000000
          WHERE lane = 0",
        [],
    )
    .unwrap();
    old.execute("DELETE FROM sendoff_outbox WHERE seq = 1", []).unwrap();
    old.execute("UPDATE sendoff_total SET published = published + 1 WHERE one = 1", []).unwrap();
    let version: i64 = old
        .query_row("SELECT coalesce(max(version), 0) FROM sendoff_schema_version", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(version, 3);
    let relay = RelayId::new();
    assert!(shop.lease(&relay, HOUR).await.lanes.is_empty(), "the old one has the lane");
    assert_eq!(ids(&shop.rows().await), ["2"]);
    old.execute("UPDATE sendoff_lane SET owner = NULL WHERE lane = 0", []).unwrap();
    old.execute("DELETE FROM sendoff_relay WHERE id = 'old'", []).unwrap();
    assert_eq!(shop.lease(&relay, HOUR).await.lanes.len(), 1);
}
