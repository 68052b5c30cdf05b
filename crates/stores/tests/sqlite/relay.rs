//! The relay's verbs where SQLite's way of answering them could go wrong.

use std::time::Duration;

use sendoff_core::Outbox;
use sendoff_core::store::{
    Ask, Content, LaneLease, LeaseRequest, Look, OutboxDesk, OutboxStore, Outcome, Place,
    QuarantineReason, RelayId, Which,
};
use sendoff_core::time::Timestamp;
use sendoff_stores::sqlite::SqliteOptions;

use super::shop::{
    PATIENCE, Shop, content, everything, ids, keyed, message, release, request, verdict,
};

fn retry(after: Duration) -> Outcome {
    Outcome::Retry { after, error: "no".to_owned(), counts: true, holds: true }
}

fn quarantine() -> Outcome {
    Outcome::Quarantined {
        reason: QuarantineReason::Permanent,
        error: "never".to_owned(),
        holds: true,
    }
}

#[tokio::test]
async fn one_lane_has_one_owner_and_every_change_of_owner_is_an_epoch() {
    let shop = Shop::open().await;
    let (one, other) = (RelayId::new(), RelayId::new());
    let grant = shop.lease(&one, PATIENCE).await;
    assert_eq!((grant.share, grant.lanes_total, grant.relays), (1, 1, 1));
    assert_eq!(grant.lanes[0].epoch, 1);
    assert_eq!(shop.lease(&one, PATIENCE).await.lanes[0].epoch, 1);
    assert!(shop.lease(&other, PATIENCE).await.lanes.is_empty());
    let back = LaneLease { floor: 77, ..grant.lanes[0] };
    let left = shop.store.lease(&release(&one, back)).await.unwrap();
    assert!(left.lanes.is_empty());
    assert_eq!(left.relays, 1);
    let grant = shop.lease(&other, PATIENCE).await;
    assert_eq!((grant.lanes[0].epoch, grant.lanes[0].floor), (2, 77));
}

#[tokio::test]
async fn a_lapsed_lease_is_kept_under_its_epoch_unless_somebody_took_it() {
    let shop = Shop::open().await;
    let (one, other) = (RelayId::new(), RelayId::new());
    let short = Duration::from_millis(1);
    let lane = shop.lease(&one, short).await.lanes[0];
    std::thread::sleep(Duration::from_millis(5));
    let keep = LeaseRequest { keep: vec![lane], ..request(&one, short, Ask::Share) };
    assert_eq!(shop.store.lease(&keep).await.unwrap().lanes[0].epoch, 1);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(shop.lease(&other, PATIENCE).await.lanes[0].epoch, 2);
    assert!(shop.store.lease(&keep).await.unwrap().lanes.is_empty());
}

#[tokio::test]
async fn bytes_are_bounded_before_bodies_are_read_and_the_first_row_is_given_whatever_it_weighs() {
    let shop = Shop::open().await;
    let outbox = Outbox::new("shop");
    let sized = |id: &str, bytes: usize| {
        let message = outbox.message("t").id(id).body(vec![7; bytes]);
        message.build().unwrap()
    };
    shop.send(&[sized("large", 3 << 20), sized("a", 10_000), sized("b", 100), sized("c", 10_000)])
        .await;
    let look = |after: i64, bytes_max: usize| {
        let mut look = everything();
        look.lanes[0].after = after;
        Look { bytes_max, ..look }
    };
    let first = shop.store.look(&look(0, 1_000)).await.unwrap();
    assert_eq!(ids(&first.rows), ["large"]);
    assert!(first.truncated);
    let next = shop.store.look(&look(first.rows[0].seq, 11_000)).await.unwrap();
    assert_eq!(ids(&next.rows), ["a", "b"]);
    assert!(next.truncated);
    let last = shop.store.look(&look(next.rows[1].seq, 11_000)).await.unwrap();
    assert_eq!(ids(&last.rows), ["c"]);
    assert!(!last.truncated);
}

