//! `sendoff show ID`: where one message is, and why.

use sendoff::store::{KeptLook, KeptMessage, Place, Standing};
use sendoff::{Error, ErrorKind};
use serde::Serialize;

use crate::arguments::ShowArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit};
use crate::output::{Form, shown};
use crate::store::{Store, quoted};

/// So many kept messages of one id are shown: an id can be used again after its horizon.
const KEPT_MAX: u32 = 100;

#[derive(Debug, Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    standing: &'a Standing,
    why: String,
}

/// Answers with every message that has the id.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &ShowArguments,
    form: Form,
) -> Ending {
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let source = arguments.source.as_deref();
    let standings =
        store.desk.find(&arguments.id, source).await.map_err(|error| store.explain(error))?;
    let mut kept = store
        .kept
        .kept(&KeptLook {
            id: Some(arguments.id.clone()),
            rows_max: KEPT_MAX,
            ..KeptLook::default()
        })
        .await
        .map_err(|error| store.explain(error))?;
    kept.retain(|one| source.is_none_or(|source| source == one.source));
    if standings.is_empty() && kept.is_empty() {
        return Err(not_there(&store, &arguments.id, source).into());
    }
    let explained: Vec<Explained<'_>> =
        standings.iter().map(|standing| Explained { standing, why: why(standing) }).collect();
    let text: Vec<String> = explained.iter().map(text).chain(kept.iter().map(kept_text)).collect();
    let value = serde_json::json!({ "messages": explained, "kept": kept });
    form.answer(&value, &text.join("\n"))?;
    Ok(Exit::Done)
}

fn not_there(store: &Store, id: &str, source: Option<&str>) -> Error {
    let of = source.map_or(String::new(), |source| format!(" of source {}", shown(source)));
    Error::new(ErrorKind::NotFound, "looking for a message")
        .subject(&store.shown)
        .detail(format!("there is no message {}{of}", shown(id)))
        .advice("it was never committed here, or it left longer ago than ids are kept (24 h)")
}

/// Why a message is where it is, and what moves it.
fn why(standing: &Standing) -> String {
    let at = |time: Option<sendoff::time::Timestamp>| {
        time.map_or("a time that was not kept".to_owned(), |time| time.to_string())
    };
    let error = standing.last_error.as_deref().unwrap_or("no error was kept");
    match standing.place {
        Place::Ready => match &standing.owner {
            Some(owner) => format!("committed; relay {owner} leases its lane and takes it next"),
            None => "committed; no relay leases its lane: is `sendoff relay` running?".to_owned(),
        },
        Place::DueLater => format!("not due before {}", at(standing.due_at)),
        Place::Retrying => format!(
            "its publish failed ({} counted); it is tried again at {}: {error}",
            standing.attempts,
            at(standing.retry_at)
        ),
        Place::Paused => "it is paused; `sendoff pauses` says by what".to_owned(),
        Place::Postponed => {
            "it was set aside; a relay brings it back as soon as its target has room".to_owned()
        }
        Place::Held => match &standing.held_behind {
            Some(id) => format!(
                "held behind message {id} of the same key; see `sendoff show {}`",
                quoted(id)
            ),
            None => "held behind an earlier message of its key".to_owned(),
        },
        Place::Quarantined => format!(
            "set aside, and its key waits behind it: {error}; `sendoff quarantine show {}` says more",
            quoted(&standing.id)
        ),
        Place::Gone => "the target confirmed it, or an operator discarded it".to_owned(),
    }
}

fn text(explained: &Explained<'_>) -> String {
    let standing = explained.standing;
    let mut text =
        format!("message  {}\nsource   {}\n", shown(&standing.id), shown(&standing.source));
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            text.push_str(&format!("{name:<9}{}\n", shown(&value)));
        }
    };
    field("topic", Some(standing.topic.clone()));
    field("key", standing.key.clone());
    field("sent", standing.sent_at.map(|time| time.to_string()));
    field("body", standing.body_bytes.map(|bytes| format!("{bytes} bytes")));
    field("seq", standing.seq.map(|seq| seq.to_string()));
    field("place", Some(place(standing.place).to_owned()));
    field("why", Some(explained.why.clone()));
    text
}

/// What is kept of a message that was published.
fn kept_text(kept: &KeptMessage) -> String {
    let target = kept.target.as_deref().map_or("a target that was not kept".to_owned(), shown);
    format!(
        "kept     {}\nsource   {}\ntopic    {}\nkey      {}\nbody     {} bytes\n\
         place    published at {} to {target}, after {} failed attempts\n\
         next     `sendoff resend --id {} --yes` sends it again\n",
        shown(&kept.id),
        shown(&kept.source),
        shown(&kept.topic),
        kept.key.as_deref().map_or("-".to_owned(), shown),
        kept.body_bytes,
        kept.published_at,
        kept.attempts,
        quoted(&shown(&kept.id)),
    )
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Ready => "ready",
        Place::DueLater => "due later",
        Place::Retrying => "retrying",
        Place::Postponed => "postponed",
        Place::Paused => "paused",
        Place::Held => "held",
        Place::Quarantined => "quarantined",
        Place::Gone => "gone",
    }
}
