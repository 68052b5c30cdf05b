//! What the two contenders that are not ours share: a row as they read it.
//!
//! They read the same columns, decode as much and publish the same bytes as the product does, so
//! that only the way of claiming and settling differs.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio_postgres::Row;

use crate::failure::{Doing, Result};

/// The columns that a peer reads, in the order of [`PeerRow::decode`].
pub(crate) const COLUMNS: &str = "seq, id, source, topic, key, headers::text, body";

/// A message as a peer reads it.
#[derive(Debug)]
pub(crate) struct PeerRow {
    /// Its position.
    pub(crate) seq: i64,
    /// Its id.
    pub(crate) id: String,
    /// Who sent it.
    pub(crate) source: String,
    /// Where to.
    pub(crate) topic: String,
    /// Its key.
    pub(crate) key: Option<String>,
    /// Its headers.
    pub(crate) headers: BTreeMap<String, String>,
    /// Its body.
    pub(crate) body: Bytes,
}

impl PeerRow {
    /// Decodes a row of [`COLUMNS`].
    ///
    /// # Errors
    /// A column of another type.
    pub(crate) fn decode(row: &Row) -> Result<Self> {
        const DOING: &str = "decoding a row";
        let headers: &str = row.try_get(5).doing(DOING)?;
        Ok(Self {
            seq: row.try_get(0).doing(DOING)?,
            id: row.try_get(1).doing(DOING)?,
            source: row.try_get(2).doing(DOING)?,
            topic: row.try_get(3).doing(DOING)?,
            key: row.try_get(4).doing(DOING)?,
            headers: match headers {
                "{}" => BTreeMap::new(),
                json => serde_json::from_str(json).doing(DOING)?,
            },
            body: Bytes::from(row.try_get::<_, Vec<u8>>(6).doing(DOING)?),
        })
    }
}
