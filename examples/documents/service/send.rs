//! Sends a batch: its rows, what it waits for, and a message for each document, in one transaction.

use std::time::Duration;

use sendoff::Outbox;
use sendoff::barrier::{Barriers, OnDeadline, Probe};
use serde_json::json;
use sqlx::PgPool;

use crate::Error;

/// Sends documents `doc-0001.xml` to `count`; false where the batch was sent before. Killed half way,
/// it has sent nothing.
pub(crate) async fn send(
    pool: &PgPool,
    batch: &str,
    count: u32,
    deadline: Duration,
    address: &str,
) -> Result<bool, Error> {
    let mut transaction = pool.begin().await?;
    let new = sqlx::query("INSERT INTO batches VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(batch)
        .execute(&mut *transaction)
        .await?;
    if new.rows_affected() == 0 {
        return Ok(false);
    }
    let names: Vec<String> = (1..=count).map(|number| format!("doc-{number:04}.xml")).collect();
    let documents: Vec<(String, String)> = sqlx::query_as(
        "INSERT INTO documents (batch, name) SELECT $1, unnest($2::text[]) RETURNING name, key",
    )
    .bind(batch)
    .bind(&names)
    .fetch_all(&mut *transaction)
    .await?;

    // What is waited for, and how it goes on. The probe is a text, so the batch is quoted into it.
    let book = "SELECT document, ok, error, result FROM partner_book WHERE batch = %L";
    let probe: String = sqlx::query_scalar("SELECT format($1, $2)")
        .bind(book)
        .bind(batch)
        .fetch_one(&mut *transaction)
        .await?;
    let barriers = Barriers::new();
    let plan = barriers
        .plan(batch)?
        .members(&names)
        .continue_with("batches.done")
        .deadline(deadline)
        .on_deadline(OnDeadline::Continue)
        .probe(Probe::Sql(probe))
        .strict()
        .build()?;
    barriers.create(&mut transaction, &plan).await?;

    let outbox = Outbox::new("documents");
    let mut messages = Vec::with_capacity(documents.len());
    for (name, key) in documents {
        let answer_to = format!("http://{address}/answers/{key}");
        let body = json!({"batch": batch, "document": name, "answer_to": answer_to});
        messages.push(outbox.message("documents.sent").body(body.to_string()).build()?);
    }
    outbox.send_all(&mut transaction, &messages).await?;
    transaction.commit().await?; // Rows, barrier and messages are there, or none of them.
    Ok(true)
}
