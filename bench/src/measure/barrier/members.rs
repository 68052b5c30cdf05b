//! The members of a measured barrier: their names, and the order in which they are acknowledged.

use std::sync::atomic::{AtomicUsize, Ordering};

use sendoff_core::barrier::{Barriers, MemberName, Plan};
use tokio_postgres::Client;

use crate::failure::{Doing, Failure, Result};

/// The topic of every continuation here.
pub(super) const TOPIC: &str = "bench.done";

/// Which members are left, handed out to whoever comes, in an order of chance: partners answer in
/// no order.
#[derive(Debug)]
pub(super) struct Members {
    numbers: Vec<usize>,
    next: AtomicUsize,
}

impl Members {
    pub(super) fn new(count: usize) -> Self {
        let mut numbers: Vec<usize> = (0..count).collect();
        // The same order in every run.
        fastrand::Rng::with_seed(7).shuffle(&mut numbers);
        Self { numbers, next: AtomicUsize::new(0) }
    }

    /// The next one; `None` after the last.
    pub(super) fn next(&self) -> Option<usize> {
        self.numbers.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    /// The next `count` at most.
    pub(super) fn take(&self, count: usize) -> &[usize] {
        let from = self.next.fetch_add(count, Ordering::Relaxed).min(self.numbers.len());
        &self.numbers[from..self.numbers.len().min(from + count)]
    }
}

/// A member's name.
pub(super) fn name(number: usize) -> String {
    format!("document-{number:07}.xml")
}

/// A member's name, checked.
pub(super) fn member(number: usize) -> Result<MemberName> {
    MemberName::new(name(number)).doing("naming a member")
}

/// A barrier with so many members and a continuation.
pub(super) fn plan(id: &str, count: usize) -> Result<Plan> {
    Barriers::new()
        .plan(id)
        .doing("naming a barrier")?
        .members((0..count).map(name))
        .continue_with(TOPIC)
        .build()
        .map_err(|refusal| Failure::new(refusal.to_string()))
}

/// Creates a barrier in a transaction of its own.
pub(super) async fn create(client: &mut Client, plan: &Plan) -> Result<()> {
    const DOING: &str = "creating a barrier";
    let mut transaction = client.transaction().await.doing(DOING)?;
    let created = Barriers::new().create(&mut transaction, plan).await.doing(DOING)?;
    if created.existing {
        return Err(Failure::new("a barrier of an earlier run is still there"));
    }
    transaction.commit().await.doing(DOING)
}

/// Whether the barrier is complete, and how many continuations of it wait in the outbox.
pub(super) async fn standing(client: &mut Client, id: &str) -> Result<(bool, i64)> {
    const DOING: &str = "reading a barrier";
    let mut transaction = client.transaction().await.doing(DOING)?;
    let status = Barriers::new().status(&mut transaction, id).await.doing(DOING)?;
    let sql = "SELECT count(*) FROM sendoff.outbox WHERE topic = $1 AND key = $2";
    let waiting = transaction.query_one(sql, &[&TOPIC, &id]).await.doing(DOING)?.get(0);
    transaction.rollback().await.doing(DOING)?;
    Ok((status.is_some_and(|status| status.complete), waiting))
}
