//! What is kept of acknowledgements that were refused.

use crate::barrier::EVIDENCE_MAX;
use crate::barrier::answer::{AckBatch, MemberAnswer};
use crate::barrier::refusal::RefusalCode;
use crate::barrier::status::{Evidence, EvidenceKind};
use crate::time::Timestamp;

/// The acknowledgements of a batch that are worth keeping as evidence, at most as many as are kept of
/// a barrier: unknown names and those that came too late.
#[must_use]
pub fn evidence(batch: &AckBatch, answers: &[MemberAnswer], at: Timestamp) -> Vec<Evidence> {
    let refused = batch.acks.iter().zip(answers).filter_map(|(ack, answer)| {
        let MemberAnswer::Refused(refusal) = answer else { return None };
        let kind = match refusal.code() {
            RefusalCode::UnknownMember => EvidenceKind::Unknown,
            RefusalCode::Conflict => EvidenceKind::Late,
            _ => return None,
        };
        Some(Evidence {
            at,
            kind,
            member: ack.member.clone(),
            near: refusal.near().to_vec(),
            ok: ack.outcome.is_ok(),
            channel: batch.channel.clone(),
        })
    });
    let mut all: Vec<Evidence> = refused.collect();
    all.split_off(all.len().saturating_sub(EVIDENCE_MAX))
}
