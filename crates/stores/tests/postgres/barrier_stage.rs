//! What the tests of barriers act with: sessions that run the same rounds at once, and a checker that
//! counts continuations.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::barrier::{
    Ack, AckBatch, BarrierId, BarrierTransaction, Barriers, Change, Failed, MemberName, Outcome,
    Plan, PlanBuilder,
};
use sendoff_stores::postgres::PostgresStore;
use tokio::sync::Barrier;
use tokio_postgres::{Client, IsolationLevel, NoTls, Transaction};

use crate::stage::{connect, migrated};

/// Multiplies the rounds of the races; 1 unless `SENDOFF_RACE_ROUNDS` says otherwise.
pub(crate) fn rounds(usual: usize) -> usize {
    let factor = std::env::var("SENDOFF_RACE_ROUNDS").ok().and_then(|text| text.parse().ok());
    let factor: f64 = factor.unwrap_or(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of rounds"
    )]
    let rounds = (usual as f64 * factor) as usize;
    rounds.max(1)
}

pub(crate) fn id(name: &str) -> BarrierId {
    BarrierId::new(name).unwrap()
}

pub(crate) fn name(name: &str) -> MemberName {
    MemberName::new(name).unwrap()
}

/// A plan with a continuation.
pub(crate) fn plan(id: &str) -> PlanBuilder {
    Barriers::new().plan(id).unwrap().continue_with("done")
}

pub(crate) fn batch(barrier: &str, acks: &[(String, Outcome)]) -> AckBatch {
    let acks = acks
        .iter()
        .map(|(member, outcome)| Ack { member: name(member), outcome: outcome.clone() })
        .collect();
    AckBatch::new(id(barrier), acks).by("test")
}

/// One step of a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Ack(Vec<(String, Outcome)>),
    Change(Change),
    Pause(Duration),
}

impl Step {
    pub(crate) fn ok(member: impl Into<String>) -> Self {
        Self::Ack(vec![(member.into(), Outcome::ok())])
    }

    pub(crate) fn failed(member: impl Into<String>) -> Self {
        Self::Ack(vec![(member.into(), Outcome::failed())])
    }
}

/// What a session does in a round: transactions, each with its steps.
pub(crate) type Part = Vec<Vec<Step>>;

/// Rounds that several sessions run at once, each round on a barrier of its own.
pub(crate) struct Race {
    pub(crate) rounds: usize,
    pub(crate) sessions: usize,
    pub(crate) isolation: IsolationLevel,
    /// Of a hundred transactions, so many are rolled back once before they are committed.
    pub(crate) rollbacks: u32,
    pub(crate) plan: Box<dyn Fn(&str) -> Plan + Send + Sync>,
    /// By round and session.
    pub(crate) part: Box<dyn Fn(usize, usize) -> Part + Send + Sync>,
}

impl Race {
    pub(crate) fn new(
        rounds: usize,
        sessions: usize,
        plan: impl Fn(&str) -> Plan + Send + Sync + 'static,
        part: impl Fn(usize, usize) -> Part + Send + Sync + 'static,
    ) -> Self {
        Self {
            rounds,
            sessions,
            isolation: IsolationLevel::ReadCommitted,
            rollbacks: 0,
            plan: Box::new(plan),
            part: Box::new(part),
        }
    }

    pub(crate) fn isolated(mut self, isolation: IsolationLevel) -> Self {
        self.isolation = isolation;
        self
    }

    pub(crate) fn rolled_back(mut self, of_a_hundred: u32) -> Self {
        self.rollbacks = of_a_hundred;
        self
    }

    /// Runs on a database of its own and gives what the checker found.
    pub(crate) async fn run(self) -> Verdict {
        let (_store, url) = migrated().await;
        self.run_on(&url).await
    }

    pub(crate) async fn run_on(self, url: &str) -> Verdict {
        let race = Arc::new(self);
        let step = Arc::new(Barrier::new(race.sessions + 1));
        let sessions: Vec<_> = (0..race.sessions)
            .map(|session| {
                let (race, step, url) = (Arc::clone(&race), Arc::clone(&step), url.to_owned());
                tokio::spawn(async move {
                    let mut client = connect(&url).await;
                    for round in 0..race.rounds {
                        step.wait().await;
                        for transaction in (race.part)(round, session) {
                            commit(&mut client, &race, &format!("round-{round}"), &transaction).await;
                        }
                        step.wait().await;
                    }
                })
            })
            .collect();
        let early = tokio::spawn(watch(url.to_owned()));
        let mut client = connect(url).await;
        for round in 0..race.rounds {
            let mut transaction = client.transaction().await.unwrap();
            let plan = (race.plan)(&format!("round-{round}"));
            Barriers::new().create(&mut transaction, &plan).await.unwrap();
            transaction.commit().await.unwrap();
            step.wait().await;
            step.wait().await;
        }
        for session in sessions {
            session.await.unwrap();
        }
        let verdict = Verdict::of(&client).await;
        early.abort();
        if let Err(error) = early.await {
            assert!(error.is_cancelled(), "seen early: {error}");
        }
        verdict
    }
}

