//! Barriers for programs that have no transaction of their own.

use std::sync::Arc;

use async_trait::async_trait;

use crate::barrier::{
    Ack, AckBatch, AckedBatch, Answer, BarrierDesk, BarrierId, BarrierTransaction, Change, Changed,
    Created, Errand, Evidence, KeyProbe, MemberAnswer, Outcomes, Page, Plan, Probe, Refusal,
    RefusalCode, Status, Why, plain,
};
use crate::error::Result;
use crate::memory::store::MemoryStore;
use crate::memory::transaction::MemoryTransaction;

/// The most barriers of a list.
const LIST_MAX: u32 = 1_000;

/// Commits what was done, if it was not refused.
async fn end<T>(transaction: MemoryTransaction, answer: Answer<T>) -> Result<Answer<T>> {
    if answer.is_ok() {
        transaction.commit().await?;
    }
    Ok(answer)
}

#[async_trait]
impl BarrierDesk for MemoryStore {
    async fn create_barrier(&self, plan: &Plan) -> Result<Answer<Created>> {
        let mut transaction = self.begin();
        let answer = transaction.create_barrier(plan).await?;
        end(transaction, answer).await
    }

    async fn ack_members(&self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
        let mut transaction = self.begin();
        let answer = transaction.ack_members(batch).await?;
        let answer = end(transaction, answer).await?;
        if let Ok(acked) = &answer {
            self.keep_evidence(batch, &acked.answers).await;
        }
        Ok(answer)
    }

    async fn change_barrier(&self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
        let mut transaction = self.begin();
        let answer = transaction.change_barrier(id, change).await?;
        end(transaction, answer).await
    }

    async fn barrier_status(&self, id: &BarrierId) -> Result<Option<Status>> {
        self.begin().barrier_status(id).await
    }

    async fn barrier_outcomes(&self, page: &Page) -> Result<Option<Outcomes>> {
        self.begin().barrier_outcomes(page).await
    }

    async fn barrier_why(&self, id: &BarrierId) -> Result<Option<Why>> {
        let mut transaction = self.begin();
        let mut ledger = transaction.ledger().await?;
        let evidence: Vec<Evidence> = ledger
            .session
            .books()
            .last(id)
            .map(|kept| kept.evidence.iter().cloned().collect())
            .unwrap_or_default();
        plain::why(&mut ledger, id, evidence).await
    }

    async fn barriers(&self, tenant: &str, after: Option<&str>, limit: u32) -> Result<Vec<Status>> {
        let mut transaction = self.begin();
        let mut ledger = transaction.ledger().await?;
        let ids = ledger.session.books().ids.keys();
        let mut ids: Vec<BarrierId> = ids
            .filter(|id| id.tenant() == tenant && after.is_none_or(|after| id.id() > after))
            .cloned()
            .collect();
        ids.sort_unstable();
        ids.truncate(usize::try_from(limit.min(LIST_MAX)).unwrap_or(0));
        let mut list = Vec::with_capacity(ids.len());
        for id in ids {
            list.extend(plain::status(&mut ledger, &id).await?);
        }
        Ok(list)
    }

    async fn reconcile_barrier(&self, id: &BarrierId) -> Result<Answer<AckedBatch>> {
        let header = plain::readable(&mut self.begin().ledger().await?, id).await?;
        Ok(Err(match header.map(|header| header.probe) {
            None => Refusal::not_found(id),
            Some(None) => Refusal::new(
                RefusalCode::Invalid,
                format!("the barrier {id} was created without a probe"),
            ),
            Some(Some(Probe::Keys(prefix))) => {
                return self.probe_keys(id, &prefix, false).await;
            }
            Some(Some(Probe::Sql(_))) => Refusal::new(
                RefusalCode::Invalid,
                "the store in memory runs no SQL; acknowledge what you find yourself",
            ),
        }))
    }

    async fn run_errand(&self, errand: &Errand) -> Result<bool> {
        let probe = plain::to_probe(&mut self.begin().ledger().await?, errand).await?;
        if let Some((id, Probe::Keys(prefix))) = probe {
            match self.probe_keys(&id, &prefix, true).await {
                Ok(Ok(_)) => {}
                Ok(Err(refusal)) => {
                    tracing::warn!(barrier = %id, %refusal, "not probed; the deadline closes the barrier");
                }
                Err(error) => {
                    tracing::warn!(barrier = %id, %error, "the probe failed; the deadline closes the barrier");
                }
            }
        }
        let mut transaction = self.begin();
        let mut ledger = transaction.ledger().await?;
        let marks = ledger.marks();
        let done = plain::run(&mut ledger, errand).await;
        let done = ledger.end(marks, done)?;
        transaction.commit().await?;
        if let Some((batch, answers)) = done {
            self.keep_evidence(&batch, &answers).await;
        }
        Ok(true)
    }
}

impl MemoryStore {
    /// Acknowledges what the source of keys has under the prefix, a page in each transaction.
    async fn probe_keys(
        &self,
        id: &BarrierId,
        prefix: &str,
        at_deadline: bool,
    ) -> Result<Answer<AckedBatch>> {
        KeyProbe::run(self.keys.as_ref(), id, prefix, at_deadline, |acks| self.take(id, acks)).await
    }

    async fn take(&self, id: &BarrierId, acks: Vec<Ack>) -> Result<Answer<AckedBatch>> {
        let mut transaction = self.begin();
        let mut ledger = transaction.ledger().await?;
        let marks = ledger.marks();
        let done = plain::ack_found(&mut ledger, id, acks).await;
        let answer = ledger.end(marks, done)?;
        end(transaction, answer).await
    }

    async fn keep_evidence(&self, batch: &AckBatch, answers: &[MemberAnswer]) {
        let evidence = plain::evidence(batch, answers, self.shared.now());
        if evidence.is_empty() {
            return;
        }
        let mut books = Arc::clone(&self.shared.barriers).lock_owned().await;
        let no = books.ids.get(&batch.id).copied();
        if let Some(kept) = no.and_then(|no| books.barriers.get_mut(&no)) {
            kept.add_evidence(evidence);
        }
    }
}
