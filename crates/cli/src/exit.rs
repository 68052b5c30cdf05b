//! How the program ends: the exit codes, and the failure that carries one.
//!
//! What does not belong here: printing. [`crate::output`] tells a failure to the user.

use sendoff::barrier::{Refusal, RefusalCode};
use sendoff::{Error, ErrorKind};

/// The program's exit codes. They are part of its interface: scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It failed; the error says why.
    Failed = 1,
    /// The command line, the configuration or the input is not acceptable.
    Usage = 2,
    /// `relay --once`: nothing due is pending, but messages stand in quarantine.
    Quarantined = 3,
    /// `relay --once`: stopped, or `--max-wait` passed, while due messages were pending. `resend`: stopped
    /// before its end.
    GaveUp = 4,
    /// The store is not there, is not migrated, or has a schema that is newer than this program or
    /// made by another text of it.
    Schema = 5,
    /// The message or barrier that was asked for is not there.
    NotFound = 6,
    /// `verify`: something is lost, unknown or out of order.
    Broken = 7,
    /// `barrier`: refused, with nothing changed, since it does not fit how the barrier stands.
    Refused = 8,
    /// `barrier`: another transaction held what this one needs. Run it again.
    Busy = 9,
    /// `doctor`: something should be looked at.
    Warnings = 10,
    /// `doctor`: something does not work, or a promise does not hold.
    Failures = 11,
}

/// The table of exit codes in `--help`; `docs/reference/cli.md` has the same.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failed; the error on stderr says why
  2  the command line, the configuration or the input is not acceptable
  3  relay --once: nothing due is pending, but messages stand in quarantine
  4  relay --once: gave up (stopped, or --max-wait passed) with due messages pending; resend: stopped
  5  the store is not there, is not migrated, or has a schema that this program refuses
  6  the message or barrier that was asked for is not there
  7  verify: something is lost, unknown or out of order
  8  barrier: refused (unknown member, expired, cancelled, conflict); nothing changed
  9  barrier: busy, nothing changed; run it again
  10  doctor: something should be looked at
  11  doctor: something does not work, or a promise does not hold
  130, 143  a second SIGINT or SIGTERM ended the program at once";

impl Exit {
    /// The number that the process ends with.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// The code that an error of this kind ends with, unless a verb knows better.
    fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid | ErrorKind::TooLarge => Self::Usage,
            ErrorKind::SchemaMissing | ErrorKind::SchemaTooNew | ErrorKind::SchemaChanged => {
                Self::Schema
            }
            ErrorKind::NotFound => Self::NotFound,
            _ => Self::Failed,
        }
    }
}

impl From<RefusalCode> for Exit {
    fn from(code: RefusalCode) -> Self {
        match code {
            RefusalCode::Invalid | RefusalCode::TooLarge | RefusalCode::DuplicateName => {
                Self::Usage
            }
            RefusalCode::NotFound => Self::NotFound,
            RefusalCode::Busy => Self::Busy,
            _ => Self::Refused,
        }
    }
}

/// What to do next about a barrier's refusal, where nobody knows better.
pub(crate) fn advice(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::UnknownMember => {
            "`sendoff barrier results ID --pending` lists the names, `sendoff barrier why ID` near misses"
        }
        RefusalCode::Expired => "take another id; this one is free again when its week is over",
        RefusalCode::Cancelled => "it was ended on purpose; go on with a new barrier",
        RefusalCode::TooLarge => "make it smaller; nothing was changed",
        RefusalCode::DuplicateName => "take one of the two out of the list",
        RefusalCode::NotFound => "`sendoff barrier list` shows what is there",
        RefusalCode::Busy => "run it again",
        RefusalCode::Invalid => "`sendoff help barrier` says what each verb takes",
        _ => "`sendoff barrier status ID` says how it stands",
    }
}

/// Why a verb did not come to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error to tell, and the code to end with.
    Error {
        /// The code.
        exit: Exit,
        /// The error.
        error: Error,
    },
    /// A barrier refused, with nothing changed.
    Refused {
        /// What was being done.
        operation: &'static str,
        /// The refusal.
        refusal: Refusal,
        /// What to do next.
        next: String,
    },
    /// Whoever read standard output has closed it. Nobody is left to tell.
    Closed,
}

/// What a verb ends with.
pub(crate) type Ending = Result<Exit, Failure>;

impl Failure {
    /// An error that ends with another code than its kind's own.
    pub(crate) fn with_exit(exit: Exit, error: Error) -> Self {
        Self::Error { exit, error }
    }

    /// A barrier's refusal.
    pub(crate) fn refused(operation: &'static str, refusal: Refusal) -> Self {
        let next = advice(refusal.code()).to_owned();
        Self::Refused { operation, refusal, next }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error { exit: Exit::of(error.kind()), error }
    }
}

impl From<std::io::Error> for Failure {
    /// Only writes to standard output come here: every other input and output names its subject.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Error::new(ErrorKind::Unexpected, "writing to standard output").caused_by(error).into()
    }
}
