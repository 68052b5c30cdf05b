//! `relay-nats`: from rows in PostgreSQL to acknowledgements of JetStream.

use serde_json::json;

use crate::contenders::{Contender, Form};
use crate::failure::Result;
use crate::figures::{ratio, tenth};
use crate::ground::Ground;
use crate::measure::side_by_side::{Entry, Goal, side_by_side};
use crate::measure::{Answer, Effort};
use crate::workload::Keys;

/// How many keys there are.
const KEYS: u32 = 10_000;

/// Runs it.
///
/// # Errors
/// The first failure, or a message that is missing.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    let outcome = side_by_side(ground, &entries(effort), Goal::Stream, effort).await?;
    let (lanes, unordered) = (outcome.per_s("lanes"), outcome.per_s("lanes_unordered"));
    let to_batch = ratio(lanes, outcome.per_s("batch"));
    let to_pipelined = ratio(lanes, outcome.per_s("batch_pipelined"));
    let to_row_lock = ratio(lanes, outcome.per_s("row_lock"));
    let order_cost = tenth(100.0 - 100.0 * ratio(lanes, unordered));
    let mut json = outcome.json();
    json.insert("lanes_to_batch".to_owned(), json!(to_batch));
    json.insert("lanes_to_batch_pipelined".to_owned(), json!(to_pipelined));
    json.insert("lanes_to_row_lock".to_owned(), json!(to_row_lock));
    json.insert("key_order_cost_percent".to_owned(), json!(order_cost));
    let text = format!(
        "PostgreSQL to JetStream acknowledgements\n\n{}\n\
         Lanes: {to_batch} times batches of 500, {to_pipelined} times the same with their statements \
         in one round trip, {to_row_lock} times one row per transaction; the order of {KEYS} keys costs {order_cost} %.\n",
        outcome.table()
    );
    Ok(Answer { text, json })
}

fn entries(effort: &Effort) -> Vec<Entry> {
    let messages = effort.pick(60_000, 200_000);
    let uniform = |name, contender| Entry { name, contender, keys: Keys::Uniform(KEYS), messages };
    let batch = |workers, form| Contender::Batch { workers, form };
    let lanes = |name, keys, messages| Entry { name, contender: Contender::Lanes, keys, messages };
    let mut entries = vec![
        uniform("lanes", Contender::Lanes),
        uniform("batch", batch(1, Form::Plain)),
        uniform("batch_pipelined", batch(1, Form::Pipelined)),
        lanes("lanes_unordered", Keys::None, messages),
        Entry {
            // A thousandth of the others' rate is expected.
            messages: effort.pick(1_000, 4_000),
            ..uniform("row_lock", Contender::RowLock)
        },
    ];
    if !effort.quick {
        entries.extend([
            lanes("lanes_zipf", Keys::Zipf(KEYS), messages),
            // One after the other, so each waits for a round trip.
            lanes("lanes_one_key", Keys::One, 20_000),
            uniform("batch_2_workers", batch(2, Form::Plain)),
            uniform("batch_pipelined_2_workers", batch(2, Form::Pipelined)),
        ]);
    }
    entries.retain(|entry| effort.wants(entry.name));
    entries
}
