//! The contenders: ways to move committed rows to a broker, each on a table of its own.
//!
//! A contender says how its table is made, emptied, filled and drained. What is measured around a
//! drain, how often and in which order is `measure`'s business.

mod batch;
mod lanes;
mod peers;
mod row_lock;

use std::sync::Arc;
use std::time::Instant;

use tokio_postgres::Client;

pub(crate) use batch::Form;
pub(crate) use peers::PeerRow;

use crate::failure::{Doing, Result};
use crate::ground::Ground;
use crate::product;
use crate::target::Target;
use crate::workload::Workload;

/// A way to move committed rows to a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The product: one owner for each lane, read ahead, publish pipelined, settle behind.
    Lanes,
    /// Batches of 500: SELECT FOR UPDATE SKIP LOCKED, publish pipelined, DELETE, commit.
    Batch {
        /// How many do so at once.
        workers: usize,
        /// How their statements reach the database.
        form: Form,
    },
    /// One row for each transaction: claim with SKIP LOCKED, publish inside it, mark, commit.
    RowLock,
}

/// What a drain did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drained {
    /// Messages that were published and settled in the time.
    pub(crate) settled: u64,
    /// When the last of them was settled.
    pub(crate) end: Instant,
}

impl Contender {
    /// How a table names it.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Lanes => "lanes (Sendoff)".to_owned(),
            Self::Batch { workers: 1, form: Form::Plain } => {
                "batch 500, SKIP LOCKED, DELETE".to_owned()
            }
            Self::Batch { workers: 1, form: Form::Pipelined } => {
                "batch 500, statements in one round trip".to_owned()
            }
            Self::Batch { workers, form: Form::Plain } => format!("batch 500, {workers} workers"),
            Self::Batch { workers, form: Form::Pipelined } => {
                format!("batch 500 in one round trip, {workers} workers")
            }
            Self::RowLock => "one row per transaction, SKIP LOCKED".to_owned(),
        }
    }

    /// Makes its table where it is not there.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn create(self, ground: &Ground) -> Result<()> {
        match self {
            Self::Lanes => product::migrate(ground).await,
            Self::Batch { .. } => batch::create(ground.admin()).await,
            Self::RowLock => row_lock::create(ground.admin()).await,
        }
    }

    /// Empties its table and fills it.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn fill(self, client: &Client, workload: &Workload) -> Result<()> {
        let tables = match self {
            Self::Lanes => lanes::TABLES,
            Self::Batch { .. } => batch::TABLE,
            Self::RowLock => row_lock::TABLE,
        };
        client.batch_execute(&format!("TRUNCATE {tables}")).await.doing("emptying the table")?;
        // Before the fill: a checkpoint between fill and drain would make the drain log each
        // page in full, which no outbox that is drained as it is filled sees.
        client.batch_execute("CHECKPOINT").await.doing("a checkpoint")?;
        workload.insert_into(client, self.table()).await
    }

    /// Publishes and settles what is in its table, until that is empty or `until` has come.
    ///
    /// # Errors
    /// The first failure of the database or the target. A contender here does not retry.
    pub(crate) async fn drain(
        self,
        ground: &Ground,
        target: &Target,
        messages: u64,
        until: Instant,
    ) -> Result<Drained> {
        let settled = match self {
            Self::Lanes => return lanes::drain(ground, target, messages, until).await,
            Self::Batch { workers, form } => {
                batch::drain(ground, Arc::new(target.clone()), (workers, form), until).await?
            }
            Self::RowLock => row_lock::drain(ground, target, until).await?,
        };
        Ok(Drained { settled, end: Instant::now() })
    }

    /// How many of its rows are not settled.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn left(self, client: &Client) -> Result<u64> {
        let pending = match self {
            Self::RowLock => row_lock::PENDING,
            Self::Lanes | Self::Batch { .. } => "true",
        };
        let sql = format!("SELECT count(*) FROM {} WHERE {pending}", self.table());
        let row = client.query_one(&sql, &[]).await.doing("counting what is left")?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }

    fn table(self) -> &'static str {
        match self {
            Self::Lanes => lanes::TABLE,
            Self::Batch { .. } => batch::TABLE,
            Self::RowLock => row_lock::TABLE,
        }
    }
}
