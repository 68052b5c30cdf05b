//! How barriers are shown to people.

use sendoff::barrier::{Evidence, EvidenceKind, MemberOutcome, Status, Why};
use sendoff::time::Timestamp;

use crate::output::{grouped, shown, table};
use crate::store::quoted;

/// How many evidence lines are shown; `--json` has all that are kept.
const EVIDENCE_SHOWN: usize = 20;

/// How a barrier stands.
pub(super) fn status(status: &Status) -> String {
    let mut text = format!("barrier      {}\n", shown(&status.id));
    let mut field = |name: &str, value: String| text.push_str(&format!("{name:<13}{value}\n"));
    let reason = status.reason.map_or(String::new(), |reason| format!(" ({})", reason.as_str()));
    let state = status.state.as_str();
    let sealed = if status.sealed { "" } else { ", not sealed: it may grow" };
    let overdue = if status.overdue { ", OVERDUE" } else { "" };
    field("state", format!("{state}{reason}{sealed}{overdue}"));
    field(
        "members",
        format!(
            "{}  (resolved {}, of these failed {}; pending {}; missing {})",
            grouped(status.total),
            grouped(status.resolved),
            grouped(status.failed),
            grouped(status.pending),
            grouped(status.missing)
        ),
    );
    if status.epoch > 1 {
        field("epoch", status.epoch.to_string());
    }
    if let Some(topic) = &status.continue_with {
        let dispatched = match (status.complete, status.dispatched) {
            (true, Some(true)) => ", sent and confirmed",
            (true, _) => ", in the outbox until a relay publishes it",
            (false, _) => "",
        };
        field("continues", format!("{}{dispatched}", shown(topic)));
    }
    if let Some(parent) = &status.parent {
        field("member of", format!("{} as {}", shown(&parent.id), parent.member));
    }
    field("created", status.created_at.to_string());
    for (name, at) in [
        ("deadline", status.deadline_at),
        ("last ack", status.last_ack_at),
        ("ended", status.completed_at),
    ] {
        if let Some(at) = at {
            field(name, at.to_string());
        }
    }
    field("expires", status.expires_at.to_string());
    text
}

/// What a barrier waits for.
pub(super) fn why(why: &Why) -> String {
    let mut text = status(&why.status);
    let mut field = |name: &str, value: String| text.push_str(&format!("{name:<13}{value}\n"));
    field("why", waits(why));
    let at = |at: Option<Timestamp>| at.map_or("-".to_owned(), |at| at.to_string());
    if why.status.pending > 0 {
        let rate = why.acks_per_s.map_or("-".to_owned(), |rate| format!("{rate:.1}/s"));
        field("rate", rate);
        field("estimated", at(why.estimated_at));
    }
    for (index, member) in why.waiting_for.iter().enumerate() {
        field(if index == 0 { "waiting for" } else { "" }, member.to_string());
    }
    let shown_of = u64::try_from(why.waiting_for.len()).unwrap_or(u64::MAX);
    if why.status.pending > shown_of {
        let more = grouped(why.status.pending - shown_of);
        let id = quoted(&shown(&why.status.id));
        field("", format!("and {more} more: sendoff barrier results {id} --pending"));
    }
    for (index, evidence) in why.evidence.iter().take(EVIDENCE_SHOWN).enumerate() {
        field(if index == 0 { "refused" } else { "" }, refused(evidence));
    }
    if why.evidence.len() > EVIDENCE_SHOWN {
        field("", format!("and {} more", why.evidence.len() - EVIDENCE_SHOWN));
    }
    text
}

fn waits(why: &Why) -> String {
    use sendoff::barrier::BarrierState as State;
    let status = &why.status;
    match status.state {
        State::Open if status.pending > 0 && status.last_ack_at.is_none() => {
            format!("{} members are pending; none was acknowledged yet", grouped(status.pending))
        }
        State::Open if status.pending > 0 => {
            format!("{} members are pending", grouped(status.pending))
        }
        State::Open if !status.sealed => {
            "nothing is pending; it completes when it is sealed".to_owned()
        }
        State::Open => "nothing is pending; a relay's sweep completes it".to_owned(),
        State::Closing => "it is closing; a relay finishes that".to_owned(),
        State::Complete | State::Deadline => match (status.dispatched, &status.continue_with) {
            (Some(false), Some(_)) => {
                "it has ended; its continuation is in the outbox: is `sendoff relay` running?"
                    .to_owned()
            }
            _ => "it waits for nothing: it has ended".to_owned(),
        },
        State::Cancelled => "it waits for nothing: it was cancelled".to_owned(),
        State::Expired => "it waits for nothing: its week is over".to_owned(),
    }
}

fn refused(evidence: &Evidence) -> String {
    let kind = match evidence.kind {
        EvidenceKind::Unknown => "is not on the list",
        EvidenceKind::Late => "came after the end",
    };
    let mut text = format!("{:?} {kind} ({}", evidence.member, evidence.at);
    if !evidence.channel.is_empty() {
        text.push_str(&format!(", by {}", shown(&evidence.channel)));
    }
    text.push(')');
    if !evidence.near.is_empty() {
        let near: Vec<String> = evidence.near.iter().map(|name| format!("{name:?}")).collect();
        text.push_str(&format!("; near {}", near.join(", ")));
    }
    text
}

/// A page of barriers.
pub(super) fn list(barriers: &[Status], next_after: Option<&str>) -> String {
    if barriers.is_empty() {
        return "there are no barriers\n".to_owned();
    }
    let rows: Vec<Vec<String>> = barriers
        .iter()
        .map(|status| {
            vec![
                shown(&status.id),
                status.state.as_str().to_owned(),
                grouped(status.total),
                grouped(status.pending),
                grouped(status.failed),
                status.created_at.to_string(),
                if status.overdue { "OVERDUE".to_owned() } else { String::new() },
            ]
        })
        .collect();
    let headings = ["id", "state", "members", "pending", "failed", "created", ""];
    let mut text = table(&headings, &rows);
    if let Some(id) = next_after {
        text.push_str(&format!("there may be more: --after {}\n", quoted(&shown(id))));
    }
    text
}

/// A member with its outcome, on one line.
pub(super) fn member(member: &MemberOutcome) -> String {
    let mut text = match &member.outcome {
        Some(outcome) if outcome.is_ok() => format!("ok       {}", member.member),
        Some(_) => format!("failed   {}", member.member),
        None => format!("-        {}", member.member),
    };
    if let Some(outcome) = &member.outcome {
        if let Some(error) = outcome.error() {
            text.push_str(&format!("  {}", shown(error)));
        }
        if let Some(result) = outcome.result() {
            text.push_str(&format!("  {}", shown(result.as_str())));
        }
    }
    text
}
