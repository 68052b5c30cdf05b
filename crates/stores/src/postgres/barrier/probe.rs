//! Probes: a query of the user's, or a prefix of keys, that finds acknowledgements which were lost.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;

use sendoff_core::barrier::{
    Ack, AckBatch, AckedBatch, Answer, BarrierId, Json, KeyProbe, MEMBERS_MAX, MemberName, Outcome,
    Probe, Refusal, RefusalCode,
};
use sendoff_core::{Error, Result};
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Row, Transaction};

use super::ack;
use super::desk::Counter;
use crate::postgres::PostgresStore;
use crate::postgres::sql;

const DOING: &str = "running a barrier's probe";

/// Rows are read and acknowledged in parts of this size.
const PART: i32 = 1_000;
/// What is read in one run has at most about this many bytes.
const BYTES_MAX: usize = 64 << 20;

/// Runs a probe and acknowledges what it finds by the channel `probe`.
pub(super) async fn reconcile(
    store: &PostgresStore,
    id: &BarrierId,
    text: Option<&str>,
    timeout: Option<Duration>,
) -> Result<Answer<AckedBatch>> {
    let invalid = |detail: &str| Ok(Err(Refusal::new(RefusalCode::Invalid, detail)));
    match text.map(serde_json::from_str::<Probe>) {
        Some(Ok(Probe::Sql(query))) => {
            let found = store.desk.bounded(DOING, find(store, &query, timeout)).await?;
            let mut whole = take(store, id, Vec::new()).await?;
            for acks in found.chunks(usize::try_from(PART).unwrap_or(1)) {
                let Ok(whole) = &mut whole else { break };
                match take(store, id, acks.to_vec()).await? {
                    Ok(acked) => whole.join(acked),
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Ok(whole)
        }
        Some(Ok(Probe::Keys(prefix))) => {
            let source = store.keys.as_ref();
            KeyProbe::run(source, id, &prefix, timeout.is_some(), |acks| take(store, id, acks))
                .await
        }
        Some(Err(_)) => invalid("the barrier's probe does not decode"),
        None => invalid("the barrier has no probe"),
    }
}

async fn take(store: &PostgresStore, id: &BarrierId, acks: Vec<Ack>) -> Result<Answer<AckedBatch>> {
    let batch = AckBatch::new(id.clone(), acks).by("probe");
    ack::ack(&mut Counter { store, doing: DOING }, &batch).await
}

/// Runs the query, read-only, in a transaction that is rolled back. It is one statement, since the
/// extended protocol takes no more, so it cannot end the transaction and go on.
async fn find(store: &PostgresStore, query: &str, timeout: Option<Duration>) -> Result<Vec<Ack>> {
    let mut checkout = store.desk.checkout(DOING).await?;
    let result = match checkout.transaction().await {
        Ok(transaction) => read(&transaction, query, timeout).await,
        Err(error) => Err(Trouble::Driver(error)),
    };
    // The connection is not kept: the query may have changed its settings.
    result.map_err(|trouble| match trouble {
        Trouble::Driver(error) => checkout
            .failed(error)
            .advice("the query has to run with the rights of whoever runs it, and read only"),
        Trouble::Shape(detail) => Error::invalid(DOING, detail),
    })
}

enum Trouble {
    Driver(tokio_postgres::Error),
    Shape(String),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}

async fn read(
    transaction: &Transaction<'_>,
    query: &str,
    timeout: Option<Duration>,
) -> std::result::Result<Vec<Ack>, Trouble> {
    transaction.batch_execute(&sql::probe_session(timeout)).await?;
    // Without a name for the statement, which a pooler would not know again. What is not read is not
    // sent by the server either; it ends with the connection.
    let rows = transaction.query_typed_raw(query, std::iter::empty::<(i32, Type)>()).await?;
    let mut rows = pin!(rows);
    let mut acks = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.try_next().await? {
        let ack = read_row(&row)?;
        bytes += row.raw_size_bytes() + ack.member.as_bytes().len();
        acks.push(ack);
        if acks.len() >= MEMBERS_MAX || bytes >= BYTES_MAX {
            break;
        }
    }
    Ok(acks)
}

/// (member, ok, error, result): the first is needed.
fn read_row(row: &Row) -> std::result::Result<Ack, Trouble> {
    let member = match row.columns().first().map(|column| column.type_().clone()) {
        Some(Type::BYTEA) => row.try_get::<_, Option<Vec<u8>>>(0)?,
        Some(ty) if <String as FromSql<'_>>::accepts(&ty) => {
            row.try_get::<_, Option<String>>(0)?.map(String::into_bytes)
        }
        other => {
            let found = other.map_or_else(|| "missing".to_owned(), |ty| ty.to_string());
            return Err(Trouble::Shape(format!(
                "the query's first column, the member's name, has to be text or bytea and is {found}"
            )));
        }
    };
    let member = MemberName::new(member.unwrap_or_default())
        .map_err(|error| Trouble::Shape(error.to_string()))?;
    let well = if row.len() > 1 { row.try_get::<_, Option<bool>>(1)? } else { None };
    let mut outcome = if well == Some(false) { Outcome::failed() } else { Outcome::ok() };
    if row.len() > 2
        && let Some(error) = row.try_get::<_, Option<String>>(2)?
    {
        outcome = outcome.with_error(error);
    }
    if row.len() > 3
        && let Some(Text(text)) = row.try_get::<_, Option<Text>>(3)?
    {
        let result = Json::parse(text).map_err(|error| Trouble::Shape(error.to_string()))?;
        outcome = outcome.with_result(result);
    }
    Ok(Ack { member, outcome })
}

/// A value of json, jsonb or text, as JSON text.
struct Text(String);

impl<'a> FromSql<'a> for Text {
    fn from_sql(
        ty: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let text = match (ty == &Type::JSONB, raw.split_first()) {
            (true, Some((1, text))) => text,
            (true, _) => return Err("jsonb in a format that is not version 1".into()),
            (false, _) => raw,
        };
        Ok(Self(std::str::from_utf8(text)?.to_owned()))
    }

    fn accepts(ty: &Type) -> bool {
        [Type::JSON, Type::JSONB, Type::TEXT, Type::VARCHAR].contains(ty)
    }
}
