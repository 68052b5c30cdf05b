//! Envelopes: what is accepted, and that it survives.

use sendoff_formats::babelqueue::{Envelope, Refusal};
use sendoff_formats::json::Json;
use serde_json::Value;

use super::{Suite, cases};

/// By the parser of ours, so that types are compared strictly.
fn json(value: &Value) -> Json {
    Json::parse(value.to_string().as_bytes()).unwrap()
}

fn check(suite: &Suite, case: &Value) {
    let body = suite.file(&case["file"]);
    let envelope = Envelope::decode(&body).unwrap();
    assert_eq!(envelope.accepts(), case["valid"].as_bool().unwrap());
    let again = Envelope::decode(&envelope.encode()).unwrap();
    assert_eq!(again, envelope);
    assert_eq!(again.encode(), envelope.encode());
    if case["valid"] == false {
        return;
    }
    let expect = &case["expect"];
    assert_eq!(envelope.urn(), expect["urn"].as_str().unwrap());
    assert_eq!(Json::from(envelope.data().unwrap().clone()), json(&expect["data"]));
    assert_eq!(envelope.attempts(), expect["attempts"].as_i64().unwrap());
    assert_eq!(envelope.lang(), expect["lang"].as_str().unwrap());
    assert_eq!(envelope.schema_version(), expect["schema_version"].as_i64().unwrap());
    let dead_letter = envelope.dead_letter();
    match expect.get("dead_letter") {
        Some(expect) => {
            let dead_letter = dead_letter.unwrap();
            assert_eq!(dead_letter.reason.as_str(), expect["reason"].as_str().unwrap());
            assert_eq!(dead_letter.original_queue, expect["original_queue"].as_str().unwrap());
        }
        None => assert_eq!(dead_letter, None),
    }
}

cases!(check, "/cases", [
    order_created: "order-created",
    urn_alias: "urn-alias",
    dead_lettered: "dead-lettered",
    unicode_and_numbers: "unicode-and-numbers",
    invalid_unknown_schema_version: "invalid-unknown-schema-version",
    invalid_missing_urn: "invalid-missing-urn",
]);

/// What is valid and has its keys in the wire's order comes out as it is, without the white space.
#[test]
fn the_fixtures_are_encoded_to_their_own_bytes() {
    for suite in super::suites() {
        for name in ["order-created", "dead-lettered", "unicode-and-numbers"] {
            let body = suite.file(&suite.case("/cases", name)["file"]);
            let compact = Json::parse(&body).unwrap().to_vec();
            assert_eq!(Envelope::decode(&body).unwrap().encode(), compact, "{name}");
        }
    }
}

#[test]
fn what_is_refused_is_refused_for_its_reason() {
    for suite in super::suites() {
        let refusals = |name| {
            let body = suite.file(&suite.case("/cases", name)["file"]);
            Envelope::decode(&body).unwrap().refusals()
        };
        let version = refusals("invalid-unknown-schema-version");
        assert_eq!(version, [Refusal::UnsupportedSchemaVersion]);
        assert_eq!(refusals("invalid-missing-urn"), [Refusal::MissingUrn]);
    }
}
