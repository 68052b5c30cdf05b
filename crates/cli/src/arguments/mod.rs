//! The command line, as clap reads it.
//!
//! What does not belong here: what a verb does, and the meaning of values that the configuration
//! knows too; those stay text until [`crate::configuration`] has looked at every source.

mod barrier;
mod keep;
mod pause;
mod quarantine;
mod relay;
mod roles;
mod send;
mod serve;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::configuration::Flags;
use crate::exit;

pub(crate) use barrier::{
    AckArguments, BarrierVerb, CreateArguments, GrowArguments, ListBarriersArguments,
    MemberArguments, MembersArguments, ReopenArguments, ResultsArguments, TokenArguments,
};
pub(crate) use keep::{DoctorArguments, ResendArguments, RetentionArguments, TailArguments};
pub(crate) use pause::{PauseArguments, ResumeArguments};
pub(crate) use quarantine::{MendArguments, QuarantineVerb};
pub(crate) use relay::RelayArguments;
pub(crate) use roles::RolesArguments;
pub(crate) use send::SendArguments;
pub(crate) use serve::ServeArguments;

/// What rolled back never left. What committed will arrive.
///
/// A message written in your own transaction leaves exactly when that transaction committed.
#[derive(Debug, Parser)]
#[command(name = "sendoff", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The configuration file [default: sendoff.toml, where it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer in JSON, one value a line; errors too, on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How logs are written to stderr: text or json
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What is logged: off, error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the whole job here: orders over HTTP, SQLite, a relay, a file. Needs no server
    Up(UpArguments),
    /// Compare what `up` committed with what arrived: lost, duplicates, order
    Verify(VerifyArguments),
    /// Bring a store's schema up to this program's version; makes a SQLite file that is not there
    Migrate(StoreArguments),
    /// Print or run the grants of database roles that send, acknowledge, relay and operate; PostgreSQL
    Roles(RolesArguments),
    /// Send messages in transactions of their own
    Send(SendArguments),
    /// Publish what is committed, until SIGTERM or SIGINT; with --once, drain and exit
    Relay(Box<RelayArguments>),
    /// Count what is pending, held, quarantined and published
    Status(StatusArguments),
    /// Say where one message is, and why
    Show(ShowArguments),
    /// Show what was sent lately and what becomes of it
    Tail(TailArguments),
    /// Keep published messages for a time, or delete them; without a flag, say which
    Retention(RetentionArguments),
    /// Send kept messages again, with the ids that they had
    Resend(Box<ResendArguments>),
    /// Examine the store and the target: what is not as it should be, and what to do
    Doctor(DoctorArguments),
    /// Look at and mend messages that cannot be published
    Quarantine {
        #[command(subcommand)]
        verb: QuarantineVerb,
    },
    /// Keep messages from leaving, by topic, key or target, until `resume`
    Pause(PauseArguments),
    /// End a pause: its messages leave, in order
    Resume(ResumeArguments),
    /// List what is paused, and how many messages wait
    Pauses(StoreArguments),
    /// Wait for a known set of acknowledgements, then go on
    Barrier {
        #[command(subcommand)]
        verb: BarrierVerb,
    },
    /// Answer HTTP for a store's barriers, until SIGTERM or SIGINT
    Serve(ServeArguments),
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Print a shell's completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// The store's URL: sqlite:shop.db, sqlite:/data/shop.db, postgres://user@host/database
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The schema that the outbox lives in, on PostgreSQL [default: sendoff]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
}

/// `sendoff up`.
#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// The folder that keeps the shop's database and the delivered messages
    #[arg(long, value_name = "FOLDER", default_value = crate::shop::FOLDER_DEFAULT)]
    pub(crate) data: PathBuf,
    /// The HTTP port on 127.0.0.1; where it is busy, the next free one; 0 for any
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// Orders a second of its own; 0 for only those that you send
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) rate: u32,
}

/// `sendoff verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The folder that `sendoff up` writes
    #[arg(long, value_name = "FOLDER", default_value = crate::shop::FOLDER_DEFAULT)]
    pub(crate) data: PathBuf,
}

/// `sendoff status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Answer again and again, this long after each answer, until SIGINT
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "1s")]
    pub(crate) watch: Option<String>,
}

/// `sendoff show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// The message's id
    pub(crate) id: String,
    /// Its source, where several sources use the id
    #[arg(long)]
    pub(crate) source: Option<String>,
}

/// `sendoff config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print every setting with its value and where it came from; passwords are masked
    Show(StoreArguments),
}

impl StoreArguments {
    fn flags(&self) -> Flags<'_> {
        vec![
            ("store", "--store", self.store.as_deref()),
            ("postgres.schema", "--schema", self.schema.as_deref()),
        ]
    }
}

impl Arguments {
    /// What the flags say about settings.
    pub(crate) fn flags(&self) -> Flags<'_> {
        let mut flags = match &self.verb {
            Verb::Migrate(store) => store.flags(),
            Verb::Roles(roles) => roles.flags(),
            Verb::Send(send) => send.flags(),
            Verb::Relay(relay) => relay.flags(),
            Verb::Status(status) => status.store.flags(),
            Verb::Show(show) => show.store.flags(),
            Verb::Tail(tail) => tail.store.flags(),
            Verb::Retention(retention) => retention.store.flags(),
            Verb::Resend(resend) => resend.store.flags(),
            Verb::Doctor(doctor) => doctor.flags(),
            Verb::Quarantine { verb } => verb.flags(),
            Verb::Pause(pause) => pause.flags(),
            Verb::Resume(resume) => resume.flags(),
            Verb::Pauses(store) => store.flags(),
            Verb::Barrier { verb } => verb.flags(),
            Verb::Serve(serve) => serve.flags(),
            Verb::Config { verb: ConfigVerb::Show(store) } => store.flags(),
            Verb::Up(_) | Verb::Verify(_) | Verb::Completions { .. } => Vec::new(),
        };
        flags.push(("log.format", "--log-format", self.global.log_format.as_deref()));
        flags.push(("log.level", "--log-level", self.global.log_level.as_deref()));
        flags
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_exit_code_of_the_help_is_in_the_reference() {
        let reference = include_str!("../../../../docs/reference/cli.md");
        for line in exit::HELP.lines().skip(1) {
            let code = line.split_whitespace().next().unwrap().trim_end_matches(',');
            assert!(reference.contains(&format!("| {code}")), "{line}");
        }
    }
}
