//! The command line of `sendoff roles`.

use clap::Args;
use sendoff::postgres::{Role, Roles};

use super::StoreArguments;
use crate::configuration::Flags;

/// `sendoff roles`.
#[derive(Debug, Args)]
pub(crate) struct RolesArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The role that sends
    #[arg(long, value_name = "NAME")]
    writer: Option<String>,
    /// The role that acknowledges members of barriers
    #[arg(long, value_name = "NAME")]
    acker: Option<String>,
    /// The role that creates and changes barriers
    #[arg(long, value_name = "NAME")]
    coordinator: Option<String>,
    /// The role that runs a relay
    #[arg(long, value_name = "NAME")]
    relay: Option<String>,
    /// The role that looks, requeues and discards
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Run the statements; without it they are printed, and no database is asked
    #[arg(long)]
    pub(crate) apply: bool,
    /// Print the statements [default]
    #[arg(long, conflicts_with = "apply")]
    pub(crate) print: bool,
}

impl RolesArguments {
    pub(super) fn flags(&self) -> Flags<'_> {
        self.store.flags()
    }

    /// The roles that are named, or all of them under their usual names.
    ///
    /// # Errors
    /// A name that cannot be one.
    pub(crate) fn roles(&self) -> sendoff::Result<Roles> {
        let named = [
            (Role::Writer, &self.writer),
            (Role::Acker, &self.acker),
            (Role::Coordinator, &self.coordinator),
            (Role::Relay, &self.relay),
            (Role::Operator, &self.operator),
        ];
        let named = named.into_iter().filter_map(|(role, name)| Some((role, name.as_deref()?)));
        let roles =
            named.into_iter().try_fold(Roles::none(), |all, (role, name)| all.with(role, name))?;
        if roles.is_empty() { Roles::usual() } else { Ok(roles) }
    }
}
