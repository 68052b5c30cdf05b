//! `sendoff barrier ack ID MEMBER`: one acknowledgement.

use sendoff::barrier::{Ack, AckBatch, Acked, Outcome};

use super::{answered, barrier, json, member, open};
use crate::arguments::AckArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, grouped, shown};

pub(super) const DOING: &str = "acknowledging";

/// Acknowledges one member. A duplicate is no failure.
pub(super) async fn run(
    configuration: &Configuration,
    arguments: &AckArguments,
    form: Form,
) -> Ending {
    let id = barrier(arguments.id.as_str())?;
    let member = member(arguments.member.as_deref().unwrap_or_default())?;
    let outcome = outcome(arguments)?;
    let name = format!("{member}");
    let batch = AckBatch::new(id, vec![Ack { member, outcome }]).by(&arguments.channel);
    let store = open(configuration).await?;
    let acked = answered(&store, DOING, store.barriers.ack_members(&batch).await)?
        .only()
        .map_err(|refusal| Failure::refused(DOING, refusal))?;
    form.answer(&acked, &text(&name, &acked))?;
    Ok(Exit::Done)
}

fn outcome(arguments: &AckArguments) -> Result<Outcome, Failure> {
    let mut outcome = if arguments.failed { Outcome::failed() } else { Outcome::ok() };
    if let Some(error) = &arguments.error {
        outcome = outcome.with_error(error);
    }
    if let Some(result) = json("--result", arguments.result.as_deref())? {
        outcome = outcome.with_result(result);
    }
    // Over the limit is refused before anything is opened.
    outcome.encode().map_err(|refusal| Failure::refused(DOING, refusal))?;
    Ok(outcome)
}

fn text(name: &str, acked: &Acked) -> String {
    let mut text = match &acked.winner {
        Some(winner) => format!(
            "{name} was acknowledged before: {} at {}{}; nothing was changed{}",
            if winner.ok { "ok" } else { "failed" },
            winner.at,
            match winner.channel.as_str() {
                "" => String::new(),
                channel => format!(" by {}", shown(channel)),
            },
            if acked.conflict { ", though this one says otherwise" } else { "" },
        ),
        None => format!("{name} is acknowledged"),
    };
    match (acked.complete, acked.remaining) {
        (true, _) => text.push_str("; the barrier is complete"),
        (false, Some(remaining)) => text.push_str(&format!("; {} remain", grouped(remaining))),
        (false, None) => {}
    }
    text
}
