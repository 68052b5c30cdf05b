//! `sendoff resend`: kept messages go back into the outbox.

use sendoff::Error;
use sendoff::message::TopicPattern;
use sendoff::store::{Resend, Resending, Wanted};
use sendoff::time::{Clock, Timestamp};
use serde_json::json;

use crate::arguments::ResendArguments;
use crate::configuration::{Configuration, parse_duration};
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, counted, grouped, shown};
use crate::stop::Stop;
use crate::store::Store;

/// Sends, step by step, until all is sent or a signal comes.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &ResendArguments,
    form: Form,
) -> Ending {
    let wanted = wanted(arguments)?;
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let stop = Stop::listen()?;
    let mut resend = Resend::new(wanted);
    if arguments.dry_run {
        resend = resend.dry();
    }
    let is_whole = loop {
        let more =
            resend.step(&*store.kept).await.map_err(|error| interrupted(&store, &resend, error))?;
        if !more {
            break true;
        }
        if stop.is_asked() {
            break false;
        }
        let progress = resend.progress();
        tracing::info!(
            looked_at = progress.looked_at,
            wanted = progress.wanted,
            sent = progress.resent.sent,
            after = progress.after.map(|mark| mark.to_string()),
            "going on"
        );
    };
    let progress = *resend.progress();
    let value = json!({
        "store": store.shown, "dry_run": arguments.dry_run, "whole": is_whole, "progress": progress,
    });
    form.answer(&value, &text(&progress, arguments.dry_run, is_whole))?;
    Ok(if is_whole { Exit::Done } else { Exit::GaveUp })
}

/// What was done up to an error is not lost: the mark says where to go on.
fn interrupted(store: &Store, resend: &Resend, error: Error) -> Failure {
    let error = store.explain(error);
    match resend.progress().after {
        Some(mark) => {
            error.advice(format!("go on with the same command and --after {mark}")).into()
        }
        None => error.into(),
    }
}

fn text(progress: &Resending, dry_run: bool, is_whole: bool) -> String {
    let mut text = if dry_run {
        format!(
            "{} would be sent again, of {} kept in that time",
            counted(progress.wanted, "message"),
            grouped(progress.looked_at)
        )
    } else {
        format!("sent {} again", counted(progress.resent.sent, "message"))
    };
    if progress.resent.waiting > 0 {
        let waiting = grouped(progress.resent.waiting);
        text.push_str(&format!("; {waiting} stand in the outbox already and were left alone"));
    }
    if progress.resent.gone > 0 {
        text.push_str(&format!("; {} are not kept any more", grouped(progress.resent.gone)));
    }
    if let (false, Some(mark)) = (is_whole, progress.after) {
        text.push_str(&format!("\nstopped; go on with --after {mark}"));
    }
    text
}

fn wanted(arguments: &ResendArguments) -> Result<Wanted, Error> {
    let now = Clock::system().now();
    let until = match &arguments.to {
        Some(text) => Some(time("reading --to", text, now)?),
        // What is published again meanwhile is no part of it.
        None if arguments.id.is_none() => Some(now),
        None => None,
    };
    Ok(Wanted {
        from: arguments
            .from
            .as_deref()
            .map(|text| time("reading --from", text, now))
            .transpose()?,
        until,
        topic: arguments.topic.as_deref().map(str::parse::<TopicPattern>).transpose()?,
        key: arguments.key.clone(),
        id: arguments.id.clone(),
        limit: arguments.limit,
        after: arguments.after.as_deref().map(str::parse).transpose()?,
    })
}

/// A time, or how long ago.
fn time(operation: &'static str, text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let refuse = || {
        Error::invalid(operation, format!("`{}` is not a time", shown(text)))
            .advice("write a time as 2030-01-31T09:00:00Z, or how long ago as 2h")
    };
    match parse_duration(text) {
        Ok(ago) => now.checked_sub(ago).map_err(|_| refuse()),
        Err(_) => text.parse().map_err(|_| refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_with_an_offset_or_so_long_ago() {
        let now: Timestamp = "2030-01-31T10:00:00Z".parse().unwrap();
        for text in ["2030-01-31T09:00:00Z", "2030-01-31T10:00:00+01:00", "1h", "60m"] {
            let read = time("reading --from", text, now).unwrap();
            assert_eq!(read.to_string(), "2030-01-31T09:00:00Z", "{text}");
        }
        for text in ["", "yesterday", "2030-01-31T09:00:00", "-1h", "99999999999d"] {
            let error = time("reading --from", text, now).unwrap_err().to_string();
            assert!(error.contains("2h"), "{text}: {error}");
        }
    }
}
