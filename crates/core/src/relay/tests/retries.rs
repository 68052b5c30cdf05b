//! What each class of failure means for a message: when it is tried again, whether that uses up an
//! attempt, and when it is given up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use tokio::time::Instant;

use crate::error::Result;
use crate::memory::MemoryStore;
use crate::message::Message;
use crate::publisher::{PublishClass, PublishError, Publisher};
use crate::relay::{Backoff, Relay, RelaySettings};
use crate::store::{OutboxDesk, Place, QuarantineReason};
use crate::time::Clock;

const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(100), max: Duration::from_millis(1_500) };

/// A retry may come this much later than its time: a settlement, a poll and a look.
const SLACK: Duration = Duration::from_millis(60);

/// At so many connection losses in a row, alone in flight, the message counts as the cause.
const LOSSES_MAX: u32 = 3;

fn class() -> impl Strategy<Value = PublishClass> {
    prop_oneof![
        4 => Just(PublishClass::Failed),
        2 => Just(PublishClass::Unreachable),
        1 => (1u64..3_000).prop_map(|ms| PublishClass::Throttled { wait: Duration::from_millis(ms) }),
        3 => Just(PublishClass::Lost),
        1 => Just(PublishClass::Permanent),
    ]
}

/// A target that fails as a plan says, then takes; and when it was asked.
#[derive(Debug, Default)]
struct Planned {
    plan: Mutex<VecDeque<PublishClass>>,
    asked: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Publisher for Planned {
    fn address(&self) -> &str {
        "planned:"
    }

    async fn publish(&self, _: &Message) -> Result<(), PublishError> {
        self.asked.lock().expect("no panic").push(Instant::now());
        match self.plan.lock().expect("no panic").pop_front() {
            Some(class) => Err(PublishError::new(class, "as planned")),
            None => Ok(()),
        }
    }
}

/// What has to come of a plan.
#[derive(Debug, Default)]
struct Expected {
    /// The waits between publishes: at least, and at most where that is known.
    waits: Vec<(Duration, Option<Duration>)>,
    attempts: u32,
    given_up: Option<QuarantineReason>,
}

impl Expected {
    fn of(plan: &[PublishClass], attempts_max: Option<u32>) -> Self {
        let mut expected = Self::default();
        let mut losses = 0;
        for class in plan {
            let fails = match class {
                PublishClass::Permanent => {
                    expected.given_up = Some(QuarantineReason::Permanent);
                    return expected;
                }
                PublishClass::Failed => true,
                PublishClass::Lost => {
                    losses += 1;
                    losses == LOSSES_MAX
                }
                _ => false,
            };
            if fails {
                losses = 0;
                if attempts_max.is_some_and(|max| expected.attempts + 1 >= max) {
                    expected.given_up = Some(QuarantineReason::Attempts);
                    return expected;
                }
                expected.attempts += 1;
                let step = |jitter| BACKOFF.wait(expected.attempts, jitter);
                expected.waits.push((step(0.0), Some(step(1.0) + SLACK)));
            } else if let PublishClass::Throttled { wait } = class {
                expected.waits.push((*wait, None));
            } else {
                // The breaker's own waits: up to 2 s.
                expected
                    .waits
                    .push((Duration::from_millis(20), Some(Duration::from_secs(2) + SLACK)));
            }
        }
        expected
    }
}

async fn run(plan: Vec<PublishClass>, attempts_max: Option<u32>) {
    let clock = Clock::manual();
    let turned = clock.clone();
    let turning = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            turned.advance(Duration::from_millis(1));
        }
    });
    let store = MemoryStore::with_clock(clock.clone());
    let message = Message::builder("test", "t").id("1").key("k").body("body").build();
    store.send_all(&[message.expect("valid")]).await.expect("it is taken");
    let target = Arc::new(Planned::default());
    target.plan.lock().expect("no panic").extend(plan.iter().copied());
    let relay = Relay::builder(Arc::new(store.another()), target.clone())
        .settings(RelaySettings {
            lease: Duration::from_secs(80_000),
            poll: Duration::from_millis(20),
            backoff: BACKOFF,
            attempts_max,
            ..RelaySettings::default()
        })
        .clock(clock)
        .build()
        .expect("the settings are in range");
    let relay = tokio::spawn(relay.run(std::future::pending()));
    let expected = Expected::of(&plan, attempts_max);
    let over = async {
        loop {
            let found = store.find("1", None).await.expect("found");
            if matches!(found[0].place, Place::Gone | Place::Quarantined) {
                return found[0].clone();
            }
            assert!(found[0].attempts <= expected.attempts, "{found:?}, {expected:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(3_600), over).await.expect("it ends");
    let asked = target.asked.lock().expect("no panic").clone();
    match expected.given_up {
        None => assert_eq!(end.place, Place::Gone, "{expected:?}"),
        Some(reason) => {
            assert_eq!((end.place, end.attempts), (Place::Quarantined, expected.attempts));
            let found = store.quarantined(0, 10).await.expect("read");
            assert_eq!(found[0].reason, reason.as_str());
        }
    }
    let waits: Vec<Duration> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits.len(), expected.waits.len(), "{waits:?}, {expected:?}");
    for (wait, (least, most)) in waits.iter().zip(&expected.waits) {
        // The clock of the store is turned in whole milliseconds.
        let long_enough = *wait + Duration::from_millis(2) >= *least;
        assert!(long_enough && most.is_none_or(|most| *wait <= most), "{waits:?}, {expected:?}");
    }
    relay.abort();
    turning.abort();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_class_of_failure_waits_and_counts_as_it_should(
        plan in vec(class(), 0..10),
        attempts_max in option::of(1u32..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(plan, attempts_max));
    }
}
