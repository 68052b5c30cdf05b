//! The command line of `sendoff barrier`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::StoreArguments;
use crate::configuration::Flags;

/// `sendoff barrier`.
#[derive(Debug, Subcommand)]
pub(crate) enum BarrierVerb {
    /// Create a barrier from a list of members; the same id again changes nothing
    Create(Box<CreateArguments>),
    /// Acknowledge one member, or with --lines many; the first acknowledgement of a member counts
    Ack(AckArguments),
    /// Say how a barrier stands
    Status(BarrierArguments),
    /// List members with their outcomes, in the order of their names
    Results(ResultsArguments),
    /// Say what a barrier waits for: missing names, rate, estimated finish, refused near misses
    Why(BarrierArguments),
    /// End a barrier without a continuation; acknowledgements are refused from then on
    Cancel(BarrierArguments),
    /// Add members to a barrier that was created with --unsealed
    Grow(GrowArguments),
    /// Say that the list is complete; completes the barrier where nothing is pending
    Seal(BarrierArguments),
    /// Make failed and missing members pending again, under a new epoch
    Reopen(ReopenArguments),
    /// Give up a pending member that will never be acknowledged
    Exclude(MemberArguments),
    /// Ask the barrier's probe for lost acknowledgements, and acknowledge what it finds
    Reconcile(BarrierArguments),
    /// Make tokens with which partners acknowledge over HTTP without an account
    Token(TokenArguments),
    /// List barriers in the order of their ids
    List(ListBarriersArguments),
}

/// Which barrier.
#[derive(Debug, Args)]
pub(crate) struct BarrierArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
}

/// Which member.
#[derive(Debug, Args)]
pub(crate) struct MemberArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
    /// The member's name, byte for byte
    pub(crate) member: OsString,
}

/// A list of members.
#[derive(Debug, Args)]
pub(crate) struct MembersArguments {
    /// A file with one name a line, the bytes as they are; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) members_file: Option<PathBuf>,
    /// A file with a JSON list of names, or an object of groups with a list each; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) members_json: Option<PathBuf>,
}

/// `sendoff barrier create`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("list").required(true).args(["members_file", "members_json"]))]
pub(crate) struct CreateArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) members: MembersArguments,
    /// The topic of the continuation; without it the barrier is a plain work list
    #[arg(long, value_name = "TOPIC")]
    pub(crate) continue_with: Option<String>,
    /// How long until its deadline; alone it only marks the barrier overdue
    #[arg(long, value_name = "DURATION")]
    pub(crate) deadline: Option<String>,
    /// What happens at the deadline: mark it overdue, or continue without what is missing
    #[arg(long, value_name = "ACT", requires = "deadline", value_parser = ["mark", "continue"])]
    pub(crate) on_deadline: Option<String>,
    /// JSON that is handed to the continuation
    #[arg(long, value_name = "JSON")]
    pub(crate) state: Option<String>,
    /// Complete when so many members are resolved
    #[arg(long, value_name = "N", conflicts_with = "policy")]
    pub(crate) at_least: Option<u64>,
    /// With --at-least: which members count, resolved or successful
    #[arg(long, value_name = "WHICH", requires = "at_least",
          value_parser = ["resolved", "successful"])]
    pub(crate) counting: Option<String>,
    /// When it is complete, as JSON, for groups of members
    #[arg(long, value_name = "JSON")]
    pub(crate) policy: Option<String>,
    /// The first failed member ends it
    #[arg(long)]
    pub(crate) first_failure: bool,
    /// The list may grow; nothing completes before `barrier seal`
    #[arg(long)]
    pub(crate) unsealed: bool,
    /// Refuse other members under an id that is there already
    #[arg(long)]
    pub(crate) strict: bool,
    /// A barrier of which this one is a member
    #[arg(long, value_name = "ID", requires = "parent_member")]
    pub(crate) parent: Option<String>,
    /// The member's name there
    #[arg(long, value_name = "NAME", requires = "parent")]
    pub(crate) parent_member: Option<OsString>,
    /// A query that gives (member, ok, error, result) of acknowledgements that were lost
    #[arg(long, value_name = "QUERY", conflicts_with = "probe_keys")]
    pub(crate) probe_sql: Option<String>,
    /// A prefix of files that say which members are done, such as folder:acks/batch-7/
    #[arg(long, value_name = "PREFIX")]
    pub(crate) probe_keys: Option<String>,
}

