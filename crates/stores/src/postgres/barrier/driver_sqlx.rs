//! The driver sqlx 0.9. The statements are ones that sqlx prepares and caches on the connection, as it
//! does with the caller's own, unless the transaction says otherwise.

use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierTransaction, Change, Changed, Created,
    Outcomes, Page, Plan, Status,
};
use serde::de::DeserializeOwned;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use super::{Asks, Call, Param, ack, barrier_transaction, change, create, read};
use crate::postgres::schema_name::{SchemaName, USUAL};
use crate::postgres::send_sqlx::{JsonText, Sqlx, text};
use crate::postgres::within::Within;

/// The caller's transaction.
struct Line<'a, 'c> {
    transaction: &'a mut sqlx::Transaction<'c, Postgres>,
    schema: &'a SchemaName,
    named: bool,
}

impl Asks for Line<'_, '_> {
    type Error = sqlx::Error;

    async fn ask<T: DeserializeOwned + Send>(&mut self, call: Call<'_>) -> Result<T, Self::Error> {
        let query = sqlx::query(text(self.schema, call.text));
        let query = call.params.into_iter().fold(query, bind);
        let row = query.persistent(self.named).fetch_one(&mut **self.transaction).await?;
        let said: Option<String> = row.try_get(0)?;
        serde_json::from_str(said.as_deref().unwrap_or("null"))
            .map_err(|error| sqlx::Error::Decode(error.into()))
    }
}

fn bind<'a>(
    query: Query<'a, Postgres, PgArguments>,
    param: Param<'a>,
) -> Query<'a, Postgres, PgArguments> {
    match param {
        Param::Text(value) => query.bind(value),
        Param::Bytes(value) => query.bind(value),
        Param::Flag(value) => query.bind(value),
        Param::Int(value) => query.bind(value),
        Param::Long(value) => query.bind(value),
        Param::Json(value) => query.bind(JsonText(value)),
        Param::Texts(value) => query.bind(value),
        Param::Names(value) => query.bind(value),
        Param::Flags(value) => query.bind(value),
        Param::Ints(value) => query.bind(value),
    }
}

barrier_transaction!(Sqlx, sqlx::Transaction<'_, Postgres>, |transaction, schema, named| Line {
    transaction,
    schema,
    named,
});
