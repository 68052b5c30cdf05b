//! The load: the same messages for every contender, made from a seed.
//!
//! Ids, keys and bodies are made here; where they are put is the contenders' business.

use tokio_postgres::Client;
use uuid::Uuid;

use crate::failure::{Doing, Result};
use crate::figures::to_f64;

/// The size of every body.
pub(crate) const BODY_BYTES: usize = 256;
/// The source of every message.
pub(crate) const SOURCE: &str = "shop";
/// The topic of every message.
pub(crate) const TOPIC: &str = "orders.placed";

/// How keys are spread over messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// No message has a key, so none waits for another.
    None,
    /// So many keys, each as likely as the other.
    Uniform(u32),
    /// So many keys, the n-th of them n times rarer than the first (Zipf with exponent 1.0).
    Zipf(u32),
    /// All messages have one key.
    One,
}

/// Messages to send.
#[derive(Debug)]
pub(crate) struct Workload {
    ids: Vec<String>,
    keys: Vec<Option<String>>,
    body: Vec<u8>,
}

impl Workload {
    /// `messages` messages. The same seed gives the same keys.
    pub(crate) fn new(messages: usize, keys: Keys, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let ladder = match keys {
            Keys::Zipf(count) => zipf_ladder(count),
            _ => Vec::new(),
        };
        let key = |random: &mut fastrand::Rng| match keys {
            Keys::None => None,
            Keys::Uniform(count) => Some(random.u32(..count)),
            Keys::Zipf(_) => Some(step_of(&ladder, random.f64())),
            Keys::One => Some(0),
        };
        Self {
            ids: (0..messages).map(|_| Uuid::now_v7().to_string()).collect(),
            keys: (0..messages)
                .map(|_| key(&mut random).map(|number| format!("customer-{number}")))
                .collect(),
            body: std::iter::repeat_with(|| random.u8(..)).take(BODY_BYTES).collect(),
        }
    }

    /// How many messages.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Inserts all messages, in order, into a table with the columns that all contenders share.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn insert_into(&self, client: &Client, table: &str) -> Result<()> {
        const ROWS: usize = 10_000;
        let sql = format!(
            "INSERT INTO {table} (id, source, topic, key, body) \
             SELECT i, '{SOURCE}', '{TOPIC}', k, $3 FROM unnest($1::text[], $2::text[]) AS u(i, k)"
        );
        let statement = client.prepare(&sql).await.doing("preparing the fill")?;
        for (ids, keys) in self.ids.chunks(ROWS).zip(self.keys.chunks(ROWS)) {
            client
                .execute(&statement, &[&ids, &keys, &self.body])
                .await
                .doing("filling the table")?;
        }
        Ok(())
    }
}

/// The cumulated probabilities of Zipf's law with exponent 1.0.
fn zipf_ladder(count: u32) -> Vec<f64> {
    let mut sum = 0.0;
    let steps: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += 1.0 / to_f64(u64::from(rank));
            sum
        })
        .collect();
    steps.into_iter().map(|step| step / sum).collect()
}

/// The first step that `at` does not pass.
fn step_of(ladder: &[f64], at: f64) -> u32 {
    let step = ladder.partition_point(|&step| step < at);
    u32::try_from(step.min(ladder.len().saturating_sub(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(workload: &Workload, key: &str) -> usize {
        let keys = workload.keys.iter();
        keys.filter(|k| k.as_deref() == Some(key)).count()
    }

    #[test]
    fn zipf_makes_the_first_key_twice_as_frequent_as_the_second() {
        let workload = Workload::new(200_000, Keys::Zipf(10_000), 1);
        // H(10,000) is 9.79, so the first key has 10.2 % of all messages.
        let (first, second) = (count(&workload, "customer-0"), count(&workload, "customer-1"));
        assert!((19_400..21_500).contains(&first), "{first}");
        assert!((9_500..11_000).contains(&second), "{second}");
    }

    #[test]
    fn the_same_seed_gives_the_same_keys_and_other_ids() {
        let (one, other) =
            (Workload::new(100, Keys::Uniform(10), 3), Workload::new(100, Keys::Uniform(10), 3));
        assert_eq!(one.keys, other.keys);
        assert_eq!(one.body, other.body);
        assert_ne!(one.ids, other.ids);
    }

    #[test]
    fn one_key_is_one_key_and_none_is_none() {
        assert_eq!(count(&Workload::new(10, Keys::One, 0), "customer-0"), 10);
        assert!(Workload::new(10, Keys::None, 0).keys.iter().all(Option::is_none));
    }
}
