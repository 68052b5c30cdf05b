//! The command line of `sendoff send`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::StoreArguments;
use crate::configuration::Flags;

/// `sendoff send`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["body", "body_file", "lines"]))]
pub(crate) struct SendArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The topic
    #[arg(long)]
    pub(crate) topic: String,
    /// The key; messages of one key keep their order
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    pub(crate) headers: Vec<String>,
    /// The message's id, unique with its source [default: a new UUID]
    #[arg(long, conflicts_with = "lines")]
    pub(crate) id: Option<String>,
    /// Who sends
    #[arg(long)]
    source: Option<String>,
    /// Not before this time: RFC 3339 (2030-01-31T09:00:00Z) or from now (+5m)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// The body; - reads it from standard input
    pub(crate) body: Option<OsString>,
    /// Read the body from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
    /// Make one message of each line of standard input; the line feed is not part of it
    #[arg(long)]
    pub(crate) lines: bool,
    /// With --lines: how many messages are one transaction
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "lines",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) per_transaction: u32,
    /// The largest body that is sent
    #[arg(long, value_name = "SIZE")]
    body_bytes_max: Option<String>,
}

impl SendArguments {
    pub(super) fn flags(&self) -> Flags<'_> {
        let mut flags = self.store.flags();
        flags.push(("source", "--source", self.source.as_deref()));
        flags.push(("body_bytes_max", "--body-bytes-max", self.body_bytes_max.as_deref()));
        flags
    }
}
