//! The shop's writer: one thread with one connection, one transaction for each order.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};
use sendoff::{Error, ErrorKind, Outbox, Result, Wake};
use tokio::sync::{mpsc, oneshot};

use super::batch::{Batch, Document, NewBatch};
use super::order::{NewOrder, Order};
use super::{SOURCE, batch, sql};
use crate::callback::Signer;

/// How long a transaction waits for another process's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How many orders may wait for the writer.
const QUEUE_MAX: usize = 1_024;

/// How an order's transaction ended.
#[derive(Debug)]
pub(crate) enum Close {
    /// It committed: the order is there and its message will arrive.
    Committed(Order),
    /// It rolled back, on purpose, after the message was written: neither is there.
    RolledBack(Order),
}

enum Request {
    Place(NewOrder, oneshot::Sender<Result<Close>>),
    Send(NewBatch, Signer, oneshot::Sender<Result<Batch>>),
    Keep(Document, oneshot::Sender<Result<()>>),
    Find(String, oneshot::Sender<Result<Option<Order>>>),
    Count(oneshot::Sender<Result<u64>>),
}

/// A handle on the writer. The thread ends with the last clone, after what was asked before.
#[derive(Debug, Clone)]
pub(crate) struct Shop(mpsc::Sender<Request>);

impl Shop {
    /// Opens the shop's database, makes its table and starts its thread. `wake` is woken after each
    /// commit.
    ///
    /// # Errors
    /// The database cannot be opened or the thread not be started.
    pub(crate) fn open(path: &Path, wake: Wake) -> Result<(Self, JoinHandle<()>)> {
        let connection = connect(path)?;
        connection
            .execute_batch(sql::CREATE_ORDERS)
            .and_then(|()| connection.execute_batch(sql::CREATE_BATCHES))
            .map_err(|error| failed("making the shop's tables", error))?;
        let (ask, asked) = mpsc::channel(QUEUE_MAX);
        let mut writer = Writer { connection, outbox: Outbox::new(SOURCE), wake };
        let thread = std::thread::Builder::new()
            .name("shop".to_owned())
            .spawn(move || writer.run(asked))
            .map_err(|error| {
                Error::new(ErrorKind::Unexpected, "starting the shop's thread").caused_by(error)
            })?;
        Ok((Self(ask), thread))
    }

    /// Records an order and its message in one transaction, and commits it, or rolls it back where
    /// the order says so.
    ///
    /// # Errors
    /// An order that is not acceptable, and those of the database; then nothing is recorded.
    pub(crate) async fn place(&self, order: NewOrder) -> Result<Close> {
        self.ask(|answer| Request::Place(order, answer)).await
    }

    /// Sends a batch of documents and begins to wait for the answers, in one transaction.
    ///
    /// # Errors
    /// A batch that is not acceptable, and those of the database; then nothing is sent.
    pub(crate) async fn send_batch(&self, batch: NewBatch, signer: Signer) -> Result<Batch> {
        self.ask(|answer| Request::Send(batch, signer, answer)).await
    }

    /// Keeps an answer of the partner's that never leaves.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn keep_answer(&self, document: Document) -> Result<()> {
        self.ask(|answer| Request::Keep(document, answer)).await
    }

    /// The order with this id.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn find(&self, id: String) -> Result<Option<Order>> {
        self.ask(|answer| Request::Find(id, answer)).await
    }

    /// How many orders have committed since the folder was made.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn count(&self) -> Result<u64> {
        self.ask(Request::Count).await
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request,
    ) -> Result<T> {
        let gone = || Error::new(ErrorKind::Unexpected, "asking the shop").detail("it has closed");
        let (answer, answered) = oneshot::channel();
        self.0.send(request(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

struct Writer {
    connection: Connection,
    outbox: Outbox,
    wake: Wake,
}

impl Writer {
    fn run(&mut self, mut asked: mpsc::Receiver<Request>) {
        while let Some(request) = asked.blocking_recv() {
            // Whoever asked may have gone: then nobody needs the answer.
            match request {
                Request::Place(order, answer) => drop(answer.send(self.place(order))),
                Request::Send(batch, signer, answer) => {
                    drop(answer.send(self.send_batch(batch, &signer)));
                }
                Request::Keep(document, answer) => drop(answer.send(self.keep(&document))),
                Request::Find(id, answer) => drop(answer.send(self.find(&id))),
                Request::Count(answer) => drop(answer.send(self.count())),
            }
        }
    }

    /// The heart of the matter: the order's row and its message are one commit.
    fn place(&mut self, order: NewOrder) -> Result<Close> {
        const DOING: &str = "recording an order";
        let failed = |error| failed(DOING, error);
        let order = order.complete()?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let mut placed = Order {
            number: 0,
            id: sendoff::Message::builder(SOURCE, super::TOPIC).build()?.id().to_owned(),
            customer: order.customer.unwrap_or_default(),
            item: order.item.unwrap_or_default(),
            quantity: order.quantity.unwrap_or_default(),
        };
        placed.number = transaction
            .prepare_cached(sql::INSERT_ORDER)
            .and_then(|mut insert| {
                insert.query_row(
                    (&placed.id, &placed.customer, &placed.item, placed.quantity),
                    |row| row.get(0),
                )
            })
            .map_err(failed)?;
        let message = placed.message(&self.outbox)?;
        self.outbox.send_blocking(&transaction, &message).map_err(failed)?;
        if order.reject {
            transaction.rollback().map_err(failed)?;
            return Ok(Close::RolledBack(placed));
        }
        self.wake.commit_blocking(transaction).map_err(failed)?;
        Ok(Close::Committed(placed))
    }

    fn send_batch(&mut self, asked: NewBatch, signer: &Signer) -> Result<Batch> {
        let failed = |error| failed("sending a batch", error);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let batch = batch::send(&transaction, signer, asked)?;
        self.wake.commit_blocking(transaction).map_err(failed)?;
        Ok(batch)
    }

    fn keep(&self, document: &Document) -> Result<()> {
        self.connection
            .execute(sql::KEEP_ANSWER, (&document.batch, &document.document))
            .map(drop)
            .map_err(|error| failed("keeping an answer", error))
    }

    fn find(&self, id: &str) -> Result<Option<Order>> {
        self.connection
            .prepare_cached(sql::FIND_ORDER)
            .and_then(|mut find| find.query_row([id], read_order).optional())
            .map_err(|error| failed("looking for an order", error))
    }

    fn count(&self) -> Result<u64> {
        self.connection
            .query_row(sql::COUNT_ORDERS, [], |row| row.get::<_, i64>(0))
            .map(|count| u64::try_from(count).unwrap_or(0))
            .map_err(|error| failed("counting the orders", error))
    }
}

/// Reads an order from number, id, customer, item and quantity.
pub(super) fn read_order(row: &Row<'_>) -> rusqlite::Result<Order> {
    Ok(Order {
        number: row.get(0)?,
        id: row.get(1)?,
        customer: row.get(2)?,
        item: row.get(3)?,
        quantity: row.get(4)?,
    })
}

/// A connection that commits durably: every commit waits for the disk.
fn connect(path: &Path) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    };
    open().map_err(|error| failed("opening the shop's database", error))
}

/// A driver's error, with the kinds that a user can do something about.
pub(super) fn failed(doing: &'static str, error: rusqlite::Error) -> Error {
    let kind = sendoff::sqlite::kind_of(&error);
    Error::new(kind, doing).caused_by(error)
}
