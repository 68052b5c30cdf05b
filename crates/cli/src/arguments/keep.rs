//! The command lines of `sendoff retention`, `resend`, `tail` and `doctor`.

use clap::{ArgGroup, Args};

use super::StoreArguments;
use crate::configuration::Flags;

/// `sendoff retention`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["keep", "delete_behind"]))]
pub(crate) struct RetentionArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Keep published messages for this long, so that they can be sent again
    #[arg(long, value_name = "DURATION")]
    pub(crate) keep: Option<String>,
    /// Delete messages once they are published; what is kept by now stays until its time is over
    #[arg(long)]
    pub(crate) delete_behind: bool,
}

/// `sendoff resend`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("range").required(true).multiple(true).args(["from", "id", "after"]))]
#[command(group = ArgGroup::new("consent").required(true).args(["yes", "dry_run"]))]
pub(crate) struct ResendArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// First published at or after this time: 2030-01-31T09:00:00Z, or 2h for two hours ago
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// First published before this time [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// With a topic of this pattern: orders.placed, orders.*, orders.>
    #[arg(long, value_name = "PATTERN")]
    pub(crate) topic: Option<String>,
    /// With this key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// With this id
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// At most this many messages
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Go on behind this mark, which an earlier run has printed
    #[arg(long, value_name = "MARK")]
    pub(crate) after: Option<String>,
    /// Only count
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Send them: consumers get these messages again
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `sendoff tail`.
#[derive(Debug, Args)]
pub(crate) struct TailArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Go on with what is sent from now on and what becomes of it, until SIGINT
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// At most this many messages, the newest ones
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) lines: u32,
    /// Only topics of this pattern: orders.placed, orders.*, orders.>
    #[arg(long, value_name = "PATTERN")]
    pub(crate) topic: Option<String>,
    /// Show the first 256 bytes of bodies too
    #[arg(long)]
    pub(crate) bodies: bool,
}

/// `sendoff doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The target to examine too, as for `relay`
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// From this age on a transaction that is still open is told
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) old_transaction: String,
    /// From this age on the oldest due message is told
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(crate) oldest_due: String,
}

impl DoctorArguments {
    pub(super) fn flags(&self) -> Flags<'_> {
        let mut flags = self.store.flags();
        flags.push(("to", "--to", self.to.as_deref()));
        flags
    }
}
