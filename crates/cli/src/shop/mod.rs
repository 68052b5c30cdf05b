//! The example shop of `sendoff up` and `sendoff verify`: a data folder, a table of orders, and a
//! thread that records an order and its message in one transaction.
//!
//! What does not belong here: HTTP, the relay, figures, verdicts.

mod batch;
mod order;
mod sql;
mod truth;
mod writer;

use std::path::{Path, PathBuf};

use sendoff::{Error, ErrorKind, Result};

pub(crate) use batch::{Batch, CALLBACK, DONE, Document, Fate, NewBatch, SENT, name, number};
pub(crate) use order::{NewOrder, Order};
pub(crate) use truth::{BatchState, InOutbox, Truth};
pub(crate) use writer::{Close, Shop};

/// The data folder where `--data` names no other.
pub(crate) const FOLDER_DEFAULT: &str = "sendoff-data";
/// The source of every message of the shop.
pub(crate) const SOURCE: &str = "shop";
/// The topic of every message of the shop.
pub(crate) const TOPIC: &str = "orders.placed";

/// The folder that keeps a shop: its database and what was delivered.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    /// Makes the folder where it is not there. The path is made absolute, so that it can be shown.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn make(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).and_then(|()| path.canonicalize()).map(Self).map_err(
            |error| {
                Error::new(ErrorKind::Invalid, "making the data folder")
                    .subject(path.display().to_string())
                    .caused_by(error)
                    .advice("name a folder that can be written with --data")
            },
        )
    }

    /// The folder that `sendoff up` has written.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn existing(path: &Path) -> Result<Self> {
        let folder = Self(path.to_path_buf());
        if folder.database().is_file() {
            return Ok(folder);
        }
        Err(Error::new(ErrorKind::NotFound, "looking for the data folder")
            .subject(path.display().to_string())
            .detail("there is no shop.db in it")
            .advice("run `sendoff up` first, or name its folder with --data"))
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The shop's database: orders and outbox.
    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("shop.db")
    }

    /// The bearer token of its barriers' routes.
    pub(crate) fn api_token(&self) -> PathBuf {
        self.0.join("api-token")
    }

    /// The secret that signs callback tokens.
    pub(crate) fn callback_secret(&self) -> PathBuf {
        self.0.join("callback-secret")
    }

    /// How far the simulated partner has read what was delivered.
    pub(crate) fn partner_position(&self) -> PathBuf {
        self.0.join("partner-position")
    }

    /// Where the relay delivers to.
    pub(crate) fn delivered(&self) -> PathBuf {
        self.0.join("delivered.jsonl")
    }
}
