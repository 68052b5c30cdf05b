//! The command line of `sendoff relay`.

use clap::Args;

use super::StoreArguments;
use crate::configuration::Flags;

/// `sendoff relay`.
#[derive(Debug, Args)]
pub(crate) struct RelayArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Where to: nats://host:4222/STREAM, tls://host:4222/STREAM, https://host/path, file:out.jsonl,
    /// stdout:
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Publish until nothing due is pending, then exit
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: give up after this long
    #[arg(long, value_name = "DURATION", requires = "once")]
    pub(crate) max_wait: Option<String>,
    /// How rows are shared out: `lanes`, or `row-locks` (each batch is published while it is locked)
    #[arg(long, value_name = "lanes|row-locks")]
    mode: Option<String>,
    /// With --mode row-locks: the most messages that are claimed at once
    #[arg(long, value_name = "N")]
    batch: Option<String>,
    /// How long a lease lasts without a renewal: how long others wait after this relay's death
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
    /// How long one publish may take; shorter than the lease
    #[arg(long, value_name = "DURATION")]
    publish_timeout: Option<String>,
    /// The longest time between two looks at the store
    #[arg(long, value_name = "DURATION")]
    poll: Option<String>,
    /// The most publishes in flight
    #[arg(long, value_name = "N")]
    in_flight: Option<String>,
    /// The most messages in memory
    #[arg(long, value_name = "N")]
    window_rows: Option<String>,
    /// The most bytes of messages in memory
    #[arg(long, value_name = "SIZE")]
    window_bytes: Option<String>,
    /// The most verdicts in one settlement
    #[arg(long, value_name = "N")]
    settle_rows: Option<String>,
    /// The wait after a first failure; it doubles with each further one
    #[arg(long, value_name = "DURATION")]
    backoff_first: Option<String>,
    /// The longest wait after a failure
    #[arg(long, value_name = "DURATION")]
    backoff_max: Option<String>,
    /// Quarantine a message after this many failed attempts of its own, or never
    #[arg(long, value_name = "N|never")]
    attempts_max: Option<String>,
    /// What a failed message holds back: its key's later messages, all later messages (one at a time,
    /// one relay), or none
    #[arg(long, value_name = "key|all|none")]
    hold: Option<String>,
    /// How long the relay goes on claiming after a stop, for what is committed meanwhile
    #[arg(long, value_name = "DURATION")]
    drain: Option<String>,
    /// When publishes that are still in flight after a stop are cancelled; longer than the drain
    #[arg(long, value_name = "DURATION")]
    cancel_after: Option<String>,
    /// Answer /health/live, /health/ready and /metrics here, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

impl RelayArguments {
    pub(super) fn flags(&self) -> Flags<'_> {
        let mut flags = self.store.flags();
        flags.extend([
            ("to", "--to", self.to.as_deref()),
            ("relay.mode", "--mode", self.mode.as_deref()),
            ("relay.batch", "--batch", self.batch.as_deref()),
            ("relay.lease", "--lease", self.lease.as_deref()),
            ("relay.publish_timeout", "--publish-timeout", self.publish_timeout.as_deref()),
            ("relay.poll", "--poll", self.poll.as_deref()),
            ("relay.in_flight", "--in-flight", self.in_flight.as_deref()),
            ("relay.window_rows", "--window-rows", self.window_rows.as_deref()),
            ("relay.window_bytes", "--window-bytes", self.window_bytes.as_deref()),
            ("relay.settle_rows", "--settle-rows", self.settle_rows.as_deref()),
            ("relay.backoff_first", "--backoff-first", self.backoff_first.as_deref()),
            ("relay.backoff_max", "--backoff-max", self.backoff_max.as_deref()),
            ("relay.attempts_max", "--attempts-max", self.attempts_max.as_deref()),
            ("relay.hold", "--hold", self.hold.as_deref()),
            ("relay.drain", "--drain", self.drain.as_deref()),
            ("relay.cancel_after", "--cancel-after", self.cancel_after.as_deref()),
            ("relay.listen", "--listen", self.listen.as_deref()),
        ]);
        flags
    }
}
