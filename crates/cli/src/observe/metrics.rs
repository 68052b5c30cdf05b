//! Every metric, and the page that has them. `docs/reference/metrics.md` says how to read them.

use std::time::Duration;

use sendoff::relay::{Tally, Timings};
use sendoff::store::{AgeFrom, Backlog};

use super::exposition::{Kind, Metric, Page};
use super::{Observed, Role};

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, help }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, help }
}

const BUILD: Metric = gauge("sendoff_build_info", "Always 1; the label has the program's version.");
const READY: Metric = gauge("sendoff_ready", "Whether /health/ready answers 200.");

/// A metric of a tally, and which of its numbers it is.
type OfTally = (Metric, fn(&Tally) -> u64);

/// What is counted of publishes, for a target.
const OF_TARGET: [OfTally; 6] = [
    (counter("sendoff_relay_publishes_begun_total", "Publishes begun."), |t| t.begun),
    (
        counter("sendoff_relay_publishes_confirmed_total", "Publishes that the target confirmed."),
        |t| t.confirmed,
    ),
    (
        counter(
            "sendoff_relay_publishes_failed_total",
            "Publishes that failed and are tried again.",
        ),
        |t| t.failed,
    ),
    (
        counter("sendoff_relay_publishes_unknown_total", "Publishes whose outcome is unknown."),
        |t| t.unknown,
    ),
    (gauge("sendoff_relay_publishes_in_flight", "Publishes in flight."), |t| t.in_flight),
    (
        gauge("sendoff_relay_target_down", "1 while the target takes nothing and is waited for."),
        |t| t.targets_down,
    ),
];

/// What is counted of the relay as a whole.
const OF_RELAY: [OfTally; 13] = [
    (counter("sendoff_relay_rows_read_total", "Rows read from the store."), |t| t.read),
    (
        counter("sendoff_relay_messages_settled_total", "Confirmed messages that were settled."),
        |t| t.settled,
    ),
    (
        counter("sendoff_relay_messages_quarantined_total", "Messages that went to quarantine."),
        |t| t.quarantined,
    ),
    (
        counter("sendoff_relay_messages_held_total", "Messages that were held behind their key."),
        |t| t.held,
    ),
    (
        counter("sendoff_relay_verdicts_fenced_total", "Verdicts that came too late to count."),
        |t| t.fenced,
    ),
    (counter("sendoff_relay_lanes_taken_total", "Lanes taken."), |t| t.lanes_taken),
    (counter("sendoff_relay_lanes_left_total", "Lanes given back or lost."), |t| t.lanes_left),
    (counter("sendoff_relay_looks_total", "Looks at the store."), |t| t.looks),
    (counter("sendoff_relay_settlements_total", "Settlements."), |t| t.settlements),
    (counter("sendoff_relay_store_failures_total", "Calls to the store that failed."), |t| {
        t.store_failures
    }),
    (gauge("sendoff_relay_lanes_owned", "Lanes owned."), |t| t.lanes_owned),
    (gauge("sendoff_relay_window_rows", "Rows in memory."), |t| t.window_rows),
    (gauge("sendoff_relay_window_bytes", "Bytes of messages in memory."), |t| t.window_bytes),
];

const PUBLISH: Metric = histogram(
    "sendoff_relay_publish_duration_seconds",
    "From the hand-over of a message to the target's confirmation.",
);
const LAG: Metric = histogram(
    "sendoff_relay_message_lag_seconds",
    "From when a message was due until the target's confirmation.",
);
const STORE_UP: Metric = gauge("sendoff_store_up", "Whether the store could be counted.");
const OLDEST: Metric = gauge(
    "sendoff_outbox_oldest_due_age_seconds",
    "The age of the oldest message that is due; 0 where none is.",
);

/// A metric of the backlog.
type OfBacklog = (Metric, fn(&Backlog) -> u64);

