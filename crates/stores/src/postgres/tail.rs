//! What was sent lately.

use async_trait::async_trait;
use bytes::Bytes;
use sendoff_core::Result;
use sendoff_core::store::{Standing, TailDesk};

use super::desk::standing;
use super::sql;
use super::store::PostgresStore;

#[async_trait]
impl TailDesk for PostgresStore {
    async fn recent(&self, rows_max: u32) -> Result<Vec<Standing>> {
        let rows_max = i64::from(rows_max);
        let rows = self.read("reading what was sent lately", sql::RECENT, &[&rows_max]).await?;
        Ok(rows.iter().map(standing).collect())
    }

    async fn bodies(&self, seqs: &[i64], bytes_max: u32) -> Result<Vec<(i64, Bytes)>> {
        let bytes_max = i32::try_from(bytes_max).unwrap_or(i32::MAX);
        let rows = self.read("reading bodies", sql::BODIES, &[&seqs, &bytes_max]).await?;
        let body = |row: &tokio_postgres::Row| {
            (row.get(0), Bytes::copy_from_slice(row.get::<_, &[u8]>(1)))
        };
        Ok(rows.iter().map(body).collect())
    }
}
