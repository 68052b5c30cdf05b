//! The command lines of `sendoff pause`, `resume` and `pauses`.

use clap::{ArgGroup, Args};

use super::StoreArguments;
use crate::configuration::Flags;

/// `sendoff pause`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("scope").required(true).args(["topic", "key", "target"]))]
pub(crate) struct PauseArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Messages of these topics: orders.placed, orders.*, orders.>
    #[arg(long, value_name = "PATTERN")]
    pub(crate) topic: Option<String>,
    /// Messages of this key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Messages that a route gives to this target; `default` is the one of --to
    #[arg(long, value_name = "NAME")]
    pub(crate) target: Option<String>,
    /// Why, for whoever looks at it later
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
}

/// `sendoff resume`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("scope").required(true).args(["topic", "key", "target", "all"]))]
pub(crate) struct ResumeArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The pattern that was paused
    #[arg(long, value_name = "PATTERN")]
    pub(crate) topic: Option<String>,
    /// The key that was paused
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The target that was paused
    #[arg(long, value_name = "NAME")]
    pub(crate) target: Option<String>,
    /// Every pause
    #[arg(long)]
    pub(crate) all: bool,
}

impl PauseArguments {
    pub(super) fn flags(&self) -> Flags<'_> {
        self.store.flags()
    }
}

impl ResumeArguments {
    pub(super) fn flags(&self) -> Flags<'_> {
        self.store.flags()
    }
}