/// `sendoff barrier ack`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["member", "lines"]))]
pub(crate) struct AckArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
    /// The member's name, byte for byte
    pub(crate) member: Option<OsString>,
    /// It failed; a failed member is resolved too
    #[arg(long, conflicts_with = "lines")]
    pub(crate) failed: bool,
    /// An error text
    #[arg(long, value_name = "TEXT", conflicts_with = "lines")]
    pub(crate) error: Option<String>,
    /// A small result
    #[arg(long, value_name = "JSON", conflicts_with = "lines")]
    pub(crate) result: Option<String>,
    /// Read acknowledgements from standard input: a JSON object of member, ok, error, result a line
    #[arg(long)]
    pub(crate) lines: bool,
    /// With --lines: how many acknowledgements are one transaction
    #[arg(long, value_name = "N", default_value_t = 1_000, conflicts_with = "member",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) per_transaction: u32,
    /// By which channel it came; a later duplicate is told
    #[arg(long, value_name = "NAME", default_value = "cli")]
    pub(crate) channel: String,
}

/// `sendoff barrier results`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").args(["failures", "missing", "pending"]))]
pub(crate) struct ResultsArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
    /// Only members that failed
    #[arg(long)]
    pub(crate) failures: bool,
    /// Only members that were given up when the barrier was closed
    #[arg(long)]
    pub(crate) missing: bool,
    /// Only members that are pending
    #[arg(long)]
    pub(crate) pending: bool,
    /// Only members whose names come after this one
    #[arg(long, value_name = "NAME")]
    pub(crate) after: Option<OsString>,
    /// Only this member, resolved or not
    #[arg(long, value_name = "NAME", conflicts_with_all = ["which", "after", "limit"])]
    pub(crate) member: Option<OsString>,
    /// At most this many members [default: all of them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
}

/// `sendoff barrier grow`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("list").required(true).args(["members_file", "members_json"]))]
pub(crate) struct GrowArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) members: MembersArguments,
}

/// `sendoff barrier reopen`.
#[derive(Debug, Args)]
pub(crate) struct ReopenArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
    /// Only these members [default: every failed or missing one]
    pub(crate) members: Vec<OsString>,
}

/// `sendoff barrier token`.
#[derive(Debug, Args)]
pub(crate) struct TokenArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The barrier's id
    pub(crate) id: String,
    /// The members' names, byte for byte
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<OsString>,
    /// How long a token is good for, at most as long as the barrier takes acknowledgements
    #[arg(long, value_name = "DURATION", default_value = "7d")]
    pub(crate) expires: String,
}

/// `sendoff barrier list`.
#[derive(Debug, Args)]
pub(crate) struct ListBarriersArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Only barriers whose ids come after this one
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// At most this many barriers
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
}

impl BarrierVerb {
    pub(super) fn flags(&self) -> Flags<'_> {
        let store = match self {
            Self::Create(create) => &create.store,
            Self::Ack(ack) => &ack.store,
            Self::Status(which)
            | Self::Why(which)
            | Self::Cancel(which)
            | Self::Seal(which)
            | Self::Reconcile(which) => &which.store,
            Self::Results(results) => &results.store,
            Self::Grow(grow) => &grow.store,
            Self::Reopen(reopen) => &reopen.store,
            Self::Exclude(member) => &member.store,
            Self::Token(token) => &token.store,
            Self::List(list) => &list.store,
        };
        store.flags()
    }
}
