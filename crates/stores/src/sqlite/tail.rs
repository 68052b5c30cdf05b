//! What was sent lately.
//!
//! What does not belong here: how it is shown.

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::OptionalExtension;
use sendoff_core::Result;
use sendoff_core::store::{Standing, TailDesk};

use super::desk::standing;
use super::sql;
use super::store::SqliteStore;
use super::worker::Session;

#[async_trait]
impl TailDesk for SqliteStore {
    async fn recent(&self, rows_max: u32) -> Result<Vec<Standing>> {
        self.desk
            .run("reading what was sent lately", move |session| {
                session.read(|tx| {
                    let now = Session::now(tx)?;
                    let mut recent = tx.prepare_cached(sql::RECENT)?;
                    let recent = recent
                        .query_map((rows_max, now), |row| {
                            let seq: Option<i64> = row.get(17)?;
                            Ok(Standing { seq, ..standing(row, now)? })
                        })?
                        .collect::<rusqlite::Result<_>>()?;
                    Ok(recent)
                })
            })
            .await
    }

    async fn bodies(&self, seqs: &[i64], bytes_max: u32) -> Result<Vec<(i64, Bytes)>> {
        let seqs = seqs.to_vec();
        self.desk
            .run("reading bodies", move |session| {
                session.read(|tx| {
                    let mut bodies = Vec::new();
                    let mut body = tx.prepare_cached(sql::BODY)?;
                    for seq in seqs {
                        let bytes: Option<Vec<u8>> =
                            body.query_row((seq, bytes_max), |row| row.get(0)).optional()?;
                        bodies.extend(bytes.map(|bytes| (seq, Bytes::from(bytes))));
                    }
                    Ok(bodies)
                })
            })
            .await
    }
}
