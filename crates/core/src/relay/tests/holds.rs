//! What a failed message holds, whatever overlaps with what: under `none` nothing, under `all`
//! everything, in the order of all sends.
//!
//! The whole engine on the reference store, whose answers are as late as a plan says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};

use super::overlap::{Late, Slow, late, pause};
use crate::memory::{Act, MemoryPublisher, MemoryStore, On};
use crate::message::Message;
use crate::outbox::Transaction;
use crate::publisher::{PublishClass, PublishError};
use crate::relay::{Backoff, Hold, Relay, RelaySettings};
use crate::store::OutboxDesk;
use crate::time::Clock;

/// Longer than anything that a plan can make the relay wait for.
const LONG: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
struct Send {
    gap_ms: u64,
    /// 0 is none.
    key: u8,
    /// It draws its seq, and commits so much later.
    commits_after_ms: u64,
    fails: Vec<PublishClass>,
    takes_ms: u64,
}

fn class() -> impl Strategy<Value = PublishClass> {
    prop_oneof![
        6 => Just(PublishClass::Failed),
        2 => Just(PublishClass::Permanent),
        1 => Just(PublishClass::Unreachable),
        1 => Just(PublishClass::Lost),
        1 => (1u64..200).prop_map(|ms| PublishClass::Throttled { wait: Duration::from_millis(ms) }),
    ]
}

fn send() -> impl Strategy<Value = Send> {
    let gap = prop_oneof![4 => Just(0u64), 4 => 0u64..30, 1 => 0u64..1_500];
    let commits = prop_oneof![4 => Just(0u64), 1 => 1u64..500];
    let fails = prop_oneof![4 => Just(Vec::new()), 1 => vec(class(), 1..4)];
    let takes = prop_oneof![2 => Just(0u64), 2 => 0u64..40];
    (gap, 0u8..4, commits, fails, takes).prop_map(
        |(gap_ms, key, commits_after_ms, fails, takes_ms)| Send {
            gap_ms,
            key,
            commits_after_ms,
            fails,
            takes_ms,
        },
    )
}

async fn place(store: &MemoryStore, sends: &[Send]) {
    let mut committing = Vec::new();
    for (number, send) in sends.iter().enumerate() {
        pause(send.gap_ms).await;
        let mut message = Message::builder("test", "t").id(number.to_string()).body("body");
        if send.key > 0 {
            message = message.key(format!("k{}", send.key));
        }
        let message = message.build().expect("valid");
        let mut transaction = store.begin();
        transaction.append(std::slice::from_ref(&message)).await.expect("it is taken");
        let after = send.commits_after_ms;
        if after == 0 {
            transaction.commit().await.expect("it commits");
        } else {
            committing.push(tokio::spawn(async move {
                pause(after).await;
                transaction.commit().await.expect("it commits");
            }));
        }
    }
    for commit in committing {
        commit.await.expect("it commits");
    }
}

/// The target, and which messages it takes in the end.
fn target(sends: &[Send]) -> (MemoryPublisher, BTreeSet<usize>) {
    let target = MemoryPublisher::new();
    let mut taken = BTreeSet::new();
    for (number, send) in sends.iter().enumerate() {
        let on = On::Id(number.to_string());
        for class in &send.fails {
            target.next(1, on.clone(), Act::Refuse(PublishError::new(*class, "as planned")));
        }
        if !send.fails.contains(&PublishClass::Permanent) {
            taken.insert(number);
        }
        target.next(1, on, Act::Delay(Duration::from_millis(send.takes_ms)));
    }
    (target, taken)
}

fn assert_in_the_order_of_all_sends(arrived: &[usize], sends: &[Send], taken: &BTreeSet<usize>) {
    let mut seen = BTreeSet::new();
    for number in arrived {
        // What had committed before this one was written goes before it.
        let before = (0..*number).filter(|n| sends[*n].commits_after_ms == 0 && taken.contains(n));
        for earlier in before {
            assert!(seen.contains(&earlier), "{number} left before {earlier}: {arrived:?}");
        }
        seen.insert(*number);
    }
}

async fn run(hold: Hold, sends: Vec<Send>, plan: Vec<Late>, window_rows: usize) {
    let clock = Clock::manual();
    let turned = clock.clone();
    let turning = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            turned.advance(Duration::from_millis(1));
        }
    });
    let store = MemoryStore::with_clock(clock.clone());
    let (target, taken) = target(&sends);
    let relay =
        Relay::builder(Arc::new(Slow::new(store.another(), plan)), Arc::new(target.clone()))
            .settings(RelaySettings {
                // All of it happens in one lease.
                lease: Duration::from_secs(3_600),
                poll: Duration::from_millis(20),
                window_rows,
                in_flight_max: window_rows.div_ceil(2),
                settle_rows_max: 3,
                backoff: Backoff {
                    first: Duration::from_millis(5),
                    max: Duration::from_millis(60),
                },
                hold,
                ..RelaySettings::default()
            })
            .clock(clock)
            .build()
            .expect("the settings are in range");
    let relay = tokio::spawn(relay.run(std::future::pending()));
    place(&store, &sends).await;
    let drained = async {
        loop {
            let stats = store.stats().await.expect("stats");
            assert!(hold != Hold::None || stats.held == 0, "held: {stats:?}");
            if stats.published + stats.quarantined == sends.len() as u64 {
                return stats;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let Ok(stats) = tokio::time::timeout(LONG, drained).await else {
        let stats = store.stats().await.expect("stats");
        panic!("stuck: {stats:?}, arrived: {:?}", target.ids());
    };
    assert_eq!(stats.published, taken.len() as u64, "{stats:?}");
    let tally = target.tally();
    assert_eq!((tally.repeated, tally.key_overlaps), (0, 0), "{:?}", target.ids());
    let arrived: Vec<usize> = target.ids().iter().map(|id| id.parse().expect("a number")).collect();
    if hold == Hold::All {
        assert!(tally.in_flight_peak <= 1, "one in flight: {}", tally.in_flight_peak);
        assert_in_the_order_of_all_sends(&arrived, &sends, &taken);
    }
    relay.abort();
    turning.abort();
}

fn in_paused_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn under_none_nothing_is_ever_held_and_everything_arrives(
        sends in vec(send(), 1..40),
        plan in vec(late(), 1..40),
        window_rows in 2usize..48,
    ) {
        in_paused_time(run(Hold::None, sends, plan, window_rows));
    }

    #[test]
    fn under_all_first_deliveries_are_in_the_order_of_all_sends(
        sends in vec(send(), 1..40),
        plan in vec(late(), 1..40),
        window_rows in 2usize..48,
    ) {
        in_paused_time(run(Hold::All, sends, plan, window_rows));
    }
}
