//! What the cases act with: a migrated store, the desk's verbs in short, and a relay reduced to what it
//! does with a message.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::barrier::{
    Ack, AckBatch, Acked, AckedBatch, Answer, BarrierId, Change, Changed, Continuation, Created,
    MemberName, MemberOutcome, Outcome, Page, Plan, PlanBuilder, RefusalCode, Status, Which,
};
use sendoff_core::store::{
    Ask, Content, LaneLease, LaneLook, LeaseRequest, Look, Outcome as Settlement, QuarantineReason,
    RelayId, Row, Verdict,
};
use sendoff_core::{Message, Result};

use super::subject::{Store, Subject};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3_600);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// The topic of the suite's continuations.
pub(super) const DONE: &str = "suite.done";

/// A migrated store on data of its own.
pub(super) struct Stage<S> {
    pub(super) subject: S,
    pub(super) store: Arc<dyn Store>,
    relay: RelayId,
}

pub(super) fn id(id: &str) -> BarrierId {
    match BarrierId::new(id) {
        Ok(id) => id,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn name(name: impl AsRef<[u8]>) -> MemberName {
    match MemberName::new(name) {
        Ok(name) => name,
        Err(error) => panic!("{error}"),
    }
}

/// A plan with a continuation to [`DONE`].
pub(super) fn plan<N: AsRef<[u8]>>(of: &str, members: impl IntoIterator<Item = N>) -> PlanBuilder {
    Plan::builder(id(of)).members(members).continue_with(DONE)
}

pub(super) fn built(plan: PlanBuilder) -> Plan {
    match plan.build() {
        Ok(plan) => plan,
        Err(refusal) => panic!("{refusal}"),
    }
}

/// Acknowledgements that all went well.
pub(super) fn batch<N: AsRef<[u8]>>(of: &str, members: impl IntoIterator<Item = N>) -> AckBatch {
    let acks = members.into_iter().map(|member| ack(member, Outcome::ok())).collect();
    AckBatch::new(id(of), acks)
}

pub(super) fn ack(member: impl AsRef<[u8]>, outcome: Outcome) -> Ack {
    Ack { member: name(member), outcome }
}

/// What was not refused.
pub(super) fn taken<T>(answer: Answer<T>) -> T {
    match answer {
        Ok(taken) => taken,
        Err(refusal) => panic!("refused with {}: {refusal}", refusal.code().as_str()),
    }
}

/// The code of what was refused.
pub(super) fn refused<T: std::fmt::Debug>(answer: Answer<T>) -> RefusalCode {
    match answer {
        Ok(taken) => panic!("it was taken: {taken:?}"),
        Err(refusal) => {
            assert!(!refusal.detail().is_empty());
            refusal.code()
        }
    }
}

pub(super) fn continuation(message: &Message) -> Continuation {
    match Continuation::parse(message.body()) {
        Ok(continuation) => continuation,
        Err(error) => panic!("{error}"),
    }
}

impl<S: Subject> Stage<S> {
    pub(super) async fn new() -> Result<Self> {
        let subject = S::empty().await?;
        let store = subject.open().await?;
        store.migrate().await?;
        Ok(Self { subject, store, relay: RelayId::new() })
    }

    /// A stage with one barrier, `b`.
    pub(super) async fn with(members: &[&str]) -> Result<Self> {
        let stage = Self::new().await?;
        stage.create(plan("b", members)).await?;
        Ok(stage)
    }

    pub(super) async fn try_create(&self, plan: PlanBuilder) -> Result<Answer<Created>> {
        self.store.create_barrier(&built(plan)).await
    }

    pub(super) async fn create(&self, plan: PlanBuilder) -> Result<Created> {
        Ok(taken(self.try_create(plan).await?))
    }

    pub(super) async fn try_ack(
        &self,
        of: &str,
        member: impl AsRef<[u8]> + Send,
        outcome: Outcome,
    ) -> Result<Answer<Acked>> {
        let batch = AckBatch::new(id(of), vec![ack(member, outcome)]);
        Ok(self.store.ack_members(&batch).await?.and_then(AckedBatch::only))
    }

    pub(super) async fn ack(&self, of: &str, member: &str, outcome: Outcome) -> Result<Acked> {
        Ok(taken(self.try_ack(of, member, outcome).await?))
    }

    pub(super) async fn ok(&self, of: &str, member: &str) -> Result<Acked> {
        self.ack(of, member, Outcome::ok()).await
    }

    pub(super) async fn ack_all(&self, batch: &AckBatch) -> Result<AckedBatch> {
        Ok(taken(self.store.ack_members(batch).await?))
    }

    pub(super) async fn try_change(&self, of: &str, change: Change) -> Result<Answer<Changed>> {
        self.store.change_barrier(&id(of), &change).await
    }

    pub(super) async fn change(&self, of: &str, change: Change) -> Result<Changed> {
        Ok(taken(self.try_change(of, change).await?))
    }

    /// The barrier's status, whose counts fit together.
    pub(super) async fn status(&self, of: &str) -> Result<Status> {
        let status = self.store.barrier_status(&id(of)).await?;
        let Some(status) = status else { panic!("{of} is not there") };
        assert_eq!(status.total, status.resolved + status.pending + status.missing, "{status:?}");
        assert!(status.failed <= status.resolved, "{status:?}");
        Ok(status)
    }

    /// Total, resolved, pending, failed, missing.
    pub(super) async fn counts(&self, of: &str) -> Result<[u64; 5]> {
        let status = self.status(of).await?;
        Ok([status.total, status.resolved, status.pending, status.failed, status.missing])
    }

    /// Every member of a kind, read in pages of two.
    pub(super) async fn members(&self, of: &str, which: Which) -> Result<Vec<MemberOutcome>> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = Page { id: id(of), which, after, limit: 2, only: None };
            let Some(page) = self.store.barrier_outcomes(&page).await? else {
                panic!("{of} is not there");
            };
            assert!(page.members.len() <= 2);
            all.extend(page.members);
            after = page.next_after;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Their names.
    pub(super) async fn names(&self, of: &str, which: Which) -> Result<Vec<String>> {
        let members = self.members(of, which).await?;
        Ok(members.iter().map(|member| member.member.to_string()).collect())
    }

    /// Hydrates in a transaction of its own.
    pub(super) async fn hydrate(&self, continuation: &Continuation) -> Result<Option<Status>> {
        let mut transaction = self.subject.begin().await?;
        let result = transaction.hydrate(continuation).await?;
        transaction.rollback().await?;
        Ok(result.map(|result| result.status().clone()))
    }

    /// Runs the relay until nothing is due any more: errands are attended, the rest is delivered.
    /// Gives what was delivered.
    pub(super) async fn deliver(&self) -> Result<Vec<Message>> {
        let mut delivered = Vec::new();
        for _ in 0..100 {
            let (lanes, rows) = self.due().await?;
            if rows.is_empty() {
                return Ok(delivered);
            }
            let mut verdicts = Vec::new();
            for row in rows {
                let Content::Message(message) = &row.content else {
                    panic!("only messages are to be seen here: {row:?}");
                };
                let outcome = if !message.is_reserved() {
                    delivered.push(message.as_ref().clone());
                    Settlement::Published { releases: row.blocker }
                } else if let Err(error) = self.store.attend(message).await {
                    let error = error.to_string();
                    Settlement::Retry { after: Duration::ZERO, error, counts: true, holds: true }
                } else {
                    Settlement::Published { releases: row.blocker }
                };
                verdicts.push(verdict(&lanes, &row, outcome));
            }
            self.store.settle(&self.relay, &verdicts).await?;
        }
        panic!("messages come for ever");
    }

    /// Sets everything that is due aside, as undeliverable.
    pub(super) async fn quarantine(&self) -> Result<()> {
        let (lanes, rows) = self.due().await?;
        let verdicts: Vec<Verdict> = rows
            .iter()
            .map(|row| {
                let reason = QuarantineReason::Permanent;
                let error = "never".to_owned();
                verdict(&lanes, row, Settlement::Quarantined { reason, error, holds: true })
            })
            .collect();
        self.store.settle(&self.relay, &verdicts).await.map(drop)
    }

    async fn due(&self) -> Result<(Vec<LaneLease>, Vec<Row>)> {
        let request = LeaseRequest {
            relay: self.relay.clone(),
            target: None,
            ttl: HOUR,
            keep: Vec::new(),
            release: Vec::new(),
            ask: Ask::Share,
        };
        let lanes = self.store.lease(&request).await?.lanes;
        let look = Look {
            reading: sendoff_core::store::Reading::Lanes,
            lanes: lanes.iter().map(|lease| LaneLook { lane: lease.lane, after: 0 }).collect(),
            ready: true,
            waiting: true,
            background: false,
            known: Vec::new(),
            rows_max: 1_000,
            lane_rows_max: 1_000,
            bytes_max: 64 << 20,
        };
        let rows = self.store.look(&look).await?.rows;
        Ok((lanes, rows))
    }
}

fn verdict(lanes: &[LaneLease], row: &Row, outcome: Settlement) -> Verdict {
    let held = lanes.iter().find(|lease| lease.lane == row.lane);
    Verdict {
        seq: row.seq,
        lane: row.lane,
        epoch: held.map_or(-1, |lease| lease.epoch),
        key: row.key.clone(),
        outcome,
    }
}

/// The one message that was delivered.
pub(super) fn only(delivered: Vec<Message>) -> Message {
    let ids: Vec<&str> = delivered.iter().map(Message::id).collect();
    assert_eq!(ids.len(), 1, "one message and no other: {ids:?}");
    match delivered.into_iter().next() {
        Some(message) => message,
        None => panic!("there is one"),
    }
}
