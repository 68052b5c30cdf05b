//! `sendoff barrier`: create, acknowledge, look at and change barriers.
//!
//! What does not belong here: when a barrier is complete, and who may answer over HTTP.

mod ack;
mod change;
mod create;
mod lines;
mod read;
mod results;
mod text;
mod token;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use sendoff::barrier::{Answer, BarrierId, Json, MemberName, Refusal, RefusalCode};
use sendoff::{Error, ErrorKind, Result};

use crate::arguments::{BarrierVerb, MembersArguments};
use crate::configuration::{Configuration, parse_duration};
use crate::exit::{Ending, Failure};
use crate::members::Members;
use crate::output::Form;
use crate::store::Store;

/// Does what the verb says.
pub(crate) async fn run(configuration: &Configuration, verb: &BarrierVerb, form: Form) -> Ending {
    match verb {
        BarrierVerb::Create(create) => self::create::run(configuration, create, form).await,
        BarrierVerb::Ack(ack) if ack.lines => lines::run(configuration, ack, form).await,
        BarrierVerb::Ack(ack) => self::ack::run(configuration, ack, form).await,
        BarrierVerb::Status(which) => read::status(configuration, &which.id, form).await,
        BarrierVerb::Why(which) => read::why(configuration, &which.id, form).await,
        BarrierVerb::List(list) => read::list(configuration, list, form).await,
        BarrierVerb::Results(results) => self::results::run(configuration, results, form).await,
        BarrierVerb::Cancel(which) => change::cancel(configuration, &which.id, form).await,
        BarrierVerb::Seal(which) => change::seal(configuration, &which.id, form).await,
        BarrierVerb::Grow(grow) => change::grow(configuration, grow, form).await,
        BarrierVerb::Reopen(reopen) => change::reopen(configuration, reopen, form).await,
        BarrierVerb::Exclude(member) => change::exclude(configuration, member, form).await,
        BarrierVerb::Reconcile(which) => change::reconcile(configuration, &which.id, form).await,
        BarrierVerb::Token(token) => self::token::run(configuration, token, form).await,
    }
}

/// Opens the store and sees to its schema.
async fn open(configuration: &Configuration) -> Result<Store, Failure> {
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    Ok(store)
}

const READING: &str = "reading the command line";

/// Which barrier.
fn barrier(id: &str) -> Result<BarrierId, Failure> {
    BarrierId::new(id).map_err(|error| unfit(&error))
}

/// A member's name as the shell gives it.
fn member(name: &OsStr) -> Result<MemberName, Failure> {
    MemberName::new(name.as_bytes()).map_err(|error| unfit(&error))
}

fn unfit(error: &Error) -> Failure {
    let code = match error.kind() {
        ErrorKind::TooLarge => RefusalCode::TooLarge,
        _ => RefusalCode::Invalid,
    };
    Failure::refused(READING, Refusal::new(code, error.to_string()))
}

/// A duration that a flag gives.
fn duration(flag: &'static str, text: &str) -> Result<Duration> {
    parse_duration(text).map_err(|why| {
        Error::invalid(READING, format!("{flag}: {why}")).advice("write 90s, 10m, 2h or 3d")
    })
}

/// The JSON that a flag gives. It is not quoted where it is none.
fn json(flag: &'static str, text: Option<&str>) -> Result<Option<Json>> {
    text.map(|text| {
        Json::parse(text).map_err(|error| {
            Error::invalid(READING, format!("{flag} is not JSON"))
                .caused_by(error)
                .advice(format!("quote it for the shell: {flag} '{{\"ref\": 7}}'"))
        })
    })
    .transpose()
}

/// Reads the members that were named, on a thread that may block.
async fn members(arguments: &MembersArguments) -> Result<Members, Failure> {
    type Read = fn(&Path) -> Result<Members, Failure>;
    let (path, read): (_, Read) = match (&arguments.members_file, &arguments.members_json) {
        (Some(path), _) => (path.clone(), Members::from_lines),
        (None, Some(path)) => (path.clone(), Members::from_json),
        // The command line's group sees to it that one of the two is there.
        (None, None) => return Ok(Members::default()),
    };
    tokio::task::spawn_blocking(move || read(&path)).await.map_err(|error| {
        Error::new(ErrorKind::Unexpected, "reading the members").caused_by(error)
    })?
}

/// A store's answer to an operation of a barrier.
fn answered<T>(
    store: &Store,
    operation: &'static str,
    answer: Result<Answer<T>>,
) -> Result<T, Failure> {
    answer
        .map_err(|error| store.explain(error))?
        .map_err(|refusal| Failure::refused(operation, refusal))
}

/// What is there, or the refusal that it is not.
fn there<T>(
    store: &Store,
    operation: &'static str,
    id: &BarrierId,
    answer: Result<Option<T>>,
) -> Result<T, Failure> {
    answer
        .map_err(|error| store.explain(error))?
        .ok_or_else(|| Failure::refused(operation, Refusal::not_found(id)))
}
