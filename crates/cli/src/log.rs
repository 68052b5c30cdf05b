//! Structured logs, to standard error. No password and no body is ever logged.

use std::io::IsTerminal;
use std::time::Duration;

use sendoff::Message;
use sendoff::relay::{Alert, Hold, Report};
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
        tracing::warn!(
            event = "stray_variable",
            variable = stray,
            "this variable is not a setting"
        );
    }
}

/// Logs what a relay to `target`, an address without a password, survived and noticed. Every report is
/// one line with an `event`; `docs/reference/logs.md` has them all.
pub(crate) fn reports(target: &str) -> impl Fn(&Report) + Send + Sync + 'static {
    let target = target.to_owned();
    move |report| log(report, &target)
}

fn log(report: &Report, target: &str) {
    match report {
        Report::Quarantined { seq, message, reason, error, holds, .. } => {
            quarantined((*seq, *holds), message.as_ref(), reason.as_str(), error, target);
        }
        Report::PublishFailed { seq, message, error, holds } => tracing::warn!(
            event = "publish_failed", seq, id = message.id(), source = message.source(),
            topic = message.topic(), target_address = target, %error, holds = holds.as_str(),
            "a publish failed; it will be tried again{}",
            match holds {
                Hold::None => "",
                Hold::Key => ", and the later messages of its key wait for it",
                Hold::All => ", and every later message waits for it",
            }
        ),
        Report::TargetDown { target, error } => tracing::error!(
            event = "target_down", target_address = target, %error,
            "the target takes nothing; waiting for it"
        ),
        Report::TargetUp { target } => tracing::info!(
            event = "target_up",
            target_address = target,
            "the target takes messages again"
        ),
        Report::StandingBy { lanes } => tracing::warn!(
            event = "standing_by",
            lanes,
            "standing by: another relay holds the store; this one publishes nothing until it has \
             stopped or died"
        ),
        Report::StoreFailed(error) => tracing::error!(
            event = "store_failed", kind = error.kind().as_str(), %error,
            "the store failed; trying again"
        ),
        Report::GateFailed(error) => tracing::error!(
            event = "gate_failed", kind = error.kind().as_str(), %error,
            "the gate failed; asking again"
        ),
        Report::Fenced { seqs } => tracing::warn!(
            event = "fenced",
            count = seqs.len(),
            first_seq = seqs.first(),
            "verdicts came too late: another relay owns their lanes now"
        ),
        Report::Lagging { oldest_due, bound } => tracing::warn!(
            event = "lagging",
            oldest_due_ms = millis(*oldest_due),
            bound_ms = millis(*bound),
            target_address = target,
            "the oldest due message is too old: see whether the target is down or too slow"
        ),
        Report::Growing { alert, count, bound } => tracing::warn!(
            event = "growing",
            alert = alert.as_str(),
            count,
            bound,
            target_address = target,
            "{}",
            advice(*alert)
        ),
        Report::Recovered { alert } => {
            tracing::info!(event = "recovered", alert = alert.as_str(), "what was alerted is over")
        }
        // A report of a later library. It is not printed: it may hold a message.
        _ => tracing::warn!(
            event = "other",
            "the relay survived something that this program has no words for"
        ),
    }
}

fn quarantined(
    (seq, holds): (i64, Hold),
    message: Option<&Message>,
    reason: &str,
    error: &str,
    target: &str,
) {
    let (id, source, topic) =
        message.map_or(("", "", ""), |message| (message.id(), message.source(), message.topic()));
    tracing::error!(
        event = "quarantined",
        seq,
        id,
        source,
        topic,
        target_address = target,
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

fn advice(alert: Alert) -> &'static str {
    match alert {
        Alert::Held => {
            "many messages are held: see `sendoff quarantine list` for what they wait for"
        }
        Alert::Quarantined => {
            "messages stand in quarantine: see `sendoff quarantine list`, mend the cause, requeue"
        }
        _ => "many messages are due: see whether the target is down or too slow, or add a relay",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
