//! Batches of 500 under row locks, as most outbox relays and job queues on PostgreSQL work:
//! BEGIN, SELECT FOR UPDATE SKIP LOCKED, publish the batch pipelined, DELETE it, COMMIT.
//!
//! In two forms. The plain one is how such a relay is commonly written: prepared statements, and
//! each of them awaited before the next one is sent. The pipelined one is as fast as the design
//! allows: DELETE, COMMIT, BEGIN and the next SELECT are one round trip. Both have a table with a
//! primary key and no other index, and publish all of a batch before they await the first
//! acknowledgement. What the design forbids neither does: reading ahead while a batch is published.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{try_join, try_join3};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Row, Statement};

use crate::contenders::peers::{COLUMNS, PeerRow};
use crate::failure::{Doing, Result};
use crate::ground::Ground;
use crate::target::Target;

/// How the statements of a worker reach the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One after the other, each awaited.
    Plain,
    /// From the DELETE to the next claim in one round trip.
    Pipelined,
}

/// How many rows a transaction claims.
const ROWS: usize = 500;
const DOING: &str = "draining in batches";
/// Its table.
pub(crate) const TABLE: &str = "batch_outbox";

/// Makes the table where it is not there.
///
/// # Errors
/// Those of the database.
pub(crate) async fn create(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS batch_outbox (\
                 seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
                 id text NOT NULL, source text NOT NULL, topic text NOT NULL, key text, \
                 headers jsonb NOT NULL DEFAULT '{}', body bytea NOT NULL, \
                 created_at timestamptz NOT NULL DEFAULT now())",
        )
        .await
        .doing("creating the batch contender's table")
}

/// Drains with `workers` connections until a claim is empty or `until` has come; answers how many
/// messages were published and deleted.
///
/// # Errors
/// The first failure.
pub(crate) async fn drain(
    ground: &Ground,
    target: Arc<Target>,
    (workers, form): (usize, Form),
    until: Instant,
) -> Result<u64> {
    let mut running = JoinSet::new();
    for _ in 0..workers {
        let worker = Worker::connect(ground).await?;
        let target = Arc::clone(&target);
        running.spawn(async move {
            match form {
                Form::Plain => worker.run_plain(&target, until).await,
                Form::Pipelined => worker.run_pipelined(&target, until).await,
            }
        });
    }
    let mut settled = 0;
    while let Some(ended) = running.join_next().await {
        settled += ended.doing(DOING)??;
    }
    Ok(settled)
}

struct Worker {
    client: Client,
    claim: Statement,
    delete: Statement,
}

impl Worker {
    async fn connect(ground: &Ground) -> Result<Self> {
        const DOING: &str = "preparing the batch contender";
        let client = ground.connect().await?;
        let claim = client
            .prepare(&format!(
                "SELECT {COLUMNS} FROM {TABLE} ORDER BY seq LIMIT {ROWS} FOR UPDATE SKIP LOCKED"
            ))
            .await
            .doing(DOING)?;
        let delete = client
            .prepare(&format!("DELETE FROM {TABLE} WHERE seq = ANY($1)"))
            .await
            .doing(DOING)?;
        Ok(Self { client, claim, delete })
    }

    async fn run_plain(&self, target: &Target, until: Instant) -> Result<u64> {
        let mut settled = 0;
        while Instant::now() < until {
            self.client.batch_execute("BEGIN").await.doing(DOING)?;
            let claimed = self.client.query(&self.claim, &[]).await.doing(DOING)?;
            if claimed.is_empty() {
                self.client.batch_execute("ROLLBACK").await.doing(DOING)?;
                break;
            }
            let rows = decode(&claimed)?;
            let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
            target.publish_all(rows).await?;
            let deleted = self.client.execute(&self.delete, &[&seqs]).await.doing(DOING)?;
            self.client.batch_execute("COMMIT").await.doing(DOING)?;
            settled += deleted;
        }
        Ok(settled)
    }

    async fn run_pipelined(&self, target: &Target, until: Instant) -> Result<u64> {
        let begin = self.client.batch_execute("BEGIN");
        let (_, mut claimed) =
            try_join(begin, self.client.query(&self.claim, &[])).await.doing(DOING)?;
        let mut settled = 0;
        while !claimed.is_empty() && Instant::now() < until {
            let rows = decode(&claimed)?;
            let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
            target.publish_all(rows).await?;
            let (deleted, _, next) = try_join3(
                self.client.execute(&self.delete, &[&seqs]),
                self.client.batch_execute("COMMIT; BEGIN"),
                self.client.query(&self.claim, &[]),
            )
            .await
            .doing(DOING)?;
            settled += deleted;
            claimed = next;
        }
        self.client.batch_execute("ROLLBACK").await.doing(DOING)?;
        Ok(settled)
    }
}

fn decode(claimed: &[Row]) -> Result<Vec<PeerRow>> {
    claimed.iter().map(PeerRow::decode).collect()
}
