//! Errands: closing by a deadline or a first failure in two phases, and acknowledging to a parent.

use std::time::{Duration, Instant};

use sendoff_core::barrier::{
    Ack, AckBatch, BarrierDesk, BarrierId, Errand, ErrandAct, MemberName, Reason, RefusalCode,
};
use sendoff_core::publisher::PublishError;
use sendoff_core::{Message, Result};
use serde::Deserialize;

use super::desk::Counter;
use super::{Asks, Call, Param, call, probe, unhex};
use crate::postgres::PostgresStore;
use crate::postgres::sql;

const DOING: &str = "running a barrier's errand";

/// An errand that takes longer comes again: the relay publishes for longer than this.
const AT_ONCE: Duration = Duration::from_secs(3);
/// So many members are given up in one transaction.
const ROWS: i32 = 1_000;
/// Between two looks for acknowledgements that are being committed.
const PAUSE: Duration = Duration::from_millis(20);

/// What an errand finds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Due {
    no: i64,
    stands: Option<String>,
    early: Option<bool>,
    probe: Option<String>,
    parent: Option<String>,
    member: Option<String>,
    reason: Option<Reason>,
}

/// Runs a message of the product's own.
pub(in crate::postgres) async fn attend(
    store: &PostgresStore,
    message: &Message,
) -> std::result::Result<(), PublishError> {
    if message.topic() != Errand::TOPIC {
        let topic = message.topic();
        return Err(PublishError::permanent(format!("there is no errand of the topic {topic}")));
    }
    let errand = Errand::parse(message.body())
        .and_then(|errand| errand.id().map(|_| errand))
        .map_err(|error| PublishError::permanent(error.to_string()))?;
    match run(store, &errand).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(PublishError::failed("the barrier's errand is not finished; it comes again"))
        }
        Err(error) => Err(PublishError::failed(error.to_string())),
    }
}

/// Does what the barrier's state asks for. `false`: it has to come again.
pub(super) async fn run(store: &PostgresStore, errand: &Errand) -> Result<bool> {
    let id = errand.id()?;
    let until = Instant::now() + AT_ONCE;
    let mut counter = Counter { store, doing: DOING };
    let epoch = i32::try_from(errand.epoch).unwrap_or(i32::MAX);
    let (act, reason) = match errand.act {
        ErrandAct::Deadline => ("deadline", "deadline"),
        ErrandAct::FirstFailure => ("first_failure", "first_failure"),
        ErrandAct::Ascend => ("ascend", ""),
    };
    let incarnation = Param::Text(Some(&errand.incarnation));
    let params = [incarnation, Param::Int(Some(epoch)), Param::Text(Some(act))];
    let due: Due = counter.ask(call(sql::BARRIER_DUE, &id, params)).await?;
    match due.stands.as_deref() {
        None => Ok(true),
        Some("ended") => ascend(store, &id, &due).await,
        Some(_) if due.early == Some(true) => Ok(false),
        Some(stands) => {
            if stands == "open" && errand.act == ErrandAct::Deadline && due.probe.is_some() {
                last_probe(store, &id, due.probe.as_deref()).await;
            }
            let params =
                vec![Param::Long(due.no), Param::Int(Some(epoch)), Param::Text(Some(reason))];
            let closing: bool = counter.ask(Call { text: sql::BARRIER_CLOSE, params }).await?;
            if !closing {
                return Ok(true);
            }
            finish(&mut counter, due.no, epoch, until).await
        }
    }
}

/// What can be found of lost acknowledgements, before their members are given up. It is not worth
/// more than the deadline.
async fn last_probe(store: &PostgresStore, id: &BarrierId, text: Option<&str>) {
    match probe::reconcile(store, id, text, Some(AT_ONCE / 2)).await {
        Ok(Ok(found)) => {
            tracing::info!(barrier = %id, resolved = found.resolved(), "probed before the deadline");
        }
        Ok(Err(refusal)) => {
            tracing::warn!(barrier = %id, %refusal, "not probed before the deadline")
        }
        Err(error) => tracing::warn!(barrier = %id, %error, "the probe before the deadline failed"),
    }
}

/// Phase 2: gives up what is pending, a bounded part at a time, until nothing is; then ends it.
async fn finish(counter: &mut Counter<'_>, no: i64, epoch: i32, until: Instant) -> Result<bool> {
    loop {
        let mut after = Vec::new();
        loop {
            let params = vec![
                Param::Long(no),
                Param::Int(Some(epoch)),
                Param::Bytes(&after),
                Param::Int(Some(ROWS)),
            ];
            let last: Option<String> =
                counter.ask(Call { text: sql::BARRIER_GIVE_UP, params }).await?;
            match last {
                Some(last) => after = unhex(&last),
                None => break,
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
        let params = vec![Param::Long(no), Param::Int(Some(epoch))];
        if counter.ask(Call { text: sql::BARRIER_CLOSED, params }).await? {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Acknowledges a barrier that has ended to the one of which it is a member.
async fn ascend(store: &PostgresStore, id: &BarrierId, due: &Due) -> Result<bool> {
    let (Some(parent), Some(member), Some(reason)) = (&due.parent, &due.member, due.reason) else {
        return Ok(true);
    };
    let Some(status) = store.barrier_status(id).await? else {
        return Ok(true);
    };
    let parent = BarrierId::of_tenant(id.tenant(), parent.as_str())?;
    let member = MemberName::new(unhex(member))?;
    let outcome = Errand::outcome(reason, status.failed, status.missing);
    let batch = AckBatch::new(parent, vec![Ack { member, outcome }]).by("barrier");
    match store.ack_members(&batch).await? {
        Err(refusal) if refusal.code() == RefusalCode::Busy => Ok(false),
        Err(refusal) => {
            tracing::warn!(barrier = %id, parent = %batch.id, %refusal, "not acknowledged to its parent");
            Ok(true)
        }
        Ok(_) => Ok(true),
    }
}
