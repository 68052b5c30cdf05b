//! `sendoff doctor`: examines the store, the settings and the target.
//!
//! The checks themselves are the store's and the target's; the ones here are about settings.

use sendoff::Error;
use sendoff::store::doctor::Limits;
use sendoff::store::{Finding, Grade};
use serde_json::json;

use crate::arguments::DoctorArguments;
use crate::configuration::{Configuration, parse_duration};
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, counted, shown};
use crate::store::Store;

/// Examines, and ends with a code for the worst that was found.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &DoctorArguments,
    form: Form,
) -> Ending {
    let duration =
        |operation, text: &str| parse_duration(text).map_err(|why| Error::invalid(operation, why));
    let limits = Limits {
        old_transaction: duration("reading --old-transaction", &arguments.old_transaction)?,
        oldest_due: duration("reading --oldest-due", &arguments.oldest_due)?,
    };
    let mut findings = match Store::open(configuration, false) {
        Ok(store) => store.doctor.examine(&limits).await,
        Err(Failure::Error { error, exit }) if exit != Exit::Usage => vec![not_there(&error)],
        Err(failure) => return Err(failure),
    };
    findings.push(settings(configuration));
    findings.extend(target(configuration).await?);
    let worst = findings.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Ok);
    form.answer(&json!({ "worst": worst, "findings": findings }), &text(&findings))?;
    Ok(match worst {
        Grade::Ok => Exit::Done,
        Grade::Warning => Exit::Warnings,
        Grade::Failure => Exit::Failures,
    })
}

fn not_there(error: &Error) -> Finding {
    Finding::failure("reachable", error.to_string(), error.what_next().unwrap_or("mend that"))
}

/// The lease against the publish timeout, and every other setting of the relay's.
fn settings(configuration: &Configuration) -> Finding {
    match configuration.relay() {
        Ok(relay) => Finding::ok(
            "relay-settings",
            format!(
                "a publish ends after {} ms, a lease after {} ms",
                relay.publish_timeout.as_millis(),
                relay.lease.as_millis()
            ),
        ),
        Err(error) => {
            let next = error.what_next().unwrap_or("change the setting; a relay would not start");
            Finding::failure("relay-settings", error.to_string(), next)
        }
    }
}

/// The target, where one is named.
async fn target(configuration: &Configuration) -> Result<Vec<Finding>, Failure> {
    let Some(url) = configuration.text("to") else {
        return Ok(Vec::new());
    };
    let target = sendoff::Target::read(url)?;
    // A message whose outcome is unknown is published again when its lease is over, or after a wait.
    let relay = configuration.relay().unwrap_or_default();
    let repeated_after = relay.lease + relay.backoff.max;
    Ok(target.examine(&configuration.target()?, repeated_after).await)
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let grade = match finding.grade {
            Grade::Ok => "ok",
            Grade::Warning => "WARNING",
            Grade::Failure => "FAILURE",
        };
        text.push_str(&format!("{grade:<8} {:<20} {}\n", finding.check, shown(&finding.found)));
        if let Some(next) = &finding.next {
            text.push_str(&format!("{:<8} {:<20} -> {}\n", "", "", shown(next)));
        }
    }
    let count = |grade| {
        let found = findings.iter().filter(|finding| finding.grade == grade).count();
        u64::try_from(found).unwrap_or(u64::MAX)
    };
    text.push_str(&format!(
        "{}, {}\n",
        counted(count(Grade::Failure), "failure"),
        counted(count(Grade::Warning), "warning")
    ));
    text
}
