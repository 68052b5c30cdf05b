//! `sendoff relay`: publishes what is committed, until it is stopped or, with `--once`, drained.

mod motion;
mod progress;

use std::time::Duration;

use sendoff::relay::{Once, OnceEnd, Tally};
use sendoff::{Error, ErrorKind};
use serde_json::json;
use tokio::time::Instant;

use crate::arguments::RelayArguments;
use crate::configuration::{Configuration, parse_duration};
use crate::exit::{Ending, Exit};
use crate::observe::{Observed, Server};
use crate::output::{Form, grouped};
use crate::stop::Stop;
use crate::store::Store;
use crate::target::Targets;

use motion::Motion;

/// Between two looks at a store that cannot be reached at the start.
const SCHEMA_RETRY: Duration = Duration::from_secs(1);

/// Publishes.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &RelayArguments,
    form: Form,
) -> Ending {
    let settings = motion::Settings::of(configuration)?;
    let until = arguments
        .max_wait
        .as_deref()
        .map(|text| parse_duration(text).map_err(|why| Error::invalid("reading --max-wait", why)))
        .transpose()?
        .map(|wait| Instant::now() + wait);
    let store = Store::open(configuration, false)?;
    let target = Targets::open(configuration)?;
    let stop = Stop::listen()?;
    let enough = async {
        match until {
            Some(until) => tokio::select! {
                () = stop.asked() => {}
                () = tokio::time::sleep_until(until) => {}
            },
            None => stop.asked().await,
        }
    };
    tokio::pin!(enough);
    let observed = Observed::relay(store.outbox.clone(), &target.shown);
    let server = match configuration.text("relay.listen") {
        Some(address) => Some(Server::begin(address, &observed).await?),
        None => None,
    };
    tokio::select! {
        checked = schema(&store) => checked?,
        () = &mut enough => return never_began(arguments.once),
    }
    let Targets { shown, is_stdout, .. } = &target;
    let is_stdout = *is_stdout;
    let relay = Motion::build(&store, &target, settings)?;
    observed.begins(relay.running());
    tracing::info!(
        event = "started", relay = %relay.id(), mode = relay.mode(), from = store.shown, to = shown,
        once = arguments.once,
        "the relay starts"
    );
    let progress = progress::Line::begin(&relay);
    let answer = if arguments.once {
        let once = relay.run_once(store.desk.clone(), enough).await;
        progress.end();
        drained(&once.map_err(|error| store.explain(error))?)
    } else {
        let tally = relay.run(enough).await;
        progress.end();
        stopped(&tally)
    };
    if let Some(server) = server {
        server.end().await;
    }
    if !is_stdout {
        form.answer(&answer.value, &answer.text)?;
    } else if form == Form::Text && configuration.text("log.format") == Some("json") {
        tracing::info!(code = answer.exit.code(), "{}", answer.text);
    } else {
        // Standard output carries the messages: the answer goes beside it.
        form.remark(&answer.value, &answer.text)?;
    }
    Ok(answer.exit)
}

/// Waits until the schema is known to be as needed: a database that is down does not end a relay.
async fn schema(store: &Store) -> Result<(), Error> {
    loop {
        match store.check_schema().await {
            Err(error) if is_passing(error.kind()) => {
                tracing::error!(
                    event = "not_ready", kind = error.kind().as_str(), %error,
                    "the relay is not ready: the store cannot be reached; trying again"
                );
                tokio::time::sleep(SCHEMA_RETRY).await;
            }
            other => return other,
        }
    }
}

/// Whether an error of the start says that the database is not there now, rather than that it is
/// not what it has to be.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Conflict | ErrorKind::Locked
    )
}

/// Stopped before the store could be reached.
fn never_began(once: bool) -> Ending {
    tracing::warn!("stopped before the store could be reached");
    Ok(if once { Exit::GaveUp } else { Exit::Done })
}

struct Answer {
    exit: Exit,
    text: String,
    value: serde_json::Value,
}

fn drained(once: &Once) -> Answer {
    let (exit, end, words) = match once.end {
        OnceEnd::Drained => (Exit::Done, "drained", "drained"),
        OnceEnd::Quarantined => (
            Exit::Quarantined,
            "quarantined",
            "drained, but messages stand in quarantine (`sendoff quarantine list`)",
        ),
        OnceEnd::GaveUp => (Exit::GaveUp, "gave_up", "gave up with due messages pending"),
    };
    Answer {
        exit,
        text: format!("{words}: {}", counts(&once.tally)),
        value: json!({ "end": end, "tally": once.tally, "stats": once.stats }),
    }
}

fn stopped(tally: &Tally) -> Answer {
    Answer {
        exit: Exit::Done,
        text: format!("stopped: {}", counts(tally)),
        value: json!({ "end": "stopped", "tally": tally }),
    }
}

/// A tally in one line.
fn counts(tally: &Tally) -> String {
    format!(
        "{} published, {} failed and retried, {} unknown, {} quarantined, {} fenced",
        grouped(tally.settled),
        grouped(tally.failed),
        grouped(tally.unknown),
        grouped(tally.quarantined),
        grouped(tally.fenced)
    )
}
