//! The drivers: how a call's parameters are bound and its answer is read.

use std::error::Error;

use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierTransaction, Change, Changed, Created,
    Outcomes, Page, Plan, Status,
};
use serde::de::DeserializeOwned;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSql, ToSql, Type};

use super::{Asks, Call, Param, ack, barrier_transaction, change, create, read};
use crate::postgres::schema_name::{SchemaName, USUAL};
use crate::postgres::send::TokioPostgres;
use crate::postgres::wire::Json;
use crate::postgres::within::Within;

/// A column of JSON text, read.
struct Said<T>(T);

impl<'a, T: DeserializeOwned> FromSql<'a> for Said<T> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(serde_json::from_slice(raw)?))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(serde_json::from_str("null")?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TEXT
    }
}

/// The parameters as tokio-postgres takes them.
pub(super) struct Bound<'a>(Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>);

impl<'a> Bound<'a> {
    pub(super) fn of(params: Vec<Param<'a>>) -> Self {
        Self(params.into_iter().map(bound).collect())
    }

    fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0.iter().map(|(value, ty)| (&**value as &(dyn ToSql + Sync), ty.clone())).collect()
    }
}

fn bound(param: Param<'_>) -> (Box<dyn ToSql + Sync + Send + '_>, Type) {
    match param {
        Param::Text(value) => (Box::new(value), Type::TEXT),
        Param::Bytes(value) => (Box::new(value), Type::BYTEA),
        Param::Flag(value) => (Box::new(value), Type::BOOL),
        Param::Int(value) => (Box::new(value), Type::INT4),
        Param::Long(value) => (Box::new(value), Type::INT8),
        Param::Json(value) => (Box::new(Json(value)), Type::JSONB),
        Param::Texts(value) => (Box::new(value), Type::TEXT_ARRAY),
        Param::Names(value) => (Box::new(value), Type::BYTEA_ARRAY),
        Param::Flags(value) => (Box::new(value), Type::BOOL_ARRAY),
        Param::Ints(value) => (Box::new(value), Type::INT4_ARRAY),
    }
}

/// A connection: the caller's, in a transaction, or one on which every call is a transaction.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) client: &'a Client,
    pub(super) schema: &'a SchemaName,
}

impl Line<'_> {
    pub(super) async fn ask_bound<T: DeserializeOwned>(
        &self,
        text: &'static str,
        bound: &Bound<'_>,
    ) -> Result<T, tokio_postgres::Error> {
        let text = self.schema.sql(text);
        let row = self.client.query_typed_one(&text, &bound.typed()).await?;
        row.try_get::<_, Said<T>>(0).map(|Said(answer)| answer)
    }
}

impl Asks for Line<'_> {
    type Error = tokio_postgres::Error;

    async fn ask<T: DeserializeOwned + Send>(&mut self, call: Call<'_>) -> Result<T, Self::Error> {
        self.ask_bound(call.text, &Bound::of(call.params)).await
    }
}

barrier_transaction!(
    TokioPostgres,
    tokio_postgres::Transaction<'_>,
    |transaction, schema, _named| Line { client: transaction.client(), schema }
);
