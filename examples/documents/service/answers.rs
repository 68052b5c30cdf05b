//! Takes the partner's answers, each of them together with rows of the service's own.

use std::collections::BTreeMap;
use std::pin::pin;

use async_nats::jetstream;
use futures_util::StreamExt;
use sendoff::barrier::{
    Ack, AckBatch, BarrierId, Barriers, Failed, MemberAnswer, MemberName, Outcome,
};
use serde::Deserialize;
use sqlx::{Postgres, Transaction};
use tokio_util::sync::CancellationToken;

use crate::{Error, Service, streams};

/// The most answers of one transaction.
const BATCH_MAX: usize = 200;

/// What the partner says over NATS.
#[derive(Deserialize)]
struct Answer {
    batch: String,
    document: String,
    outcome: Outcome,
}

/// Takes what NATS delivers until `stop`.
pub(crate) async fn take(service: &Service, stop: &CancellationToken) -> Result<(), Error> {
    let subject = format!("{}.>", streams::ANSWERS);
    let consumer =
        streams::consumer(&service.jetstream, streams::ANSWERS, "service", subject).await?;
    // What is there already makes one batch; nothing waits for more. A batch that has begun is ended.
    let batches = consumer.messages().await?.ready_chunks(BATCH_MAX);
    let mut batches = pin!(batches.take_until(stop.cancelled()));
    while let Some(batch) = batches.next().await {
        let mut messages = Vec::with_capacity(batch.len());
        for delivered in batch {
            match delivered {
                Ok(message) => messages.push(message),
                Err(error) => eprintln!("waiting for answers: {error}"),
            }
        }
        if let Err(error) = record(service, &messages).await {
            // Nothing is acknowledged: NATS delivers them again. What was committed after all is a duplicate.
            eprintln!("recording {} answers: {error}", messages.len());
            continue;
        }
        // After the commit. Killed before this they come again, as duplicates that change nothing.
        for message in &messages {
            message.ack().await?;
        }
    }
    streams::ended(stop, "answers")
}

/// Records a batch of answers in one transaction.
async fn record(service: &Service, messages: &[jetstream::Message]) -> Result<(), Error> {
    let mut batches: BTreeMap<BarrierId, Vec<Ack>> = BTreeMap::new();
    for message in messages {
        match read(&message.payload) {
            Ok((id, ack)) => batches.entry(id).or_default().push(ack),
            // It would be none the next time either, so it is taken off the stream with the others.
            Err(error) => eprintln!("an answer that is none: {error}"),
        }
    }
    let mut transaction = service.pool.begin().await?;
    for (id, acks) in batches {
        acknowledge(&mut transaction, &AckBatch::new(id, acks).by("nats")).await?;
    }
    service.wake.commit(transaction).await?; // The continuation may be in it: the relay looks.
    Ok(())
}

fn read(payload: &[u8]) -> Result<(BarrierId, Ack), Error> {
    let answer: Answer = serde_json::from_slice(payload)?;
    let member = MemberName::new(answer.document)?;
    Ok((Barriers::new().id(answer.batch)?, Ack { member, outcome: answer.outcome }))
}

/// Acknowledges documents in the caller's transaction, with the rows that belong to it, and gives the
/// answer for each.
pub(crate) async fn acknowledge(
    transaction: &mut Transaction<'_, Postgres>,
    batch: &AckBatch,
) -> Result<Vec<MemberAnswer>, Error> {
    let answers = match Barriers::new().ack_all(transaction, batch).await {
        Ok(acked) => acked.answers,
        // There is no such batch (any more). A refusal leaves the transaction usable.
        Err(Failed::Refused(refusal)) => {
            vec![MemberAnswer::Refused(refusal); batch.acks.len()]
        }
        Err(Failed::Driver(error)) => return Err(error.into()),
    };
    let mut resolved = Vec::new();
    for (ack, answer) in batch.acks.iter().zip(&answers) {
        match answer {
            MemberAnswer::Resolved => resolved.push(ack.member.to_string()),
            MemberAnswer::Duplicate { .. } => {} // The first one counts, and its row is there.
            MemberAnswer::Refused(refusal) => {
                sqlx::query("INSERT INTO refused VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
                    .bind(batch.id.id())
                    .bind(ack.member.to_string())
                    .bind(refusal.to_string())
                    .execute(&mut **transaction)
                    .await?;
            }
        }
    }
    sqlx::query("UPDATE documents SET answered_by = $1 WHERE batch = $2 AND name = ANY($3)")
        .bind(&batch.channel)
        .bind(batch.id.id())
        .bind(&resolved)
        .execute(&mut **transaction)
        .await?;
    Ok(answers)
}
