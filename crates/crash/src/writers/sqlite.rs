//! A writer on SQLite, with rusqlite as a user would.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use sendoff::{Message, Outbox};

use super::Task;
use super::plan::{Placing, Plan, Step};
use crate::failed;
use crate::order::SOURCE;

const NEXT_VERSION: &str = "UPDATE key_version SET n = n + 1 WHERE key = ?1 RETURNING n";
const PLACE: &str =
    "INSERT INTO orders (id, key, version, seed, length) VALUES (?1, ?2, ?3, ?4, ?5)";

/// Writes until the harness says stop.
pub(super) fn write(task: &Task, path: &Path) -> io::Result<()> {
    let mut connection = Connection::open(path)
        .and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(20))?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            Ok(connection)
        })
        .map_err(|error| failed("opening the orders", error))?;
    let outbox = Outbox::new(SOURCE);
    let mut random = fastrand::Rng::with_seed(task.seed);
    while !task.shared.stopping() {
        let plan = Plan::random(&mut random);
        transact(&mut connection, &outbox, &plan)
            .map_err(|error| failed("writing orders", error))?;
        if !plan.commits {
            task.shared.rolled_back.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_secs_f64(plan.orders() as f64 / task.rate));
    }
    Ok(())
}

fn transact(connection: &mut Connection, outbox: &Outbox, plan: &Plan) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in &plan.steps {
        if step.savepoint.is_some() {
            transaction.execute_batch("SAVEPOINT step")?;
        }
        take(&transaction, outbox, step)?;
        match step.savepoint {
            Some(true) => transaction.execute_batch("RELEASE step")?,
            Some(false) => transaction.execute_batch("ROLLBACK TO step; RELEASE step")?,
            None => {}
        }
    }
    // One writer at a time: nobody else could write while this stays open, so not for long.
    std::thread::sleep(plan.open / 20);
    if plan.commits { transaction.commit() } else { transaction.rollback() }
}

fn take(transaction: &Transaction<'_>, outbox: &Outbox, step: &Step) -> rusqlite::Result<()> {
    for placing in &step.placings {
        let order = &placing.order;
        let version: i64 = match &order.key {
            Some(key) => transaction.query_row(NEXT_VERSION, params![key], |row| row.get(0))?,
            None => 0,
        };
        let id = order.id.to_string();
        transaction.prepare_cached(PLACE)?.execute(params![
            id,
            order.key,
            version,
            order.seed,
            order.length
        ])?;
    }
    let messages: Vec<Message> = step.placings.iter().filter_map(message).collect();
    match messages.as_slice() {
        [message] => outbox.send_blocking(transaction, message),
        several => outbox.send_all_blocking(transaction, several),
    }
}

/// A message that the library refuses would leave an order without one: a loss that shows.
fn message(placing: &Placing) -> Option<Message> {
    placing.message().ok()
}
