//! Handles the continuation: the batch has ended, and every document gets its state.

use std::pin::pin;

use async_nats::jetstream;
use async_nats::jetstream::AckKind;
use futures_util::StreamExt;
use sendoff::barrier::{BarrierResult, Barriers, Continuation, MemberOutcome, Outcome};
use sendoff::nats::read_delivery;
use sendoff::{Message, Outbox};
use serde_json::json;
use sqlx::{Postgres, Transaction};
use tokio_util::sync::CancellationToken;

use crate::{Error, Service, streams};

/// Outcomes are read in pages of this size: a batch may be larger than the memory.
const PAGE: u32 = 250;

/// Takes continuations until `stop`.
pub(crate) async fn take(service: &Service, stop: &CancellationToken) -> Result<(), Error> {
    let subject = format!("{}.batches.done", streams::WORK);
    let consumer =
        streams::consumer(&service.jetstream, streams::WORK, "continuations", subject).await?;
    let mut messages = pin!(consumer.messages().await?.take_until(stop.cancelled()));
    while let Some(delivered) = messages.next().await {
        match delivered {
            Ok(delivery) => handle(service, &delivery).await?,
            Err(error) => eprintln!("waiting for continuations: {error}"),
        }
    }
    streams::ended(stop, "continuations")
}

async fn handle(service: &Service, delivery: &jetstream::Message) -> Result<(), Error> {
    let read = read_delivery(delivery).and_then(|message| {
        let continuation = Continuation::parse(message.body())?;
        Ok((message, continuation))
    });
    let (message, continuation) = match read {
        Ok(read) => read,
        Err(error) => {
            // It would be none the next time either.
            eprintln!("a continuation that is none: {error}");
            return delivery.ack_with(AckKind::Term).await;
        }
    };
    match apply(service, &message, &continuation).await {
        Ok(done) => println!("{}: {done}", continuation.barrier),
        Err(error) => {
            // Not acknowledged: NATS delivers it again.
            eprintln!("settling {}: {error}", continuation.barrier);
            return Ok(());
        }
    }
    delivery.ack().await
}

/// Settles the batch and says what was done. The message is delivered at least once; the row of its id,
/// in the same transaction as everything that it does, applies it once.
async fn apply(
    service: &Service,
    message: &Message,
    continuation: &Continuation,
) -> Result<&'static str, Error> {
    let mut transaction = service.pool.begin().await?;
    let Some(batch) = Barriers::new().hydrate(&mut transaction, continuation).await? else {
        return Ok("reopened or expired since, so nothing is to be done");
    };
    let count = |count: u64| i64::try_from(count);
    let summary = sqlx::query(
        "INSERT INTO summaries (message, batch, done, failed, missing) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (message) DO NOTHING",
    )
    .bind(message.dedup_id())
    .bind(batch.id())
    .bind(count(batch.ok_count())?)
    .bind(count(batch.failed_count())?)
    .bind(count(batch.missing_count())?)
    .execute(&mut *transaction)
    .await?;
    if summary.rows_affected() == 0 {
        return Ok("was settled before");
    }
    settle(&mut transaction, &batch).await?;
    // What comes next is a message of the same transaction, and so it goes on.
    let outbox = Outbox::new("documents");
    let body = json!({"batch": batch.id(), "failed": batch.failed_count(), "missing": batch.missing_count()});
    let next = outbox.message("batches.settled").key(batch.id()).body(body.to_string()).build()?;
    outbox.send(&mut transaction, &next).await?;
    service.wake.commit(transaction).await?;
    Ok("settled")
}

/// Gives every document its state, page by page.
async fn settle(
    transaction: &mut Transaction<'_, Postgres>,
    batch: &BarrierResult,
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = batch.results(transaction, after.as_ref(), PAGE).await?;
        write(transaction, batch.id(), &page.members).await?;
        after = page.next_after;
        if after.is_none() {
            break;
        }
    }
    loop {
        let page = batch.missing(transaction, after.as_ref(), PAGE).await?;
        write(transaction, batch.id(), &page.members).await?;
        after = page.next_after;
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn write(
    transaction: &mut Transaction<'_, Postgres>,
    batch: &str,
    members: &[MemberOutcome],
) -> Result<(), Error> {
    let (mut names, mut states, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for member in members {
        names.push(member.member.to_string());
        states.push(match &member.outcome {
            Some(outcome) if outcome.is_ok() => "done",
            Some(_) => "failed",
            None => "missing",
        });
        notes.push(member.outcome.as_ref().and_then(note));
    }
    sqlx::query(
        "UPDATE documents SET state = page.state, note = page.note
           FROM unnest($2::text[], $3::text[], $4::text[]) AS page (name, state, note)
          WHERE documents.batch = $1 AND documents.name = page.name",
    )
    .bind(batch)
    .bind(names)
    .bind(states)
    .bind(notes)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// The receipt, or else the error.
fn note(outcome: &Outcome) -> Option<&str> {
    outcome.result().map(sendoff::barrier::Json::as_str).or(outcome.error())
}
