//! The command line of `sendoff quarantine`.

use clap::{ArgGroup, Args, Subcommand};

use super::{ShowArguments, StoreArguments};
use crate::configuration::Flags;

/// `sendoff quarantine`.
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineVerb {
    /// List messages in quarantine, oldest first
    List(ListArguments),
    /// Show a message in quarantine: headers, reason, error, what it holds back. Never its body
    Show(ShowArguments),
    /// Send messages back to be published; their keys stay in order, attempts start anew
    Requeue(MendArguments),
    /// Delete messages and let go what was held behind them. There is no way back
    Discard(MendArguments),
}

/// `sendoff quarantine list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Only messages after this position
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: i64,
    /// At most this many messages
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

/// `sendoff quarantine requeue` and `discard`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "all", "reason"]))]
pub(crate) struct MendArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The message's id
    pub(crate) id: Option<String>,
    /// Its source, where several sources use the id
    #[arg(long, requires = "id")]
    pub(crate) source: Option<String>,
    /// Every message in quarantine
    #[arg(long)]
    pub(crate) all: bool,
    /// Every message that is there for this reason: undecodable, permanent, too_large,
    /// attempts or no_route
    #[arg(long, value_name = "REASON")]
    pub(crate) reason: Option<String>,
}

impl QuarantineVerb {
    pub(super) fn flags(&self) -> Flags<'_> {
        match self {
            Self::List(list) => list.store.flags(),
            Self::Show(show) => show.store.flags(),
            Self::Requeue(mend) | Self::Discard(mend) => mend.store.flags(),
        }
    }
}