const OF_BACKLOG: [OfBacklog; 3] = [
    (gauge("sendoff_outbox_due_messages", "Messages that are due, counted up to 100000."), |b| {
        b.due
    }),
    (gauge("sendoff_outbox_held_messages", "Messages held, counted up to 100000."), |b| b.held),
    (gauge("sendoff_outbox_quarantined_messages", "Messages in quarantine, up to 100000."), |b| {
        b.quarantined
    }),
];

/// The page as it is now.
pub(super) async fn page(observed: &Observed) -> String {
    let ready = observed.ready().await == super::Ready::Yes;
    let backlog = observed.0.backlogs.read().await;
    let mut page = Page::default();
    page.value(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.value(&READY, &[], u8::from(ready));
    if let Role::Relay { target, running } = &observed.0.role
        && let Some(running) = running.get()
    {
        relay(&mut page, target, &running.progress.tally(), &running.timings);
    }
    outbox(&mut page, backlog.as_ref());
    page.text()
}

fn relay(page: &mut Page, target: &str, tally: &Tally, timings: &Timings) {
    let label = ("target", target);
    for (metric, of) in &OF_TARGET {
        page.count(metric, &[label], of(tally));
    }
    page.histogram(&PUBLISH, label, None, &timings.publish());
    for (word, from) in [("commit", AgeFrom::Commit), ("creation", AgeFrom::Creation)] {
        page.histogram(&LAG, label, Some(("since", word)), &timings.lag(from));
    }
    for (metric, of) in &OF_RELAY {
        page.count(metric, &[], of(tally));
    }
}

fn outbox(page: &mut Page, backlog: Option<&Backlog>) {
    page.value(&STORE_UP, &[], u8::from(backlog.is_some()));
    // What is not known is left out: 0 would look like a good time.
    let Some(backlog) = backlog else { return };
    page.value(&OLDEST, &[], backlog.oldest_due.unwrap_or(Duration::ZERO).as_secs_f64());
    for (metric, of) in &OF_BACKLOG {
        page.count(metric, &[], of(backlog));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::backlog::COUNT_MAX;
    use super::*;

    /// Name and kind of every metric on a page that has all of them.
    fn written() -> BTreeMap<String, String> {
        let mut page = Page::default();
        page.value(&BUILD, &[], 1.0);
        page.value(&READY, &[], 1.0);
        relay(&mut page, "file:out.jsonl", &Tally::default(), &Timings::default());
        outbox(&mut page, Some(&Backlog::default()));
        let text = page.text();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types
            .map(|line| line.split_once(' ').unwrap())
            .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
            .collect()
    }

    #[test]
    fn the_reference_has_every_metric_with_its_kind_and_no_other() {
        let reference = include_str!("../../../../docs/reference/metrics.md");
        let rows = reference.lines().filter_map(|line| line.strip_prefix("| `sendoff_"));
        let described: BTreeMap<String, String> = rows
            .map(|row| {
                let mut cells = row.split('|');
                let name = cells.next().unwrap().trim().trim_end_matches('`');
                (format!("sendoff_{name}"), cells.next().unwrap().trim().to_owned())
            })
            .collect();
        assert_eq!(written(), described);
    }

    #[test]
    fn names_end_with_what_they_are() {
        for (name, kind) in written() {
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            assert_eq!(name.ends_with("_seconds"), kind == "histogram" || name.contains("_age_"));
        }
    }

    #[test]
    fn the_helps_say_how_far_is_counted() {
        let word = COUNT_MAX.to_string();
        assert!(OF_BACKLOG.iter().all(|(metric, _)| metric.help.contains(&word)));
    }

    #[test]
    fn a_store_that_does_not_answer_has_no_counts() {
        let mut page = Page::default();
        outbox(&mut page, None);
        let text = page.text();
        assert!(text.contains("sendoff_store_up 0\n"), "{text}");
        assert!(!text.contains("sendoff_outbox"), "{text}");
    }
}
