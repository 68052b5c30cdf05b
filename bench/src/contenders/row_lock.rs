//! One relay, one worker, one row for each transaction, as the outbox of document 3 works: lock the
//! oldest row that is neither published nor quarantined, publish it inside the transaction, mark it
//! published, commit.
//!
//! Each statement is a round trip, as it is where the statements are an engine's and the relay only
//! runs them. The index on what is pending keeps a claim from walking what was published before.

use std::time::Instant;

use tokio_postgres::Client;

use crate::contenders::peers::{COLUMNS, PeerRow};
use crate::failure::{Doing, Result};
use crate::ground::Ground;
use crate::target::Target;

/// Its table.
pub(crate) const TABLE: &str = "row_lock_outbox";
/// Which rows are pending.
pub(crate) const PENDING: &str = "published_at IS NULL AND quarantined_at IS NULL";

/// Makes the table where it is not there.
///
/// # Errors
/// Those of the database.
pub(crate) async fn create(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS row_lock_outbox (\
                 seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
                 id text NOT NULL, source text NOT NULL, topic text NOT NULL, key text, \
                 headers jsonb NOT NULL DEFAULT '{}', body bytea NOT NULL, \
                 created_at timestamptz NOT NULL DEFAULT now(), \
                 published_at timestamptz, quarantined_at timestamptz, reason text, \
                 UNIQUE (source, id)); \
             CREATE INDEX IF NOT EXISTS row_lock_pending ON row_lock_outbox (seq) \
                 WHERE published_at IS NULL AND quarantined_at IS NULL",
        )
        .await
        .doing("creating the row lock contender's table")
}

/// Drains until nothing is pending or `until` has come; answers how many messages were published
/// and marked.
///
/// # Errors
/// The first failure.
pub(crate) async fn drain(ground: &Ground, target: &Target, until: Instant) -> Result<u64> {
    const DOING: &str = "draining row by row";
    let mut client = ground.connect().await?;
    let claim = client
        .prepare(&format!(
            "SELECT {COLUMNS} FROM {TABLE} WHERE {PENDING} ORDER BY seq LIMIT 1 \
             FOR UPDATE SKIP LOCKED"
        ))
        .await
        .doing(DOING)?;
    let mark = client
        .prepare(&format!("UPDATE {TABLE} SET published_at = now() WHERE seq = $1"))
        .await
        .doing(DOING)?;
    let mut settled = 0;
    while Instant::now() < until {
        let transaction = client.transaction().await.doing(DOING)?;
        let Some(claimed) = transaction.query_opt(&claim, &[]).await.doing(DOING)? else {
            break;
        };
        let row = PeerRow::decode(&claimed)?;
        let seq = row.seq;
        target.publish_all(vec![row]).await?;
        settled += transaction.execute(&mark, &[&seq]).await.doing(DOING)?;
        transaction.commit().await.doing(DOING)?;
    }
    Ok(settled)
}