#[tokio::test]
async fn followers_are_held_at_once_and_later_ones_are_found_blocked() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    shop.send(&[keyed("a", "k"), keyed("b", "k"), keyed("x", "other")]).await;
    let rows = shop.rows().await;
    shop.settle(&relay, epoch, &rows[0], retry(Duration::ZERO)).await;
    shop.send(&[keyed("c", "k")]).await;

    let rows = shop.rows().await;
    let seen: Vec<(bool, bool, bool)> = rows
        .iter()
        .map(|row| (matches!(row.content, Content::Blocked), row.blocker, row.waiting))
        .collect();
    // x, then c behind the failed a, then a, whose time to be tried again has come.
    assert_eq!(seen, [(false, false, false), (true, false, false), (false, true, true)]);
    assert_eq!((content(&rows[2]).id(), rows[2].attempts), ("a", 1));

    shop.settle(&relay, epoch, &rows[1], Outcome::Held).await;
    assert_eq!(ids(&shop.rows().await), ["x", "a"]);
    let found = &shop.store.find("c", None).await.unwrap()[0];
    assert_eq!(found.place, Place::Held);
    assert_eq!(found.held_behind.as_deref(), Some("a"));
    let published = Outcome::Published { releases: true };
    let settled = shop.settle(&relay, epoch, &rows[2], published).await;
    assert_eq!((settled.published, settled.released), (1, 2));
    assert_eq!(ids(&shop.rows().await), ["b", "x", "c"]);
}

#[tokio::test]
async fn a_follower_far_behind_is_found_blocked() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    let mut messages = vec![keyed("failing", "k"), keyed("near", "k")];
    messages.extend((0..33_000).map(|n| message(&n.to_string())));
    messages.push(keyed("far", "k"));
    shop.send(&messages).await;
    let rows = shop.rows().await;
    shop.settle(&relay, epoch, &rows[0], retry(PATIENCE)).await;
    let mut look = everything();
    look.lanes[0].after = rows[0].seq + 32_990;
    let rows = shop.store.look(&look).await.unwrap().rows;
    let far = rows.last().unwrap();
    assert!(matches!(far.content, Content::Blocked));
    assert_eq!(shop.store.stats().await.unwrap().held, 1, "the near one is held");
    shop.settle(&relay, epoch, far, Outcome::Held).await;
    assert_eq!(shop.store.stats().await.unwrap().held, 2);
}

#[tokio::test]
async fn a_key_that_is_not_text_can_be_held_and_is_let_go() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    let service = shop.connection();
    for id in ["a", "b"] {
        service
            .execute(
                "INSERT INTO sendoff_outbox (id, source, topic, key)
                 VALUES (?1, 's', 't', CAST(x'ff' AS TEXT))",
                [id],
            )
            .unwrap();
    }
    let rows = shop.rows().await;
    shop.settle(&relay, epoch, &rows[0], quarantine()).await;
    let rows = shop.rows().await;
    assert!(matches!(rows[0].content, Content::Blocked));
    shop.settle(&relay, epoch, &rows[0], Outcome::Held).await;
    assert!(shop.rows().await.is_empty());
    assert_eq!(shop.store.quarantined(0, 9).await.unwrap()[0].holds, 1);
    // A lease looks after held keys, and must not stumble over this one.
    shop.take(&relay).await;
    let mended = shop.store.discard(&Which::All).await.unwrap();
    assert_eq!((mended.messages, mended.released), (1, 1));
    assert_eq!(shop.rows().await.len(), 1);
}

#[tokio::test]
async fn rows_whose_blocker_was_deleted_by_hand_are_let_go_one_by_one_after_the_next_lease() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    let (a, b, c) = (keyed("a", "k"), keyed("b", "k"), keyed("c", "k"));
    shop.send(&[a, b, c, keyed("d", "l"), keyed("e", "l")]).await;
    let rows = shop.rows().await;
    shop.settle(&relay, epoch, &rows[0], quarantine()).await;
    shop.settle(&relay, epoch, &rows[3], quarantine()).await;
    assert_eq!(shop.store.stats().await.unwrap().held, 3);
    shop.connection().execute("DELETE FROM sendoff_outbox WHERE id = 'a'", []).unwrap();
    assert!(shop.rows().await.is_empty());
    shop.take(&relay).await;
    let rows = shop.rows().await;
    assert_eq!(ids(&rows), ["b"], "c waits for it, and e still for d");
    assert!(rows[0].blocker);
    let published = Outcome::Published { releases: true };
    assert_eq!(shop.settle(&relay, epoch, &rows[0], published).await.released, 1);
    assert_eq!(ids(&shop.rows().await), ["c"]);
}

#[tokio::test]
async fn requeueing_keeps_the_order_of_a_key_and_discarding_lets_it_go() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    shop.send(&[keyed("a", "k"), keyed("b", "k")]).await;
    let rows = shop.rows().await;
    shop.settle(&relay, epoch, &rows[0], quarantine()).await;
    shop.settle(&relay, epoch, &rows[1], Outcome::Held).await;
    let mended = shop.store.requeue(&Which::All).await.unwrap();
    assert_eq!((mended.messages, mended.released), (1, 0));
    let rows = shop.rows().await;
    assert_eq!(ids(&rows), ["a"], "b waits for it still");
    assert_eq!((rows[0].attempts, rows[0].blocker), (0, true));
    shop.settle(&relay, epoch, &rows[0], quarantine()).await;
    let mended = shop.store.discard(&Which::All).await.unwrap();
    assert_eq!((mended.messages, mended.released), (1, 1));
    assert_eq!(ids(&shop.rows().await), ["b"]);
    assert_eq!(shop.store.find("a", None).await.unwrap()[0].place, Place::Gone);
}

