//! `sendoff quarantine`: look at and mend what cannot be published.

use sendoff::store::{Place, QuarantineReason, QuarantinedMessage, Which};
use sendoff::{Error, ErrorKind};
use serde_json::json;

use crate::arguments::{MendArguments, QuarantineVerb};
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, counted, grouped, shown, table};
use crate::store::{Store, quoted};

/// Lists, shows, requeues or discards.
pub(crate) async fn run(
    configuration: &Configuration,
    verb: &QuarantineVerb,
    form: Form,
) -> Ending {
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    match verb {
        QuarantineVerb::List(list) => self::list(&store, list.after, list.limit, form).await,
        QuarantineVerb::Show(show) => {
            self::show(&store, &show.id, show.source.as_deref(), form).await
        }
        QuarantineVerb::Requeue(mend) => self::mend(&store, mend, Mend::Requeue, form).await,
        QuarantineVerb::Discard(mend) => self::mend(&store, mend, Mend::Discard, form).await,
    }
}

async fn list(store: &Store, after: i64, limit: u32, form: Form) -> Ending {
    let messages =
        store.desk.quarantined(after, limit).await.map_err(|error| store.explain(error))?;
    let next_after = messages
        .last()
        .filter(|_| messages.len() == usize::try_from(limit).unwrap_or(usize::MAX))
        .map(|last| last.seq);
    let rows: Vec<Vec<String>> = messages
        .iter()
        .map(|message| {
            vec![
                message.seq.to_string(),
                shown(&message.id),
                shown(&message.topic),
                message.key.as_deref().map_or("-".to_owned(), shown),
                message.reason.clone(),
                grouped(message.holds),
                shown(&message.error),
            ]
        })
        .collect();
    let mut text = if rows.is_empty() {
        "nothing is in quarantine\n".to_owned()
    } else {
        table(&["seq", "id", "topic", "key", "reason", "holds", "error"], &rows)
    };
    if let Some(seq) = next_after {
        text.push_str(&format!("there may be more: --after {seq}\n"));
    }
    form.answer(&json!({ "messages": messages, "next_after": next_after }), &text)?;
    Ok(Exit::Done)
}

async fn show(store: &Store, id: &str, source: Option<&str>, form: Form) -> Ending {
    let standings = store.desk.find(id, source).await.map_err(|error| store.explain(error))?;
    let seqs = standings
        .iter()
        .filter(|standing| standing.place == Place::Quarantined)
        .filter_map(|standing| standing.seq);
    let mut messages = Vec::new();
    for seq in seqs {
        let found =
            store.desk.quarantined(seq - 1, 1).await.map_err(|error| store.explain(error))?;
        // It may have been requeued since it was found: then the next one is given.
        messages.extend(found.into_iter().filter(|message| message.seq == seq));
    }
    if messages.is_empty() {
        return Err(not_there(store, id).into());
    }
    let text: Vec<String> = messages.iter().map(text).collect();
    form.answer(&json!({ "messages": messages }), &text.join("\n"))?;
    Ok(Exit::Done)
}

fn not_there(store: &Store, id: &str) -> Error {
    Error::new(ErrorKind::NotFound, "looking into the quarantine")
        .subject(&store.shown)
        .detail(format!("message {} is not in it", shown(id)))
        .advice(format!("`sendoff show {}` says where it is", quoted(id)))
}

fn text(message: &QuarantinedMessage) -> String {
    let mut text = format!(
        "message      {}\nsource       {}\ntopic        {}\nkey          {}\n",
        shown(&message.id),
        shown(&message.source),
        shown(&message.topic),
        message.key.as_deref().map_or("-".to_owned(), shown),
    );
    for (name, value) in message.headers.iter() {
        text.push_str(&format!("header       {}={}\n", shown(name), shown(value)));
    }
    text.push_str(&format!(
        "body         {} bytes\n\
         reason       {}\n\
         error        {}\n\
         attempts     {}\n\
         quarantined  {}\n\
         holds        {} of its key\n\
         next         `sendoff quarantine requeue {id}` or `sendoff quarantine discard {id}`\n",
        grouped(message.body_bytes),
        shown(&message.reason),
        shown(&message.error),
        message.attempts,
        message.quarantined_at,
        counted(message.holds, "later message"),
        id = quoted(&shown(&message.id)),
    ));
    text
}

#[derive(Debug, Clone, Copy)]
enum Mend {
    Requeue,
    Discard,
}

async fn mend(store: &Store, arguments: &MendArguments, mend: Mend, form: Form) -> Ending {
    let which = which(arguments)?;
    let (mended, done) = match mend {
        Mend::Requeue => (store.desk.requeue(&which).await, "requeued"),
        Mend::Discard => (store.desk.discard(&which).await, "discarded"),
    };
    let mended = mended.map_err(|error| store.explain(error))?;
    if let (0, Which::Id { id, .. }) = (mended.messages, &which) {
        return Err(not_there(store, id).into());
    }
    form.answer(
        &json!({ "done": done, "messages": mended.messages, "released": mended.released }),
        &format!(
            "{done} {}, let go {}",
            counted(mended.messages, "message"),
            counted(mended.released, "held one")
        ),
    )?;
    Ok(Exit::Done)
}

fn which(arguments: &MendArguments) -> Result<Which, Failure> {
    if arguments.all {
        return Ok(Which::All);
    }
    if let Some(word) = &arguments.reason {
        let reason = QuarantineReason::parse(word).ok_or_else(|| {
            Error::invalid("reading --reason", format!("`{}` is no reason", shown(word)))
                .advice("write undecodable, permanent, too_large, attempts or no_route")
        })?;
        return Ok(Which::Reason(reason));
    }
    // The command line's group sees to it that one of the three is there.
    Ok(Which::Id { id: arguments.id.clone().unwrap_or_default(), source: arguments.source.clone() })
}
