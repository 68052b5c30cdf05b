//! From the last acknowledgement to the broker's confirmation of the continuation, with the relay
//! running and woken by a notification after the commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::barrier::{Barriers, Continuation, Outcome};
use serde_json::{Map, json};
use tokio::sync::mpsc;

use super::members;
use crate::failure::{Doing, Failure, Result};
use crate::figures::percentile;
use crate::ground::Ground;
use crate::measure::{Answer, Effort};
use crate::noting::Noting;
use crate::product::{self, RunningRelay, Setup};
use crate::table::Table;
use crate::writers;

pub(super) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    if !effort.wants("continuation") {
        return Ok(Answer { text: String::new(), json: Map::new() });
    }
    const DOING: &str = "acknowledging the last member";
    ground
        .admin()
        .batch_execute("TRUNCATE sendoff.outbox, sendoff.message_key; CHECKPOINT")
        .await
        .doing("emptying the tables")?;
    let stream = ground.fresh_stream().await?;
    let (confirmed, mut confirmations) = mpsc::unbounded_channel();
    let publisher = Noting::new(product::publisher(&stream.address)?, move |message| {
        let barrier = message.headers().get(Continuation::HEADER_BARRIER).unwrap_or_default();
        // The measurement may have ended.
        let _ = confirmed.send((barrier.to_owned(), Instant::now()));
    });
    let relay = RunningRelay::start(ground, Arc::new(publisher), Setup::default())?;
    let waker = writers::waker(ground)?;
    let mut client = ground.connect().await?;
    let barriers = Barriers::new();
    let rounds = effort.pick(300, 1_500);
    let mut waits = Vec::new();
    for round in 0..rounds {
        let id = format!("continuation-{round}-{}", fastrand::u32(..));
        members::create(&mut client, &members::plan(&id, 2)?).await?;
        let mut transaction = client.transaction().await.doing(DOING)?;
        let first = members::name(0);
        barriers.ack(&mut transaction, &id, &first, Outcome::ok()).await.doing(DOING)?;
        transaction.commit().await.doing(DOING)?;
        // Out of step with the relay's own intervals.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..5_000))).await;
        let begun = Instant::now();
        let mut transaction = client.transaction().await.doing(DOING)?;
        let last = members::name(1);
        barriers.ack(&mut transaction, &id, &last, Outcome::ok()).await.doing(DOING)?;
        transaction.commit().await.doing(DOING)?;
        waker.wake();
        let confirmation =
            tokio::time::timeout(Duration::from_secs(10), confirmations.recv()).await;
        let Ok(Some((barrier, at))) = confirmation else {
            return Err(Failure::new(format!(
                "the continuation of {id} was not confirmed in 10 s"
            )));
        };
        if barrier != id {
            return Err(Failure::new(format!("{barrier} went on when {id} was complete")));
        }
        if round >= rounds / 10 {
            waits.push(at.duration_since(begun).as_secs_f64() * 1e3);
        }
    }
    relay.stop().await?;
    Ok(answer(waits))
}

fn answer(mut waits: Vec<f64>) -> Answer {
    waits.sort_by(f64::total_cmp);
    let at = |percent| (percentile(&waits, percent) * 100.0).round() / 100.0;
    let (p50, p99, max) = (at(50), at(99), at(100));
    let mut table = Table::new(&[
        "from the last ack's begin to NATS's confirmation",
        "p50 ms",
        "p99 ms",
        "max ms",
    ]);
    let rounds = waits.len();
    table.row(vec![
        format!("{rounds} barriers, notification after the commit"),
        p50.to_string(),
        p99.to_string(),
        max.to_string(),
    ]);
    let figures = json!({ "p50_ms": p50, "p99_ms": p99, "max_ms": max, "rounds": rounds });
    Answer { text: table.to_string(), json: Map::from_iter([("continuation".to_owned(), figures)]) }
}
