//! Sends: the caller's transaction types, named here and nowhere else.
//!
//! Only transaction types can send, so forgetting to open one does not compile. The caller begins and
//! ends the transaction; a rolled back savepoint takes its messages along.
//!
//! What a commit waits for, and how long it waits for the write lock, is set on the caller's own
//! connection: `PRAGMA synchronous` (FULL unless it was changed) and `busy_timeout`. Begin a
//! transaction that reads before it sends with `BEGIN IMMEDIATE`
//! ([`rusqlite::TransactionBehavior::Immediate`]): SQLite refuses with `SQLITE_BUSY_SNAPSHOT`, without
//! waiting, to let it write once somebody else has written since it read.

use rusqlite::{Connection, Savepoint, Transaction};
use sendoff_core::Message;
use sendoff_core::outbox::BlockingTransaction;

use super::sql;

/// Marks rusqlite in [`BlockingTransaction`]; callers do not write it.
#[derive(Debug, Clone, Copy)]
pub struct Rusqlite;

impl BlockingTransaction<Rusqlite> for Transaction<'_> {
    type Error = rusqlite::Error;

    fn append(&self, messages: &[Message]) -> Result<(), Self::Error> {
        insert_all(self, messages)
    }

    fn commit(self) -> Result<(), Self::Error> {
        Transaction::commit(self)
    }
}

impl BlockingTransaction<Rusqlite> for Savepoint<'_> {
    type Error = rusqlite::Error;

    fn append(&self, messages: &[Message]) -> Result<(), Self::Error> {
        insert_all(self, messages)
    }

    fn commit(self) -> Result<(), Self::Error> {
        Savepoint::commit(self)
    }
}

/// All or none: a caller that handles the error and commits must not commit a part.
fn insert_all(transaction: &Connection, messages: &[Message]) -> Result<(), rusqlite::Error> {
    if let [message] = messages {
        return insert(transaction, message);
    }
    transaction.execute_batch("SAVEPOINT sendoff_send")?;
    let done = messages.iter().try_for_each(|message| insert(transaction, message));
    match done {
        Ok(()) => transaction.execute_batch("RELEASE sendoff_send"),
        Err(error) => {
            // A full disk, for one, has rolled back the whole transaction already.
            if !transaction.is_autocommit() {
                transaction.execute_batch("ROLLBACK TO sendoff_send; RELEASE sendoff_send")?;
            }
            Err(error)
        }
    }
}

/// One message, one statement.
pub(super) fn insert(transaction: &Connection, message: &Message) -> Result<(), rusqlite::Error> {
    transaction.prepare_cached(sql::INSERT_SQL)?.execute((
        message.id(),
        message.source(),
        message.topic(),
        message.key(),
        message.headers().to_json(),
        message.body().as_ref(),
        message.due_at().map(|due_at| due_at.as_microsecond()),
    ))?;
    Ok(())
}

#[cfg(feature = "sqlx-0_9-sqlite")]
pub use with_sqlx::Sqlx09;

#[cfg(feature = "sqlx-0_9-sqlite")]
mod with_sqlx {
    use sendoff_core::Message;
    use sendoff_core::outbox::Transaction;
    use sqlx::{Acquire, Sqlite, SqliteConnection};

    use super::sql;

    /// Marks sqlx 0.9 in [`Transaction`]; callers do not write it.
    #[derive(Debug, Clone, Copy)]
    pub struct Sqlx09;

    impl Transaction<Sqlx09> for sqlx::Transaction<'_, Sqlite> {
        type Error = sqlx::Error;

        async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
            if let [message] = messages {
                return insert(self, message).await;
            }
            // All or none, also where the caller drops the future: a savepoint that is dropped is
            // rolled back.
            let mut savepoint = self.begin().await?;
            for message in messages {
                insert(&mut savepoint, message).await?;
            }
            savepoint.commit().await
        }

        async fn commit(self) -> Result<(), Self::Error> {
            sqlx::Transaction::commit(self).await
        }
    }

    async fn insert(
        connection: &mut SqliteConnection,
        message: &Message,
    ) -> Result<(), sqlx::Error> {
        sqlx::query(sql::INSERT_SQL)
            .bind(message.id())
            .bind(message.source())
            .bind(message.topic())
            .bind(message.key())
            .bind(message.headers().to_json())
            .bind(message.body().as_ref())
            .bind(message.due_at().map(|due_at| due_at.as_microsecond()))
            .execute(connection)
            .await?;
        Ok(())
    }
}
