//! Acknowledgements.

use std::collections::HashMap;

use super::close::{Trigger, evaluate};
use super::near::{Unknown, refusals};
use super::{Found, Header, Members, Resolution, Tallies, readable, taken};
use crate::barrier::Answer;
use crate::barrier::answer::{Ack, AckBatch, AckedBatch, Late, MemberAnswer, Winner};
use crate::barrier::name::{BarrierId, MemberName};
use crate::barrier::refusal::{Refusal, RefusalCode};
use crate::barrier::status::BarrierState;
use crate::error::Result;
use crate::time::Timestamp;

/// The channel of what a probe finds.
const PROBE: &str = "probe";

/// Acknowledges what a probe has found: members that are still pending or were given up. The others
/// are passed over, since a probe finds everything each time.
///
/// # Errors
/// The driver's own error; then the store undoes what the call wrote.
pub async fn ack_found<M: Members>(
    m: &mut M,
    id: &BarrierId,
    mut acks: Vec<Ack>,
) -> Result<Answer<AckedBatch>, M::Error> {
    if let Some(header) = readable(m, id).await? {
        let names: Vec<MemberName> = acks.iter().map(|ack| ack.member.clone()).collect();
        let mut found = m.find(header.no, &names).await?.into_iter();
        acks.retain(|_| found.next().flatten().is_some_and(|one| one.resolved.is_none()));
    }
    ack(m, &AckBatch::new(id.clone(), acks).by(PROBE)).await
}

/// [`super::super::BarrierTransaction::ack_members`].
///
/// # Errors
/// The driver's own error; then the store undoes what the call wrote.
pub async fn ack<M: Members>(m: &mut M, batch: &AckBatch) -> Result<Answer<AckedBatch>, M::Error> {
    let now = m.now().await?;
    let mut header = match taken(m, &batch.id, now).await? {
        Ok(header) => header,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if let Some(epoch) = batch.epoch
        && epoch != header.epoch
    {
        return Ok(Err(Refusal::new(
            RefusalCode::Conflict,
            format!(
                "the acknowledgement is for epoch {epoch} of the barrier, which is at epoch {}",
                header.epoch
            ),
        )));
    }
    let mut desk = Sorted::of(batch);
    if batch.all_or_nothing
        && let Some(refusal) = refused_whole(m, &header, &desk).await?
    {
        return Ok(Err(refusal));
    }
    if header.state == BarrierState::Open {
        desk.resolve(m, &header, now).await?;
    }
    desk.answer_the_rest(m, &header).await?;
    let resolved = desk.resolved();
    let tallies = m.tallies(header.no).await?;
    if resolved > 0 {
        let failed = desk.any_failed();
        let trigger = if failed { Trigger::Failure } else { Trigger::Other };
        evaluate(m, &mut header, &tallies, trigger, now).await?;
    }
    Ok(Ok(AckedBatch {
        answers: desk.into_answers(now),
        complete: header.state.is_complete(),
        closing: false,
        remaining: Some(remaining(&header, &tallies)),
    }))
}

fn remaining(header: &Header, tallies: &Tallies) -> u64 {
    if header.state == BarrierState::Open { tallies.whole().pending } else { 0 }
}

/// A batch, with what is known of each acknowledgement so far.
struct Sorted<'a> {
    batch: &'a AckBatch,
    answers: Vec<Option<MemberAnswer>>,
    encoded: Vec<String>,
    /// The first acknowledgement of each name that can be kept.
    firsts: Vec<usize>,
    /// Another one of the same name, and which is the first.
    repeated: Vec<(usize, usize)>,
}

impl<'a> Sorted<'a> {
    fn of(batch: &'a AckBatch) -> Self {
        let count = batch.acks.len();
        let mut sorted = Self {
            batch,
            answers: vec![None; count],
            encoded: Vec::with_capacity(count),
            firsts: Vec::with_capacity(count),
            repeated: Vec::new(),
        };
        let mut seen: HashMap<&MemberName, usize> = HashMap::with_capacity(count);
        for (index, ack) in batch.acks.iter().enumerate() {
            match ack.outcome.encode() {
                Ok(encoded) => sorted.encoded.push(encoded),
                Err(refusal) => {
                    sorted.encoded.push(String::new());
                    sorted.answers[index] = Some(MemberAnswer::Refused(refusal));
                    continue;
                }
            }
            match seen.get(&ack.member) {
                Some(first) => sorted.repeated.push((index, *first)),
                None => {
                    seen.insert(&ack.member, index);
                    sorted.firsts.push(index);
                }
            }
        }
        sorted
    }

