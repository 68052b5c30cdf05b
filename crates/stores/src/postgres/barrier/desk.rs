//! Barriers for programs without a transaction of their own, on the desk's connections.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierDesk, BarrierId, Change, Changed, Created, Errand,
    ErrandAct, MemberAnswer, Outcomes, Page, Plan, Refusal, RefusalCode, Status, Why,
};
use sendoff_core::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;

use super::change::Which;
use super::driver::{Bound, Line};
use super::{Asks, Call, Param, ack, call, change, close, create, probe, read};
use crate::postgres::PostgresStore;
use crate::postgres::sql;

/// How often a call is tried that the database asks to run again, for how long, and the longest pause
/// between.
const TRIES: u32 = 8;
const TRIED_FOR: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// The desk's connections: every call is a transaction of its own, run again a bounded number of
/// times after a deadlock, a serialization failure or a lock that was not to be had.
#[derive(Debug)]
pub(super) struct Counter<'a> {
    pub(super) store: &'a PostgresStore,
    pub(super) doing: &'static str,
}

impl Asks for Counter<'_> {
    type Error = Error;

    async fn ask<T: DeserializeOwned + Send>(&mut self, call: Call<'_>) -> Result<T> {
        let text = call.text;
        let bound = Bound::of(call.params);
        let asked = async {
            let (mut tries, begun) = (0, Instant::now());
            loop {
                let checkout = self.store.desk.checkout(self.doing).await?;
                let line = Line { client: checkout.client(), schema: checkout.schema() };
                let error = match checkout.alone(line.ask_bound(text, &bound)).await {
                    Ok(answer) => {
                        checkout.keep();
                        return Ok(answer);
                    }
                    Err(error) => checkout.failed(error),
                };
                tries += 1;
                let tried = tries >= TRIES || begun.elapsed() >= TRIED_FOR;
                if error.kind() != ErrorKind::Conflict || tried {
                    return Err(error);
                }
                checkout.keep();
                tokio::time::sleep(pause(tries)).await;
            }
        };
        self.store.desk.bounded(self.doing, asked).await
    }
}

/// Longer with each try, and never the same for two that met.
fn pause(tries: u32) -> Duration {
    let longest = Duration::from_millis(5).saturating_mul(1 << tries.min(8)).min(PAUSE_MAX);
    let random = u32::try_from(RandomState::new().build_hasher().finish() % 1_000).unwrap_or(0);
    longest / 2 + longest.saturating_mul(random) / 2_000
}

/// What is still in somebody's way after all tries is a refusal, not a fault.
fn busy<T>(result: Result<Answer<T>>) -> Result<Answer<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(Err(Refusal::new(
            RefusalCode::Busy,
            "another transaction holds what this one needs; run it again",
        ))),
        other => other,
    }
}

impl PostgresStore {
    fn counter(&self, doing: &'static str) -> Counter<'_> {
        Counter { store: self, doing }
    }
}

#[async_trait]
impl BarrierDesk for PostgresStore {
    async fn create_barrier(&self, plan: &Plan) -> Result<Answer<Created>> {
        busy(create::create(&mut self.counter("creating a barrier"), plan).await)
    }

    async fn ack_members(&self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
        let mut counter = self.counter("acknowledging members of a barrier");
        let acked = busy(ack::ack(&mut counter, batch).await)?;
        let kept = match &acked {
            Ok(acked) => witness(&mut counter, batch, &acked.answers).await,
            Err(_) => Ok(()),
        };
        if let Err(error) = kept {
            tracing::warn!(%error, barrier = %batch.id, "refused acknowledgements were not kept");
        }
        if acked.as_ref().is_ok_and(|acked| acked.closing) {
            self.close_now(&batch.id).await;
        }
        Ok(acked)
    }

    async fn change_barrier(&self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
        busy(change::change(&mut self.counter("changing a barrier"), id, change).await)
    }

    async fn barrier_status(&self, id: &BarrierId) -> Result<Option<Status>> {
        read::status(&mut self.counter("reading a barrier"), id).await
    }

    async fn barrier_outcomes(&self, page: &Page) -> Result<Option<Outcomes>> {
        read::outcomes(&mut self.counter("reading a barrier's outcomes"), page).await
    }

    async fn barrier_why(&self, id: &BarrierId) -> Result<Option<Why>> {
        read::why(&mut self.counter("reading what a barrier waits for"), id).await
    }

    async fn barriers(&self, tenant: &str, after: Option<&str>, limit: u32) -> Result<Vec<Status>> {
        read::list(&mut self.counter("listing barriers"), tenant, after, limit).await
    }

    async fn reconcile_barrier(&self, id: &BarrierId) -> Result<Answer<AckedBatch>> {
        let mut counter = self.counter("reading a barrier's probe");
        let which: Option<Which> = counter.ask(call(sql::BARRIER_WHICH, id, [])).await?;
        match which {
            None => Ok(Err(Refusal::not_found(id))),
            Some(which) => probe::reconcile(self, id, which.probe.as_deref(), None).await,
        }
    }

    async fn run_errand(&self, errand: &Errand) -> Result<bool> {
        close::run(self, errand).await
    }
}

impl PostgresStore {
    /// Runs the errand that a failed acknowledgement has sent, without waiting for a relay.
    async fn close_now(&self, id: &BarrierId) {
        let closed = async {
            let mut counter = self.counter("reading a barrier");
            let which: Option<Which> = counter.ask(call(sql::BARRIER_WHICH, id, [])).await?;
            let Some(which) = which else {
                return Ok(true);
            };
            let errand = Errand {
                tenant: id.tenant().to_owned(),
                barrier: id.id().to_owned(),
                incarnation: which.incarnation,
                epoch: which.epoch,
                act: ErrandAct::FirstFailure,
            };
            close::run(self, &errand).await
        };
        let closed: Result<bool> = closed.await;
        if let Err(error) = closed {
            tracing::debug!(%error, barrier = %id, "not closed now: the relay's errand does it");
        }
    }
}

/// Keeps what was refused as evidence.
async fn witness(
    counter: &mut Counter<'_>,
    batch: &AckBatch,
    answers: &[MemberAnswer],
) -> Result<()> {
    let refused: Vec<_> = batch
        .acks
        .iter()
        .zip(answers)
        .filter_map(|(ack, answer)| match answer {
            MemberAnswer::Refused(refusal) => match refusal.code() {
                RefusalCode::UnknownMember => Some((ack, "unknown", refusal)),
                RefusalCode::Conflict => Some((ack, "late", refusal)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    let mut near = Vec::new();
    let mut near_of = Vec::new();
    for (n, (_, _, refusal)) in (1..).zip(&refused) {
        for name in refusal.near() {
            near.push(name.as_bytes());
            near_of.push(n);
        }
    }
    let params = [
        Param::Texts(Some(refused.iter().map(|(_, kind, _)| *kind).collect())),
        Param::Names(refused.iter().map(|(ack, _, _)| ack.member.as_bytes()).collect()),
        Param::Names(near),
        Param::Ints(near_of),
        Param::Flags(refused.iter().map(|(ack, _, _)| ack.outcome.is_ok()).collect()),
        Param::Text(Some(&batch.channel)),
    ];
    counter.ask::<()>(call(sql::BARRIER_WITNESS, &batch.id, params)).await
}
