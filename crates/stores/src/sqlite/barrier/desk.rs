//! Barriers for programs that have no transaction of their own, on the store's threads.

use async_trait::async_trait;
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierDesk, BarrierId, Change, Changed, Created, EVIDENCE_MAX,
    Errand, Evidence, MemberAnswer, Outcomes, Page, Plan, Refusal, RefusalCode, Status, Why, plain,
};
use sendoff_core::time::Timestamp;
use sendoff_core::{ErrorKind, Result};

use super::blocking::{Blocking, now};
use super::header::encode;
use super::ledger::Ledger;
use super::read;
use super::statements::{Statements, Value};
use crate::sqlite::error::Failure;
use crate::sqlite::sql::barrier as on;
use crate::sqlite::store::SqliteStore;

const CHANGING: &str = "changing a barrier";
const READING: &str = "reading a barrier";
const KEEPING: &str = "keeping a barrier's evidence";

/// A ledger on a connection of the store's.
type Desk<'a> = Ledger<Blocking<'a>>;

#[async_trait]
impl BarrierDesk for SqliteStore {
    async fn create_barrier(&self, plan: &Plan) -> Result<Answer<Created>> {
        let plan = plan.clone();
        let done =
            self.write_barrier("creating a barrier", move |desk| now(plain::create(desk, &plan)));
        or_busy(done.await)
    }

    async fn ack_members(&self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
        let own = batch.clone();
        let done = self.write_barrier("acknowledging members of a barrier", move |desk| {
            now(plain::ack(desk, &own))
        });
        let answer = or_busy(done.await)?;
        if let Ok(acked) = &answer {
            self.keep_evidence(batch, &acked.answers).await;
        }
        Ok(answer)
    }

    async fn change_barrier(&self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
        let (id, change) = (id.clone(), change.clone());
        let done = self.write_barrier(CHANGING, move |desk| now(plain::change(desk, &id, &change)));
        or_busy(done.await)
    }

    async fn barrier_status(&self, id: &BarrierId) -> Result<Option<Status>> {
        let id = id.clone();
        self.read_barrier(move |desk| now(plain::status(desk, &id))).await
    }

    async fn barrier_outcomes(&self, page: &Page) -> Result<Option<Outcomes>> {
        let page = page.clone();
        self.read_barrier(move |desk| now(read::outcomes(desk, &page))).await
    }

    async fn barrier_why(&self, id: &BarrierId) -> Result<Option<Why>> {
        let id = id.clone();
        self.read_barrier(move |desk| {
            let why = async {
                let evidence = read::evidence(desk, &id).await?;
                plain::why(desk, &id, evidence).await
            };
            now(why)
        })
        .await
    }

    async fn barriers(&self, tenant: &str, after: Option<&str>, limit: u32) -> Result<Vec<Status>> {
        let (tenant, after) = (tenant.to_owned(), after.map(str::to_owned));
        self.read_barrier(move |desk| now(read::list(desk, &tenant, after.as_deref(), limit))).await
    }

    async fn reconcile_barrier(&self, id: &BarrierId) -> Result<Answer<AckedBatch>> {
        self.reconcile(id).await
    }

    async fn run_errand(&self, errand: &Errand) -> Result<bool> {
        let own = errand.clone();
        let probe = self.read_barrier(move |desk| now(plain::to_probe(desk, &own))).await?;
        if let Some((id, probe)) = probe {
            // A probe that fails must not keep the deadline from coming.
            match self.probe(&id, probe, true).await {
                Ok(Ok(_)) => {}
                Ok(Err(refusal)) => {
                    tracing::warn!(barrier = %id, %refusal, "not probed; the deadline closes the barrier");
                }
                Err(error) => {
                    tracing::warn!(barrier = %id, %error, "the probe failed; the deadline closes the barrier");
                }
            }
        }
        let own = errand.clone();
        let acked = self
            .write_barrier("running an errand of a barrier", move |desk| {
                now(plain::run(desk, &own))
            })
            .await?;
        if let Some((batch, answers)) = acked {
            self.keep_evidence(&batch, &answers).await;
        }
        Ok(true)
    }
}

/// Somebody else holds the write lock for longer than the busy timeout: nothing was changed.
fn or_busy<T>(done: Result<Answer<T>>) -> Result<Answer<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Ok(Err(Refusal::new(RefusalCode::Busy, error.to_string())))
        }
        other => other,
    }
}

impl SqliteStore {
    /// Runs a call in a transaction on the writing thread.
    pub(super) async fn write_barrier<T, J>(&self, operation: &'static str, job: J) -> Result<T>
    where
        T: Send + 'static,
        J: FnOnce(&mut Desk<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.writes
            .run(operation, move |session| {
                session.write(|tx| job(&mut Ledger(Blocking(tx))).map_err(told))
            })
            .await
    }

    pub(super) async fn read_barrier<T, J>(&self, job: J) -> Result<T>
    where
        T: Send + 'static,
        J: FnOnce(&mut Desk<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.desk
            .run(READING, move |session| {
                session.read(|tx| job(&mut Ledger(Blocking(tx))).map_err(told))
            })
            .await
    }

    /// Keeps what was refused and may explain something: the last ones of each barrier. What was
    /// acknowledged is committed by now, so a failure here is told in the log only.
    async fn keep_evidence(&self, batch: &AckBatch, answers: &[MemberAnswer]) {
        let evidence = plain::evidence(batch, answers, Timestamp::UNIX_EPOCH);
        if evidence.is_empty() {
            return;
        }
        if let Err(error) = self.write_evidence(batch.id.clone(), evidence).await {
            tracing::warn!(barrier = %batch.id, %error, "the evidence was not kept");
        }
    }

    async fn write_evidence(&self, id: BarrierId, evidence: Vec<Evidence>) -> Result<()> {
        self.write_barrier(KEEPING, move |desk| {
            let keep = async {
                let at = plain::Headers::now(desk).await?;
                let (tenant, id) = (Value::text(id.tenant()), Value::text(id.id()));
                for one in evidence {
                    let values = vec![
                        tenant.clone(),
                        id.clone(),
                        Value::time(at),
                        Value::text(read::word(one.kind)),
                        Value::Blob(one.member.as_bytes().to_vec()),
                        Value::Text(encode("evidence", &one.near).map_err(Blocking::unexpected)?),
                        Value::bool(one.ok),
                        Value::Text(one.channel),
                    ];
                    desk.0.execute(on::EVIDENCE_ADD, values).await?;
                }
                let kept = Value::count(EVIDENCE_MAX as u64);
                desk.0.execute(on::EVIDENCE_CAP, vec![tenant, id, kept]).await
            };
            now(keep)
        })
        .await
        .map(drop)
    }
}

/// An error of the product's that travelled as one of the driver's.
fn told(error: rusqlite::Error) -> Failure {
    match error {
        rusqlite::Error::FromSqlConversionFailure(at, kind, source) => {
            match source.downcast::<sendoff_core::Error>() {
                Ok(error) => Failure::Told(*error),
                Err(source) => {
                    Failure::Driver(rusqlite::Error::FromSqlConversionFailure(at, kind, source))
                }
            }
        }
        other => Failure::Driver(other),
    }
}