    fn ack(&self, index: usize) -> &'a Ack {
        &self.batch.acks[index]
    }

    fn names(&self, which: &[usize]) -> Vec<MemberName> {
        which.iter().map(|index| self.ack(*index).member.clone()).collect()
    }

    /// Resolves what is pending.
    async fn resolve<M: Members>(
        &mut self,
        m: &mut M,
        header: &Header,
        now: Timestamp,
    ) -> Result<(), M::Error> {
        let resolutions: Vec<Resolution<'_>> = self
            .firsts
            .iter()
            .map(|index| Resolution {
                member: &self.ack(*index).member,
                ok: self.ack(*index).outcome.is_ok(),
                encoded: &self.encoded[*index],
            })
            .collect();
        let resolved = m.resolve(header.no, &resolutions, now, &self.batch.channel).await?;
        for (index, resolved) in self.firsts.iter().zip(resolved) {
            if resolved {
                self.answers[*index] = Some(MemberAnswer::Resolved);
            }
        }
        Ok(())
    }

    /// Duplicates, late ones, and names that are not on the list.
    async fn answer_the_rest<M: Members>(
        &mut self,
        m: &mut M,
        header: &Header,
    ) -> Result<(), M::Error> {
        let rest: Vec<usize> =
            self.firsts.iter().copied().filter(|index| self.answers[*index].is_none()).collect();
        if rest.is_empty() {
            return Ok(());
        }
        let found = m.find(header.no, &self.names(&rest)).await?;
        let mut unknown = Vec::new();
        for (index, found) in rest.into_iter().zip(found) {
            match found {
                Some(found) => self.answers[index] = Some(of_found(self.ack(index), found, header)),
                None => unknown.push(Unknown { index, name: &self.ack(index).member }),
            }
        }
        for (index, refusal) in refusals(m, header, &unknown).await? {
            self.answers[index] = Some(MemberAnswer::Refused(refusal));
        }
        Ok(())
    }

    fn resolved(&self) -> usize {
        let resolved =
            |answer: &&Option<MemberAnswer>| matches!(answer, Some(MemberAnswer::Resolved));
        self.answers.iter().filter(resolved).count()
    }

    fn any_failed(&self) -> bool {
        self.answers.iter().zip(&self.batch.acks).any(|(answer, ack)| {
            matches!(answer, Some(MemberAnswer::Resolved)) && !ack.outcome.is_ok()
        })
    }

    /// With what the repeated ones get: they are duplicates of the first, or refused like it.
    fn into_answers(mut self, now: Timestamp) -> Vec<MemberAnswer> {
        for (index, first) in std::mem::take(&mut self.repeated) {
            let outcome = &self.ack(index).outcome;
            let winner = match &self.answers[first] {
                Some(MemberAnswer::Resolved) | None => {
                    Winner::of(&self.ack(first).outcome, now, self.batch.channel.as_str())
                }
                Some(MemberAnswer::Duplicate { winner, .. }) => winner.clone(),
                Some(refused @ MemberAnswer::Refused(_)) => {
                    self.answers[index] = Some(refused.clone());
                    continue;
                }
            };
            let conflict = winner.outcome().differs(outcome);
            self.answers[index] = Some(MemberAnswer::Duplicate { winner, conflict });
        }
        self.answers.into_iter().flatten().collect()
    }
}

/// The answer to an acknowledgement of a member that it did not resolve.
fn of_found(ack: &Ack, found: Found, header: &Header) -> MemberAnswer {
    match found.resolved {
        Some((outcome, at, channel)) => MemberAnswer::Duplicate {
            winner: Winner::of(&outcome, at, channel),
            conflict: outcome.differs(&ack.outcome),
        },
        None => MemberAnswer::Refused(Late { closed_at: header.completed_at }.refusal()),
    }
}

/// The first reason to refuse any of the batch.
async fn refused_whole<M: Members>(
    m: &mut M,
    header: &Header,
    sorted: &Sorted<'_>,
) -> Result<Option<Refusal>, M::Error> {
    if let Some(MemberAnswer::Refused(refusal)) = sorted.answers.iter().flatten().next() {
        return Ok(Some(refusal.clone()));
    }
    let found = m.find(header.no, &sorted.names(&sorted.firsts)).await?;
    for (index, found) in sorted.firsts.iter().zip(found) {
        match found {
            None => {
                let unknown = [Unknown { index: *index, name: &sorted.ack(*index).member }];
                let refusals = refusals(m, header, &unknown).await?;
                return Ok(refusals.into_iter().next().map(|(_, refusal)| refusal));
            }
            Some(found)
                if found.resolved.is_none()
                    && (found.missing || header.state != BarrierState::Open) =>
            {
                return Ok(Some(Late { closed_at: header.completed_at }.refusal()));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}
