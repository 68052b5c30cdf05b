//! Structured logs, to standard error. No password and no body is ever logged.

use std::io::IsTerminal;

use sendoff::relay::{Hold, Report};
use tracing_subscriber::EnvFilter;

use crate::configuration::Configuration;
use crate::terminal::Above;

/// Begins to log as the configuration says.
pub(crate) fn begin(configuration: &Configuration) {
    let level = configuration.text("log.level").unwrap_or("info");
    // Ours at the level that was asked for; the drivers' own at most as warnings, since they are
    // not written with this program's promises about secrets in mind.
    let drivers = match level {
        "off" | "error" => level,
        _ => "warn",
    };
    let filter = EnvFilter::new(format!(
        "{drivers},sendoff={level},sendoff_core={level},sendoff_stores={level},sendoff_brokers={level}"
    ));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Above)
        .with_ansi(std::io::stderr().is_terminal());
    // An error means that somebody has begun already: then there are logs.
    let _ = if configuration.text("log.format") == Some("json") {
        tracing::subscriber::set_global_default(builder.json().flatten_event(true).finish())
    } else {
        tracing::subscriber::set_global_default(builder.finish())
    };
    for stray in &configuration.strays {
        tracing::warn!(variable = stray, "this variable is not a setting");
    }
}

/// Logs what a relay survived.
pub(crate) fn report(report: &Report) {
    match report {
        Report::Quarantined { seq, message, reason, error, holds, .. } => {
            let (id, source, topic) = message
                .as_ref()
                .map_or(("", "", ""), |message| (message.id(), message.source(), message.topic()));
            let reason = reason.as_str();
            tracing::error!(
                seq,
                id,
                source,
                topic,
                reason,
                error,
                holds = holds.as_str(),
                "a message went to quarantine{}; see `sendoff quarantine list`",
                match holds {
                    Hold::None => ", and the others go on",
                    Hold::Key | Hold::All => " and holds the later messages of its key",
                }
            );
        }
        Report::PublishFailed { seq, message, error, holds } => tracing::warn!(
            seq, id = message.id(), source = message.source(), topic = message.topic(), %error,
            holds = holds.as_str(),
            "a publish failed; it will be tried again{}",
            match holds {
                Hold::None => "",
                Hold::Key => ", and the later messages of its key wait for it",
                Hold::All => ", and every later message waits for it",
            }
        ),
        Report::TargetDown { target, error } => {
            tracing::error!(target_address = target, %error, "the target takes nothing; waiting for it");
        }
        Report::TargetUp { target } => {
            tracing::info!(target_address = target, "the target takes messages again");
        }
        Report::StandingBy { lanes } => tracing::warn!(
            lanes,
            "standing by: another relay holds the store; this one publishes nothing until it has \
             stopped or died"
        ),
        Report::StoreFailed(error) => {
            tracing::error!(kind = error.kind().as_str(), %error, "the store failed; trying again");
        }
        Report::GateFailed(error) => {
            tracing::error!(kind = error.kind().as_str(), %error, "the gate failed; asking again");
        }
        Report::Fenced { seqs } => tracing::warn!(
            count = seqs.len(),
            first_seq = seqs.first(),
            "verdicts came too late: another relay owns their lanes now"
        ),
        // A report of a later library. It is not printed: it may hold a message.
        _ => tracing::warn!("the relay survived something that this program has no words for"),
    }
}
