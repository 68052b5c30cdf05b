//! `POST /v1/barriers/{id}/acks`: one acknowledgement, or a list of them.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use sendoff::barrier::{AckBatch, BarrierId, MemberAnswer, MemberName, Refusal, Winner};
use serde::Serialize;

use super::body::ACKS_BYTES_MAX;
use super::{Api, Problem, barrier};
use crate::acknowledgement::Acknowledgement;
use crate::address;

/// The most acknowledgements of one request, which are one transaction.
const ACKS_MAX: usize = 10_000;
const CHANNEL: &str = "http";
const EXAMPLE: &str = r#"{"member":"a.xml","ok":true}, or a list of these"#;

/// What became of a list.
#[derive(Debug, Serialize)]
struct Applied {
    id: String,
    resolved: u64,
    duplicate: u64,
    /// Of the resolved, those that say that they failed.
    failed: u64,
    refused: u64,
    complete: bool,
    remaining: Option<u64>,
    /// For each acknowledgement, in order.
    answers: Vec<One>,
}

/// What became of one of a list.
#[derive(Debug, Serialize)]
struct One {
    member: MemberName,
    #[serde(flatten)]
    answer: Became,
}

#[derive(Debug, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
enum Became {
    Resolved,
    Duplicate { winner: Winner, conflict: bool },
    Refused(Refusal),
}

/// Applies what the body has.
pub(super) async fn ack(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let id = barrier(head.uri.path())?;
    let all_or_nothing = all_or_nothing(head.uri.query().unwrap_or_default())?;
    let held = api.0.bodies.read(&head.headers, body, ACKS_BYTES_MAX).await?;
    let is_list = held.bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if is_list {
        let acks: Vec<Acknowledgement> = held.json(EXAMPLE).await?;
        return many(&api, id, acks, all_or_nothing).await;
    }
    let (_, ack) = held.json::<Acknowledgement>(EXAMPLE).await?.checked();
    let batch = AckBatch::new(id, vec![ack?]).by(CHANNEL);
    let acked = api.0.desk.ack_members(&batch).await??.only()?;
    api.0.wake.wake();
    Ok(Answer(acked).into_response())
}

fn all_or_nothing(query: &str) -> Result<bool, Problem> {
    match address::parameters(query).as_slice() {
        [] => Ok(false),
        [(name, value)] if name == "all_or_nothing" => Ok(value.as_deref() != Some(b"false")),
        _ => Err(Problem::new("invalid", "the only parameter is all_or_nothing")),
    }
}

async fn many(
    api: &Api,
    id: BarrierId,
    said: Vec<Acknowledgement>,
    all_or_nothing: bool,
) -> Result<Response, Problem> {
    if said.len() > ACKS_MAX {
        return Err(Problem::new(
            "too_large",
            format!("{} acknowledgements are over the limit of {ACKS_MAX} a request", said.len()),
        ));
    }
    let mut acks = Vec::with_capacity(said.len());
    // What is over a limit is refused for itself, as what is unknown is.
    let mut places = Vec::with_capacity(said.len());
    for one in said {
        let (member, ack) = one.checked();
        let failed = ack.as_ref().is_ok_and(|ack| !ack.outcome.is_ok());
        match ack {
            Ok(ack) => {
                acks.push(ack);
                places.push((member, failed, None));
            }
            Err(refusal) if all_or_nothing => return Err(refusal.into()),
            Err(refusal) => places.push((member, failed, Some(refusal))),
        }
    }
    let mut batch = AckBatch::new(id, acks).by(CHANNEL);
    if all_or_nothing {
        batch = batch.all_or_nothing();
    }
    let acked = api.0.desk.ack_members(&batch).await??;
    api.0.wake.wake();
    let mut applied = Applied {
        id: batch.id.id().to_owned(),
        resolved: acked.resolved(),
        duplicate: acked.duplicates(),
        failed: 0,
        refused: 0,
        complete: acked.complete,
        remaining: acked.remaining,
        answers: Vec::with_capacity(places.len()),
    };
    let mut answers = acked.answers.into_iter();
    for (member, failed, refusal) in places {
        let answer = match refusal.map(MemberAnswer::Refused).or_else(|| answers.next()) {
            Some(MemberAnswer::Resolved) | None => {
                applied.failed += u64::from(failed);
                Became::Resolved
            }
            Some(MemberAnswer::Duplicate { winner, conflict }) => {
                Became::Duplicate { winner, conflict }
            }
            Some(MemberAnswer::Refused(refusal)) => {
                applied.refused += 1;
                Became::Refused(refusal)
            }
        };
        applied.answers.push(One { member, answer });
    }
    Ok(Answer(applied).into_response())
}
