//! Sends in the caller's own transaction, with diesel-async 0.9.
//!
//! Diesel has no transaction type: inside a transaction its connection is the same one as outside.
//! So [`InTransaction`] asks the connection's transaction manager, and is refused outside.

use diesel::result::Error;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, TransactionManager};
use sendoff_core::Message;
use sendoff_core::outbox::Transaction;

use super::schema_name::{SchemaName, USUAL};
use super::send::parts;
use super::sql;
use super::within::Within;

/// diesel-async 0.9, as [`Transaction`]'s driver. Callers never write it.
#[derive(Debug)]
pub struct Diesel;

/// A connection of diesel-async's that is in a transaction, which can send.
///
/// ```no_run
/// use diesel_async::{AsyncConnection, AsyncPgConnection};
/// use sendoff_core::Outbox;
/// use sendoff_stores::postgres::send::InTransaction;
///
/// # async fn place(connection: &mut AsyncPgConnection) -> Result<(), Box<dyn std::error::Error>> {
/// let outbox = Outbox::new("shop");
/// let message = outbox.message("orders.placed").body("a tent").build()?;
/// connection
///     .transaction(async |connection| {
///         // ... the order's own rows ...
///         outbox.send(&mut InTransaction::of(connection)?, &message).await
///     })
///     .await?;
/// # Ok(()) }
/// ```
pub struct InTransaction<'a>(&'a mut AsyncPgConnection);

impl std::fmt::Debug for InTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InTransaction")
    }
}

impl<'a> InTransaction<'a> {
    /// Takes a connection that is in a transaction, or in a savepoint of one.
    ///
    /// # Errors
    /// [`Error::NotInTransaction`] outside a transaction, and [`Error::BrokenTransactionManager`]
    /// after a failed or cancelled one that left the connection in a state that nobody knows.
    pub fn of(connection: &'a mut AsyncPgConnection) -> Result<Self, Error> {
        let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
        match status.transaction_depth()? {
            Some(_) => Ok(Self(connection)),
            None => Err(Error::NotInTransaction),
        }
    }
}

impl Transaction<Diesel> for InTransaction<'_> {
    type Error = Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        insert_all(self.0, &USUAL, messages).await
    }

    /// Commits the innermost transaction that was begun on the connection. Within diesel's
    /// `transaction(..)` it is the closure's return that commits, and not this.
    async fn commit(self) -> Result<(), Self::Error> {
        AnsiTransactionManager::commit_transaction(self.0).await
    }
}

impl Transaction<Diesel> for Within<InTransaction<'_>> {
    type Error = Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        let (transaction, schema, _) = self.parts();
        insert_all(transaction.0, schema, messages).await
    }

    /// As of the transaction itself.
    async fn commit(self) -> Result<(), Self::Error> {
        self.into_inner().commit().await
    }
}

async fn insert_all(
    connection: &mut AsyncPgConnection,
    schema: &SchemaName,
    messages: &[Message],
) -> Result<(), Error> {
    for part in parts(messages) {
        match part {
            [message] => insert_one(connection, schema, message).await?,
            many => insert_many(connection, schema, many).await?,
        }
    }
    Ok(())
}

fn due_at(message: &Message) -> Option<i64> {
    message.due_at().map(|due_at| due_at.as_microsecond())
}

async fn insert_one(
    connection: &mut AsyncPgConnection,
    schema: &SchemaName,
    message: &Message,
) -> Result<(), Error> {
    sql_query(schema.sql(sql::INSERT_PLAIN))
        .bind::<Text, _>(message.id())
        .bind::<Text, _>(message.source())
        .bind::<Text, _>(message.topic())
        .bind::<Nullable<Text>, _>(message.key())
        .bind::<Text, _>(message.headers().to_json())
        .bind::<Binary, _>(message.body().as_ref())
        .bind::<Nullable<BigInt>, _>(due_at(message))
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert_many(
    connection: &mut AsyncPgConnection,
    schema: &SchemaName,
    messages: &[Message],
) -> Result<(), Error> {
    let column = |of: fn(&Message) -> &str| messages.iter().map(of).collect::<Vec<_>>();
    let keys: Vec<Option<&str>> = messages.iter().map(Message::key).collect();
    let headers: Vec<String> = messages.iter().map(|m| m.headers().to_json()).collect();
    let bodies: Vec<&[u8]> = messages.iter().map(|m| m.body().as_ref()).collect();
    let due_ats: Vec<Option<i64>> = messages.iter().map(due_at).collect();
    sql_query(schema.sql(sql::INSERT_MANY_PLAIN))
        .bind::<Array<Text>, _>(column(Message::id))
        .bind::<Array<Text>, _>(column(Message::source))
        .bind::<Array<Text>, _>(column(Message::topic))
        .bind::<Array<Nullable<Text>>, _>(keys)
        .bind::<Array<Text>, _>(headers)
        .bind::<Array<Binary>, _>(bodies)
        .bind::<Array<Nullable<BigInt>>, _>(due_ats)
        .execute(connection)
        .await?;
    Ok(())
}
