//! Attempts on the way in, by the broker's own count.

use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::bindings::{artemis, kafka, pulsar, reconcile, service_bus, sqs};
use serde_json::Value;

use super::{Suite, cases};

/// Reconciles the body of a case and looks at what comes out.
fn check(suite: &Suite, case: &Value, attempts: impl Fn(i64) -> i64) {
    let name = &suite.manifest["cases"][0]["file"];
    let before = case["body_attempts"].as_i64().unwrap();
    let envelope = Envelope::decode(&suite.file(name)).unwrap().with_attempts(before);
    let body = bytes::Bytes::from(envelope.encode());
    let after = reconcile(&body, attempts);
    let expected = case["expected_attempts"].as_i64().unwrap();
    assert_eq!(Envelope::decode(&after).unwrap(), envelope.with_attempts(expected));
    // Only where the number changes is the body another one.
    assert_eq!(after.as_ptr() == body.as_ptr(), before == expected);
}

mod sqs_cases {
    use super::*;

    fn run(suite: &Suite, case: &Value) {
        let count = case["approximate_receive_count"].as_str();
        check(suite, case, |body| sqs::attempts(body, count));
    }

    cases!(run, "/sqs/attempts_reconciliation/cases", [
        first_delivery: "first-delivery",
        third_delivery: "third-delivery",
        native_exceeds_body: "native-exceeds-body",
        never_lower_runtime: "never-lower-runtime",
        garbage_count_ignored: "garbage-count-ignored",
        absent_count: "absent-count",
    ]);
}

mod service_bus_cases {
    use super::*;

    fn run(suite: &Suite, case: &Value) {
        let count = case["delivery_count"].as_u64();
        check(suite, case, |body| service_bus::attempts(body, count));
    }

    cases!(run, "/asb/attempts_reconciliation/cases", [
        first_delivery: "first-delivery",
        third_delivery: "third-delivery",
        native_exceeds_body: "native-exceeds-body",
        never_lower_runtime: "never-lower-runtime",
        first_delivery_keeps_body: "first-delivery-keeps-body",
        zero_count_keeps_body: "zero-count-keeps-body",
    ]);
}

mod pulsar_cases {
    use super::*;

    fn run(suite: &Suite, case: &Value) {
        let count = case["redelivery_count"].as_u64();
        check(suite, case, |body| pulsar::attempts(body, count));
    }

    cases!(run, "/pulsar/attempts_reconciliation/cases", [
        first_delivery: "first-delivery",
        third_delivery: "third-delivery",
        native_exceeds_body: "native-exceeds-body",
        never_lower_runtime: "never-lower-runtime",
        first_delivery_keeps_body: "first-delivery-keeps-body",
        native_equals_body: "native-equals-body",
    ]);
}

mod kafka_cases {
    use super::*;

    fn run(suite: &Suite, case: &Value) {
        let header = case["header_attempts"].as_i64().map(|attempts| attempts.to_string());
        check(suite, case, |body| kafka::attempts(body, header.as_deref().map(str::as_bytes)));
    }

    cases!(run, "/kafka/attempts_reconciliation/cases", [
        header_matches_body: "header-matches-body",
        header_present: "header-present",
        header_absent_falls_back: "header-absent-falls-back",
        header_authoritative_overrides: "header-authoritative-overrides",
        header_higher_than_body: "header-higher-than-body",
    ]);
}

mod artemis_cases {
    use super::*;

    fn run(suite: &Suite, case: &Value) {
        let count = case["delivery_count"].as_u64();
        check(suite, case, |body| artemis::attempts(body, count));
    }

    cases!(run, "/artemis/attempts_reconciliation/cases", [
        first_delivery: "first-delivery",
        third_delivery: "third-delivery",
        native_exceeds_body: "native-exceeds-body",
        never_lower_runtime: "never-lower-runtime",
        first_delivery_keeps_body: "first-delivery-keeps-body",
        native_equals_body: "native-equals-body",
    ]);
}
