//! `drain`: what the database alone allows. Messages are read and settled, and go nowhere.

use serde_json::json;

use crate::contenders::{Contender, Form};
use crate::failure::Result;
use crate::figures::ratio;
use crate::ground::Ground;
use crate::measure::side_by_side::{Entry, Goal, side_by_side};
use crate::measure::{Answer, Effort};
use crate::workload::Keys;

/// Runs it.
///
/// # Errors
/// The first failure, or a message that is missing.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    let messages = effort.pick(120_000, 500_000);
    let entry = |name, contender, messages| Entry {
        name,
        contender,
        keys: Keys::Uniform(10_000),
        messages,
    };
    let batch = |workers, form| Contender::Batch { workers, form };
    let mut entries = vec![
        entry("lanes", Contender::Lanes, messages),
        entry("batch", batch(1, Form::Plain), messages),
        entry("batch_pipelined", batch(1, Form::Pipelined), messages),
        entry("row_lock", Contender::RowLock, effort.pick(1_500, 6_000)),
    ];
    if !effort.quick {
        entries.push(entry("batch_2_workers", batch(2, Form::Plain), messages));
    }
    entries.retain(|entry| effort.wants(entry.name));
    let outcome = side_by_side(ground, &entries, Goal::Nowhere, effort).await?;
    let to_batch = ratio(outcome.per_s("lanes"), outcome.per_s("batch"));
    let to_pipelined = ratio(outcome.per_s("lanes"), outcome.per_s("batch_pipelined"));
    let to_row_lock = ratio(outcome.per_s("lanes"), outcome.per_s("row_lock"));
    let mut json = outcome.json();
    json.insert("lanes_to_batch".to_owned(), json!(to_batch));
    json.insert("lanes_to_batch_pipelined".to_owned(), json!(to_pipelined));
    json.insert("lanes_to_row_lock".to_owned(), json!(to_row_lock));
    let text = format!(
        "Read and settled, published nowhere\n\n{}\n\
         Lanes: {to_batch} times batches of 500, {to_pipelined} times the same with their statements \
         in one round trip, {to_row_lock} times one row per transaction.\n",
        outcome.table()
    );
    Ok(Answer { text, json })
}
