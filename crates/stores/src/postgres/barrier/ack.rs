//! Acknowledgements.

use sendoff_core::barrier::{
    Ack, AckBatch, AckedBatch, Answer, Late, MemberAnswer, MemberName, Outcome, Refusal,
    RefusalCode, Winner, near_forms,
};
use serde::Deserialize;

use super::{Asks, Param, call, refusal, time, unhex};
use crate::postgres::sql;

/// So many names of a batch that are on no list are compared with those that are.
const NEAR_SEARCHED: usize = 10;
/// So many members are looked at for near misses.
const NEAR_AMONG: i32 = 20_000;

/// What became of one: its place in the batch, a word, when, and of a duplicate the outcome and the
/// channel that count.
type Row = (usize, String, Option<i64>, Option<String>, Option<String>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    refused: Option<String>,
    detail: Option<String>,
    complete: bool,
    closing: bool,
    undone: bool,
    rows: Vec<Row>,
}

pub(super) async fn ack<A: Asks>(
    asks: &mut A,
    batch: &AckBatch,
) -> Result<Answer<AckedBatch>, A::Error> {
    let mut answers = Vec::with_capacity(batch.acks.len());
    let mut given = Vec::with_capacity(batch.acks.len());
    let mut outcomes = Vec::with_capacity(batch.acks.len());
    for ack in &batch.acks {
        match ack.outcome.encode() {
            Ok(encoded) => {
                answers.push(MemberAnswer::Resolved);
                given.push(ack);
                outcomes.push(encoded);
            }
            Err(refusal) if batch.all_or_nothing => return Ok(Err(refusal)),
            Err(refusal) => answers.push(MemberAnswer::Refused(refusal)),
        }
    }
    let places: Vec<usize> =
        (0..answers.len()).filter(|place| answers[*place] == MemberAnswer::Resolved).collect();
    let said: Said = asks.ask(resolution(batch, &given, &outcomes)).await?;
    if let Some(refusal) = refusal(said.refused, said.detail, &batch.id) {
        return Ok(Err(refusal));
    }
    let near = near(asks, batch, &given, &said.rows).await?;
    let mut near = near.into_iter();
    for row in said.rows {
        let Some((place, ack)) = row.0.checked_sub(1).and_then(|n| places.get(n).zip(given.get(n)))
        else {
            continue;
        };
        let answer = match row.1.as_str() {
            "unknown" => MemberAnswer::Refused(unknown(ack, near.next().unwrap_or_default())),
            "late" => MemberAnswer::Refused(Late { closed_at: row.2.map(time) }.refusal()),
            _ => duplicate(ack, row),
        };
        match answer {
            MemberAnswer::Refused(refusal) if said.undone => return Ok(Err(refusal)),
            answer => answers[*place] = answer,
        }
    }
    let remaining = said.complete.then_some(0);
    Ok(Ok(AckedBatch { answers, complete: said.complete, closing: said.closing, remaining }))
}

fn resolution<'a>(
    batch: &'a AckBatch,
    given: &[&'a Ack],
    outcomes: &'a [String],
) -> super::Call<'a> {
    let epoch = batch.epoch.map(|epoch| i32::try_from(epoch).unwrap_or(i32::MAX));
    if let ([ack], [outcome], false) = (given, outcomes, batch.all_or_nothing) {
        let params = [
            Param::Bytes(ack.member.as_bytes()),
            Param::Flag(ack.outcome.is_ok()),
            Param::Text(Some(outcome)),
            Param::Text(Some(&batch.channel)),
            Param::Int(epoch),
        ];
        return call(sql::BARRIER_RESOLVE_ONE, &batch.id, params);
    }
    call(
        sql::BARRIER_RESOLVE,
        &batch.id,
        [
            Param::Names(given.iter().map(|ack| ack.member.as_bytes()).collect()),
            Param::Flags(given.iter().map(|ack| ack.outcome.is_ok()).collect()),
            Param::Texts(Some(outcomes.iter().map(String::as_str).collect())),
            Param::Text(Some(&batch.channel)),
            Param::Flag(batch.all_or_nothing),
            Param::Int(epoch),
        ],
    )
}

fn duplicate(ack: &Ack, (_, _, at, outcome, channel): Row) -> MemberAnswer {
    let first = Outcome::decode(&outcome.unwrap_or_default());
    let winner = Winner::of(&first, time(at.unwrap_or_default()), channel.unwrap_or_default());
    MemberAnswer::Duplicate { winner, conflict: first.differs(&ack.outcome) }
}

fn unknown(ack: &Ack, near: Vec<MemberName>) -> Refusal {
    Refusal::new(
        RefusalCode::UnknownMember,
        format!("{:?} is not on the barrier's list of members", ack.member),
    )
    .with_near(near)
}

/// For the first few unknown names, in order: members that they may have meant.
async fn near<A: Asks>(
    asks: &mut A,
    batch: &AckBatch,
    given: &[&Ack],
    rows: &[Row],
) -> Result<Vec<Vec<MemberName>>, A::Error> {
    let unknown = rows.iter().filter(|row| row.1 == "unknown").take(NEAR_SEARCHED);
    let forms: Vec<Vec<Vec<u8>>> = unknown
        .filter_map(|row| given.get(row.0.checked_sub(1)?))
        .map(|ack| near_forms(ack.member.as_bytes()))
        .collect();
    if forms.is_empty() {
        return Ok(Vec::new());
    }
    // The forms themselves are often the names: those are found however many members there are.
    let likely = forms.iter().flatten().map(Vec::as_slice).filter(|form| !form.is_empty());
    let params = [Param::Names(likely.collect()), Param::Int(Some(NEAR_AMONG))];
    let found: Option<Vec<String>> = asks.ask(call(sql::BARRIER_NAMES, &batch.id, params)).await?;
    let mut near: Vec<Vec<MemberName>> = vec![Vec::new(); forms.len()];
    for name in found.unwrap_or_default() {
        let Ok(name) = MemberName::new(unhex(&name)) else {
            continue;
        };
        let of_member = near_forms(name.as_bytes());
        for (forms, near) in forms.iter().zip(&mut near) {
            if near.len() < 5
                && !near.contains(&name)
                && forms.iter().any(|f| of_member.contains(f))
            {
                near.push(name.clone());
            }
        }
    }
    Ok(near)
}
