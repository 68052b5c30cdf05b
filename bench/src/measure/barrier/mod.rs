//! `barrier`: what acknowledgements of one barrier cost, one at a time and many at once, beside bare
//! updates of the same rows, a counter in the header, and two systems that keep their members in
//! Redis.
//!
//! Every run is checked: a barrier is complete with one continuation when its last member is
//! acknowledged, and not before.

mod acks;
mod batches;
mod continuation;
mod members;
mod queues;

use serde_json::Map;

use crate::contenders::Contender;
use crate::failure::Result;
use crate::ground::Ground;
use crate::measure::{Answer, Effort};

/// Runs it.
///
/// # Errors
/// The first failure, or a barrier that is not what it should be.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    Contender::Lanes.create(ground).await?;
    let mut text = Vec::new();
    let mut json = Map::new();
    for answer in [
        acks::measure(ground, effort).await?,
        batches::measure(ground, effort).await?,
        continuation::measure(ground, effort).await?,
    ] {
        text.push(answer.text);
        json.extend(answer.json);
    }
    if let Some(batch) = json.get("batch_1000").and_then(|figures| figures["per_s"].as_f64()) {
        let answer = queues::measure(effort, batch).await?;
        text.push(answer.text);
        json.extend(answer.json);
    }
    Ok(Answer { text: text.join("\n\n"), json })
}