/// Runs a transaction until it is committed, as whoever owns one has to.
async fn commit(client: &mut Client, race: &Race, barrier: &str, steps: &[Step]) {
    let mut give_up = fastrand::u32(0..100) < race.rollbacks;
    for _ in 0..1_000 {
        let begun = client.build_transaction().isolation_level(race.isolation).start().await;
        let mut transaction = begun.unwrap();
        match run(&mut transaction, barrier, steps).await {
            Ok(()) if give_up => {
                give_up = false;
                transaction.rollback().await.unwrap();
            }
            Ok(()) => match transaction.commit().await {
                Ok(()) => return,
                Err(error) => assert!(is_retried(&error), "{error:?}"),
            },
            Err(error) => {
                assert!(is_retried(&error), "{error:?}");
                transaction.rollback().await.unwrap();
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..2_000))).await;
            }
        }
    }
    panic!("a transaction was not committed in 1,000 tries");
}

/// A deadlock, a serialization failure, a lock that was not to be had.
fn is_retried(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| ["40001", "40P01", "55P03"].contains(&code.code()))
}

async fn run(
    transaction: &mut Transaction<'_>,
    barrier: &str,
    steps: &[Step],
) -> Result<(), tokio_postgres::Error> {
    for step in steps {
        match step {
            Step::Ack(acks) => {
                // What came after the end is refused, as it has to be.
                let _ = transaction.ack_members(&batch(barrier, acks)).await?;
            }
            Step::Change(change) => {
                let changed = Barriers::new().change(transaction, barrier, change).await;
                if let Err(Failed::Driver(error)) = changed {
                    return Err(error);
                }
            }
            Step::Pause(most) => {
                let micros = u64::try_from(most.as_micros()).unwrap();
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..=micros))).await;
            }
        }
    }
    Ok(())
}

/// Looks, in one snapshot each time, for a continuation that is there while its barrier is open.
async fn watch(url: String) {
    let client = connect(&url).await;
    loop {
        let early: i64 = client
            .query_one(
                "SELECT count(*) FROM sendoff.barrier b JOIN sendoff.outbox o ON o.key = b.id \
                  WHERE b.state IN ('open', 'closing') OR (b.reason = 'all' AND EXISTS ( \
                        SELECT FROM sendoff.barrier_member m \
                         WHERE m.barrier = b.no AND m.resolved_at IS NULL))",
                &[],
            )
            .await
            .unwrap()
            .get(0);
        assert_eq!(early, 0, "a continuation was committed before its barrier's last member");
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}

/// What the checker found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Barriers that are not open any more.
    pub(crate) ended: i64,
    /// Barriers that have what they want, or nothing pending, and are open: their continuation is lost.
    pub(crate) lost: i64,
    /// Barriers with more than one continuation of an epoch.
    pub(crate) double: i64,
    /// Barriers that ended and have none, but for cancelled ones; and cancelled ones that have one.
    pub(crate) wrong: i64,
}

impl Verdict {
    /// Every barrier has ended, with its one continuation.
    pub(crate) fn clean(ended: usize) -> Self {
        Self { ended: i64::try_from(ended).unwrap(), lost: 0, double: 0, wrong: 0 }
    }

    pub(crate) async fn of(client: &Client) -> Self {
        let row = client
            .query_one(
                "SELECT count(*) FILTER (WHERE b.state IN ('complete', 'deadline', 'cancelled')), \
                        count(*) FILTER (WHERE b.state IN ('open', 'closing')), \
                        count(*) FILTER (WHERE c.most > 1), \
                        count(*) FILTER (WHERE b.state IN ('complete', 'deadline') AND c.last <> 1 \
                            OR b.state = 'cancelled' AND c.last <> 0) \
                   FROM sendoff.barrier b, LATERAL ( \
                     SELECT coalesce(max(e.n), 0) AS most, \
                            coalesce(sum(e.n) FILTER (WHERE e.epoch = b.epoch), 0) AS last \
                       FROM (SELECT (o.headers ->> 'sendoff-barrier-epoch')::integer AS epoch, \
                                    count(*) AS n FROM sendoff.outbox o \
                              WHERE o.key = b.id AND o.topic = 'done' GROUP BY 1) AS e) AS c",
                &[],
            )
            .await
            .unwrap();
        Self { ended: row.get(0), lost: row.get(1), double: row.get(2), wrong: row.get(3) }
    }
}

/// A migrated store, its URL, and a client.
pub(crate) async fn stage() -> (PostgresStore, String, Client) {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    (store, url, client)
}

/// A connection that may be killed.
pub(crate) async fn try_connect(url: &str) -> Option<(Client, i32)> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
    tokio::spawn(connection);
    let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.ok()?.get(0);
    Some((client, pid))
}
