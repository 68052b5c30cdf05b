//! Alerts are told once, and again only when what they told is over.

use std::time::Duration;

use crate::relay::alerts::{Alert, AlertSettings, Alerts};
use crate::relay::report::Report;
use crate::store::Backlog;

const SECOND: Duration = Duration::from_secs(1);

fn told(reports: &[Report]) -> Vec<String> {
    reports
        .iter()
        .map(|report| match report {
            Report::Lagging { oldest_due, .. } => format!("lagging {oldest_due:?}"),
            Report::Growing { alert, count, .. } => format!("growing {} {count}", alert.as_str()),
            Report::Recovered { alert } => format!("recovered {}", alert.as_str()),
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn an_age_is_told_at_its_bound_and_again_when_it_has_halved() {
    let settings = AlertSettings { age: Some(10 * SECOND), ..AlertSettings::default() };
    let mut alerts = Alerts::default();
    let mut at = |seconds: u32| {
        let backlog = Backlog { oldest_due: Some(seconds * SECOND), ..Backlog::default() };
        told(&alerts.check(&settings, &backlog))
    };
    assert!(at(9).is_empty());
    assert_eq!(at(10), ["lagging 10s"]);
    // Around the bound it says nothing more.
    for seconds in [11, 9, 10, 6, 12] {
        assert!(at(seconds).is_empty(), "{seconds}");
    }
    assert_eq!(at(5), ["recovered age"]);
    assert!(at(9).is_empty());
    assert_eq!(at(10), ["lagging 10s"]);
}

#[test]
fn an_empty_outbox_ends_an_alert_on_age() {
    let settings = AlertSettings { age: Some(SECOND), ..AlertSettings::default() };
    let mut alerts = Alerts::default();
    let old = Backlog { oldest_due: Some(SECOND), ..Backlog::default() };
    assert_eq!(alerts.check(&settings, &old).len(), 1);
    assert!(alerts.any());
    assert_eq!(told(&alerts.check(&settings, &Backlog::default())), ["recovered age"]);
    assert!(!alerts.any());
}

#[test]
fn each_count_has_an_alert_of_its_own() {
    let settings = AlertSettings {
        backlog: Some(100),
        held: Some(10),
        quarantined: Some(1),
        ..AlertSettings::default()
    };
    let mut alerts = Alerts::default();
    let all = Backlog { due: 100, held: 10, quarantined: 1, ..Backlog::default() };
    let expected = ["growing backlog 100", "growing held 10", "growing quarantined 1"];
    assert_eq!(told(&alerts.check(&settings, &all)), expected);
    let some = Backlog { due: 50, held: 6, quarantined: 1, ..Backlog::default() };
    assert_eq!(told(&alerts.check(&settings, &some)), ["recovered backlog"]);
    let none = Backlog::default();
    let expected = ["recovered held", "recovered quarantined"];
    assert_eq!(told(&alerts.check(&settings, &none)), expected);
}

#[test]
fn bounds_out_of_range_are_refused() {
    let defaults = AlertSettings::default;
    for bad in [
        AlertSettings { every: Duration::from_millis(99), ..defaults() },
        AlertSettings { every: 86_401 * SECOND, ..defaults() },
        AlertSettings { age: Some(Duration::ZERO), ..defaults() },
        AlertSettings { backlog: Some(0), ..defaults() },
        AlertSettings { held: Some(1_000_001), ..defaults() },
        AlertSettings { quarantined: Some(0), ..defaults() },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
    assert!(defaults().check().is_ok());
    assert!(!defaults().any());
    let one = AlertSettings { held: Some(1_000_000), ..defaults() };
    assert!(one.check().is_ok() && one.any());
    assert_eq!(one.count_max(), Some(1_000_000));
    assert_eq!(Alert::Held.as_str(), "held");
}
