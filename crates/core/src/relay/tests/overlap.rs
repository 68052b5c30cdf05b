//! Looks and settlements that overlap in any way: no row is published twice, none out of its key's
//! order, and nothing stays behind.
//!
//! The whole engine on the reference store, whose answers are as late as a plan says, on a clock
//! that jumps from one event to the next.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Act, MemoryPublisher, MemoryStore, On};
use crate::message::Message;
use crate::outbox::Transaction;
use crate::publisher::PublishError;
use crate::relay::{Backoff, Relay, RelaySettings};
use crate::store::{
    Backlog, LeaseGrant, LeaseRequest, Look, OutboxDesk, OutboxStore, RelayId, Settled, Sight,
    Verdict,
};
use crate::time::Clock;

/// Longer than anything that a plan can make the relay wait for.
const LONG: Duration = Duration::from_secs(300);

/// How late a call is: before the store does it, and before the relay has the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Late {
    before_ms: u64,
    after_ms: u64,
    /// The settlement is written, and the relay is told that it failed.
    loses_answer: bool,
}

pub(super) fn late() -> impl Strategy<Value = Late> {
    let ms = || prop_oneof![3 => Just(0), 3 => 0u64..20, 1 => 0u64..400];
    (ms(), ms(), 0u8..8).prop_map(|(before_ms, after_ms, lost)| Late {
        before_ms,
        after_ms,
        loses_answer: lost == 0,
    })
}

#[derive(Debug, Clone)]
struct Send {
    gap_ms: u64,
    /// 0 is none.
    key: u8,
    /// A message without a key may commit this long after it drew its seq.
    commits_after_ms: u64,
    refused: u32,
    takes_ms: u64,
}

fn send() -> impl Strategy<Value = Send> {
    let gap = prop_oneof![4 => Just(0u64), 4 => 0u64..30, 1 => 0u64..1_500];
    let commits = prop_oneof![3 => Just(0u64), 1 => 1u64..2_500];
    let refused = prop_oneof![5 => Just(0u32), 1 => 1u32..4];
    let takes = prop_oneof![2 => Just(0u64), 2 => 0u64..40];
    (gap, 0u8..4, commits, refused, takes).prop_map(
        |(gap_ms, key, commits_after_ms, refused, takes_ms)| Send {
            gap_ms,
            key,
            commits_after_ms,
            refused,
            takes_ms,
        },
    )
}

/// A store whose answers are late.
#[derive(Debug)]
pub(super) struct Slow {
    inner: MemoryStore,
    plan: Vec<Late>,
    calls: AtomicUsize,
    /// The last settlement's answer was lost.
    lost: AtomicBool,
}

impl Slow {
    pub(super) fn new(inner: MemoryStore, plan: Vec<Late>) -> Self {
        Self { inner, plan, calls: AtomicUsize::new(0), lost: AtomicBool::new(false) }
    }

    fn next(&self) -> Late {
        self.plan[self.calls.fetch_add(1, Ordering::Relaxed) % self.plan.len()]
    }
}

pub(super) async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

#[async_trait]
impl OutboxStore for Slow {
    fn address(&self) -> &str {
        self.inner.address()
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant> {
        self.inner.lease(request).await
    }

    async fn look(&self, look: &Look) -> Result<Sight> {
        let late = self.next();
        pause(late.before_ms).await;
        let sight = self.inner.look(look).await;
        pause(late.after_ms).await;
        sight
    }

    async fn settle(&self, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled> {
        let late = self.next();
        pause(late.before_ms).await;
        let settled = self.inner.settle(relay, verdicts).await;
        pause(late.after_ms).await;
        // Never twice in a row: the relay would never learn that anything is settled.
        let loses = late.loses_answer && !self.lost.load(Ordering::Relaxed);
        self.lost.store(loses, Ordering::Relaxed);
        if loses {
            return Err(Error::new(ErrorKind::Unreachable, "settling"));
        }
        settled
    }

    async fn backlog(&self, count_max: u32) -> Result<Backlog> {
        self.inner.backlog(count_max).await
    }

    async fn news(&self) -> Result<()> {
        std::future::pending().await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        self.inner.sweep(rows_max).await
    }
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
        if send.key > 0 || send.commits_after_ms == 0 {
            transaction.commit().await.expect("it commits");
        } else {
            let after = send.commits_after_ms;
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

async fn run(sends: Vec<Send>, plan: Vec<Late>, window_rows: usize) {
    let clock = Clock::manual();
    let turned = clock.clone();
    let turning = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            turned.advance(Duration::from_millis(1));
        }
    });
    let store = MemoryStore::with_clock(clock.clone());
    let target = MemoryPublisher::new();
    for (number, send) in sends.iter().enumerate() {
        let on = On::Id(number.to_string());
        let refusal = PublishError::failed("not yet");
        target.next(send.refused, on.clone(), Act::Refuse(refusal));
        target.next(1, on, Act::Delay(Duration::from_millis(send.takes_ms)));
    }
    let slow = Slow::new(store.another(), plan);
    let relay = Relay::builder(Arc::new(slow), Arc::new(target.clone()))
        .settings(RelaySettings {
            // All of it happens in one lease.
            lease: Duration::from_secs(3_600),
            poll: Duration::from_millis(20),
            window_rows,
            in_flight_max: window_rows.div_ceil(2),
            settle_rows_max: 3,
            backoff: Backoff { first: Duration::from_millis(5), max: Duration::from_millis(60) },
            ..RelaySettings::default()
        })
        .clock(clock)
        .build()
        .expect("the settings are in range");
    let relay = tokio::spawn(relay.run(std::future::pending()));
    place(&store, &sends).await;
    let drained = async {
        while store.stats().await.expect("stats").published < sends.len() as u64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stuck = tokio::time::timeout(LONG, drained).await.is_err();
    let stats = store.stats().await.expect("stats");
    assert!(!stuck, "stuck: {stats:?}, arrived: {:?}", target.ids());
    let tally = target.tally();
    assert_eq!(tally.repeated, 0, "published twice in one lease: {:?}", target.ids());
    assert_eq!(tally.key_overlaps, 0, "two of a key at once");
    let mut last: HashMap<u8, usize> = HashMap::new();
    for id in target.ids() {
        let number: usize = id.parse().expect("a number");
        let key = sends[number].key;
        let before = last.insert(key, number);
        assert!(
            key == 0 || before.is_none_or(|before| before < number),
            "{number} of key {key} came after {before:?}: {:?}",
            target.ids()
        );
    }
    relay.abort();
    turning.abort();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn overlapping_looks_publish_every_row_once_in_its_keys_order(
        sends in vec(send(), 1..40),
        plan in vec(late(), 1..40),
        window_rows in 2usize..48,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(sends, plan, window_rows));
    }
}
