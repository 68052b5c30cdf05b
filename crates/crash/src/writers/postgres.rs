//! A writer on PostgreSQL, with tokio-postgres as a user would.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sendoff::{Message, Outbox};
use tokio_postgres::{Client, NoTls, Transaction};

use super::Task;
use super::plan::{Placing, Plan, Step};
use crate::failed;
use crate::order::SOURCE;

const PLACE_OF_KEY: &str = "WITH version AS (UPDATE key_version SET n = n + 1 WHERE key = $2 RETURNING n) \
     INSERT INTO orders (id, key, version, seed, length) SELECT $1, $2, n, $3, $4 FROM version";
const PLACE: &str =
    "INSERT INTO orders (id, key, version, seed, length) VALUES ($1, $2, 0, $3, $4)";
const TAKE_SEQ: &str = "SELECT nextval(pg_get_serial_sequence('sendoff.outbox', 'seq'))";
const USE_SEQ: &str = "INSERT INTO sendoff.outbox (seq, id, source, topic, headers, body) \
     OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5::text::jsonb, $6)";

/// Writes until the harness says stop; a fault breaks a transaction, not the writer.
pub(super) fn write(task: &Task, url: &str) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let outbox = Outbox::new(SOURCE);
        let mut random = fastrand::Rng::with_seed(task.seed);
        let mut client: Option<Client> = None;
        while !task.shared.stopping() {
            let Some(connected) = client.as_mut() else {
                client = connect(url).await;
                continue;
            };
            let plan = Plan::random(&mut random);
            let written = transact(connected, &outbox, &plan).await;
            match written {
                Ok(()) if plan.commits => {}
                Ok(()) => {
                    task.shared.rolled_back.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if interrupted(&error) => {
                    task.shared.broken.fetch_add(1, Ordering::Relaxed);
                    client = None;
                }
                Err(error) => return Err(failed("writing orders", describe(&error))),
            }
            let pace = plan.orders() as f64 / task.rate;
            tokio::time::sleep(Duration::from_secs_f64(pace)).await;
        }
        Ok(())
    })
}

async fn connect(url: &str) -> Option<Client> {
    match tokio_postgres::connect(url, NoTls).await {
        Ok((client, connection)) => {
            tokio::spawn(connection);
            Some(client)
        }
        Err(_) => {
            // Down, for the fraction of a second that a crash and a restart take.
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// Whether an error is what a crash of the server looks like: no answer, or class 57 (it shuts down
/// or starts up).
fn interrupted(error: &tokio_postgres::Error) -> bool {
    error.code().is_none_or(|code| code.code().starts_with("57"))
}

fn describe(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(
        || error.to_string(),
        |server| format!("{} {}", server.code().code(), server.message()),
    )
}

async fn transact(
    client: &mut Client,
    outbox: &Outbox,
    plan: &Plan,
) -> Result<(), tokio_postgres::Error> {
    let mut transaction = client.transaction().await?;
    if let Some((placing, wait)) = &plan.early_seq {
        use_seq_late(&transaction, placing, *wait).await?;
    }
    for step in &plan.steps {
        match step.savepoint {
            None => take(&mut transaction, outbox, step).await?,
            Some(kept) => {
                let mut savepoint = transaction.savepoint("step").await?;
                take(&mut savepoint, outbox, step).await?;
                if kept {
                    savepoint.commit().await?;
                } else {
                    savepoint.rollback().await?;
                }
            }
        }
    }
    tokio::time::sleep(plan.open).await;
    if plan.commits { transaction.commit().await } else { transaction.rollback().await }
}

async fn take(
    transaction: &mut Transaction<'_>,
    outbox: &Outbox,
    step: &Step,
) -> Result<(), tokio_postgres::Error> {
    for placing in &step.placings {
        place(transaction, placing).await?;
    }
    let messages: Vec<Message> = step.placings.iter().filter_map(message).collect();
    match messages.as_slice() {
        [message] => outbox.send(transaction, message).await,
        several => outbox.send_all(transaction, several).await,
    }
}

/// A message that the library refuses would leave an order without one: a loss that shows.
fn message(placing: &Placing) -> Option<Message> {
    placing.message().ok()
}

async fn place(
    transaction: &Transaction<'_>,
    placing: &Placing,
) -> Result<(), tokio_postgres::Error> {
    let order = &placing.order;
    let id = order.id.to_string();
    let sql = if order.key.is_some() { PLACE_OF_KEY } else { PLACE };
    transaction.execute(sql, &[&id, &order.key, &order.seed, &order.length]).await.map(drop)
}

/// A transaction that has only called `nextval` has a seq and no transaction id yet; nobody who
/// looks at running transactions sees it.
async fn use_seq_late(
    transaction: &Transaction<'_>,
    placing: &Placing,
    wait: Duration,
) -> Result<(), tokio_postgres::Error> {
    let seq: i64 = transaction.query_one(TAKE_SEQ, &[]).await?.get(0);
    tokio::time::sleep(wait).await;
    place(transaction, placing).await?;
    let Some(message) = message(placing) else {
        return Ok(());
    };
    let headers = message.headers().to_json();
    transaction
        .execute(
            USE_SEQ,
            &[
                &seq,
                &message.id(),
                &message.source(),
                &message.topic(),
                &headers,
                &message.body().as_ref(),
            ],
        )
        .await
        .map(drop)
}
