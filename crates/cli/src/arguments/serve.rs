//! The command line of `sendoff serve`.

use clap::Args;

use super::StoreArguments;
use crate::configuration::Flags;

/// `sendoff serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Where to listen; put a proxy that does TLS before anything but the loopback interface
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The most connections at once; further ones wait
    #[arg(long, value_name = "N")]
    connections: Option<String>,
    /// How long one request may take
    #[arg(long, value_name = "DURATION")]
    request_timeout: Option<String>,
}

impl ServeArguments {
    pub(super) fn flags(&self) -> Flags<'_> {
        let mut flags = self.store.flags();
        flags.extend([
            ("serve.listen", "--listen", self.listen.as_deref()),
            ("serve.connections", "--connections", self.connections.as_deref()),
            ("serve.request_timeout", "--request-timeout", self.request_timeout.as_deref()),
        ]);
        flags
    }
}
