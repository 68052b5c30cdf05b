//! The driver sqlx 0.9. The statements are ones that sqlx prepares and caches on the connection, as it
//! does with the caller's own.

use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierTransaction, Change, Changed, Created,
    Outcomes, Page, Plan, Status,
};
use serde::de::DeserializeOwned;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use super::{Asks, Call, Param, ack, change, create, read};
use crate::postgres::send_sqlx::{JsonText, Sqlx};

/// The caller's transaction.
struct Line<'a, 'c>(&'a mut sqlx::Transaction<'c, Postgres>);

impl Asks for Line<'_, '_> {
    type Error = sqlx::Error;

    async fn ask<T: DeserializeOwned + Send>(&mut self, call: Call<'_>) -> Result<T, Self::Error> {
        let query = call.params.into_iter().fold(sqlx::query(call.text), bind);
        let row = query.fetch_one(&mut **self.0).await?;
        let text: Option<String> = row.try_get(0)?;
        serde_json::from_str(text.as_deref().unwrap_or("null"))
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

impl BarrierTransaction<Sqlx> for sqlx::Transaction<'_, Postgres> {
    async fn create_barrier(&mut self, plan: &Plan) -> Result<Answer<Created>, Self::Error> {
        create::create(&mut Line(self), plan).await
    }

    async fn ack_members(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>, Self::Error> {
        ack::ack(&mut Line(self), batch).await
    }

    async fn change_barrier(
        &mut self,
        id: &BarrierId,
        change: &Change,
    ) -> Result<Answer<Changed>, Self::Error> {
        change::change(&mut Line(self), id, change).await
    }

    async fn barrier_status(&mut self, id: &BarrierId) -> Result<Option<Status>, Self::Error> {
        read::status(&mut Line(self), id).await
    }

    async fn barrier_outcomes(&mut self, page: &Page) -> Result<Option<Outcomes>, Self::Error> {
        read::outcomes(&mut Line(self), page).await
    }
}
