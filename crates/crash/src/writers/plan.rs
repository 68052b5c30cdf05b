//! What one transaction is going to do.

use std::time::Duration;

use crate::order::{Order, POISON_TOPIC, TOPIC};

/// How many keys there are.
pub const KEYS: u32 = 60;

/// A key's name.
#[must_use]
pub fn key_name(number: u32) -> String {
    format!("customer-{number}")
}

/// What one transaction is going to do.
#[derive(Debug)]
pub(super) struct Plan {
    /// Its steps, sorted by key, so that transactions lock keys in one order.
    pub(super) steps: Vec<Step>,
    /// How long it stays open after its last step.
    pub(super) open: Duration,
    /// Whether it commits.
    pub(super) commits: bool,
    /// It takes a seq first, with nothing else done, and uses it after this long.
    pub(super) early_seq: Option<(Placing, Duration)>,
}

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    /// The orders that it places, with one statement of messages.
    pub(super) placings: Vec<Placing>,
    /// Whether it runs in a savepoint, and whether that is kept.
    pub(super) savepoint: Option<bool>,
}

/// One order and its message.
#[derive(Debug)]
pub(super) struct Placing {
    /// The order.
    pub(super) order: Order,
    /// The message's topic.
    pub(super) topic: &'static str,
    /// How long after now the message falls due.
    pub(super) due_in: Option<Duration>,
}

impl Plan {
    pub(super) fn random(random: &mut fastrand::Rng) -> Self {
        let mut keys: Vec<Option<u32>> = (0..random.u32(1..=4))
            .map(|_| (random.u32(..10) < 8).then(|| random.u32(..KEYS)))
            .collect();
        keys.sort_unstable();
        let steps = keys
            .into_iter()
            .map(|key| Step {
                placings: (0..random.u32(1..=4)).map(|_| Placing::random(random, key)).collect(),
                savepoint: (random.u32(..5) == 0).then(|| random.bool()),
            })
            .collect();
        let early = random.u32(..12) == 0;
        Self {
            steps,
            open: Duration::from_millis(match random.u32(..20) {
                0 => random.u64(50..300),
                1..5 => random.u64(1..20),
                _ => 0,
            }),
            commits: random.u32(..10) != 0,
            early_seq: early.then(|| {
                let wait = Duration::from_millis(match random.u32(..10) {
                    // Longer than any margin that a relay could allow for.
                    0 => random.u64(1_200..2_000),
                    _ => random.u64(5..400),
                });
                let mut placing = Placing::random(random, None);
                placing.due_in = None;
                (placing, wait)
            }),
        }
    }

    /// How many orders it places, kept or not.
    pub(super) fn orders(&self) -> usize {
        self.steps.iter().map(|step| step.placings.len()).sum()
    }
}

impl Placing {
    fn random(random: &mut fastrand::Rng, key: Option<u32>) -> Self {
        let poison = random.u32(..700) == 0;
        // A message with a due time joins its key's order when it falls due: there is no order to
        // compare with. So only messages without a key have one here.
        let due = key.is_none() && random.u32(..4) == 0;
        Self {
            order: Order::random(random, key.map(key_name)),
            topic: if poison { POISON_TOPIC } else { TOPIC },
            due_in: due.then(|| Duration::from_millis(random.u64(1..500))),
        }
    }

    /// The message.
    pub(super) fn message(&self) -> sendoff::Result<sendoff::Message> {
        let due_at = self.due_in.and_then(|due_in| {
            let now = sendoff::time::Clock::system().now();
            now.checked_add(due_in).ok()
        });
        self.order.message(self.topic, due_at)
    }
}