#[tokio::test]
async fn mending_goes_through_every_page() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    let messages: Vec<_> = (0..2_500).map(|n| message(&n.to_string())).collect();
    shop.send(&messages).await;
    let verdicts: Vec<_> =
        shop.rows().await.iter().map(|row| verdict(epoch, row, quarantine())).collect();
    shop.store.settle(&relay, &verdicts).await.unwrap();
    assert_eq!(shop.store.stats().await.unwrap().quarantined, 2_500);
    let other = Which::Reason(QuarantineReason::TooLarge);
    assert_eq!(shop.store.requeue(&other).await.unwrap().messages, 0);
    let this = Which::Reason(QuarantineReason::Permanent);
    assert_eq!(shop.store.requeue(&this).await.unwrap().messages, 2_500);
    assert_eq!(shop.rows().await.len(), 2_500);
}

#[tokio::test]
async fn waiting_rows_come_in_the_order_of_their_time_and_the_next_one_is_told() {
    let shop = Shop::open().await;
    let outbox = Outbox::new("shop");
    let at = |id: &str, micros: i64| {
        let due = Timestamp::from_microsecond(micros).unwrap();
        outbox.message("t").id(id).due_at(due).build().unwrap()
    };
    let now: i64 = shop
        .connection()
        .query_row("SELECT unixepoch('now') * 1000000", [], |row| row.get(0))
        .unwrap();
    shop.send(&[
        at("late", now + 3_600_000_000),
        at("second", 2_000),
        at("first", 1_000),
        message("ready"),
    ])
    .await;
    let sight = shop.look().await;
    assert_eq!(ids(&sight.rows), ["ready", "first", "second"]);
    let wait = sight.next_due_in.unwrap();
    assert!(wait > Duration::from_secs(3_500) && wait <= Duration::from_secs(3_600));
    assert!(!sight.truncated);

    let bounded = Look { rows_max: 1, ready: false, ..everything() };
    let sight = shop.store.look(&bounded).await.unwrap();
    assert_eq!(ids(&sight.rows), ["first"]);
    assert_eq!(sight.next_due_in, Some(Duration::ZERO));
    assert_eq!(sight.horizon, None);
    let known = Look { known: vec![sight.rows[0].seq], ..bounded };
    assert_eq!(ids(&shop.store.look(&known).await.unwrap().rows), ["second"]);
}

#[tokio::test]
async fn a_sweep_deletes_what_is_old_and_gone_and_walks_on_past_what_is_kept() {
    let shop =
        Shop::with(SqliteOptions { horizon: Duration::ZERO, ..SqliteOptions::default() }).await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    let messages: Vec<_> = (0..60).map(|n| message(&n.to_string())).collect();
    shop.send(&messages).await;
    let rows = shop.rows().await;
    // The first forty stay; a sweep of two passes over eight at most.
    let verdicts: Vec<_> = rows[40..]
        .iter()
        .map(|row| verdict(epoch, row, Outcome::Published { releases: false }))
        .collect();
    shop.store.settle(&relay, &verdicts).await.unwrap();
    std::thread::sleep(Duration::from_millis(2));
    let mut swept = 0;
    for _ in 0..20 {
        let now = shop.store.sweep(2).await.unwrap();
        assert!(now <= 2);
        swept += now;
    }
    assert_eq!(swept, 20);
    assert_eq!(shop.rows().await.len(), 40);
    // What is kept is still refused, what was swept may be sent again.
    assert!(shop.store.send_all(&[message("0")]).await.is_err());
    shop.send(&[message("59")]).await;
}

#[tokio::test]
async fn a_pair_within_its_horizon_is_not_swept() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    shop.send(&[message("a")]).await;
    let published = Outcome::Published { releases: false };
    shop.settle(&relay, epoch, &shop.rows().await[0], published).await;
    assert_eq!(shop.store.sweep(10).await.unwrap(), 0);
    shop.connection()
        .execute("UPDATE sendoff_message_key SET sent_at = sent_at - 86400000000 - 1", [])
        .unwrap();
    assert_eq!(shop.store.sweep(10).await.unwrap(), 1);
    assert!(shop.store.find("a", None).await.unwrap().is_empty());
}
