//! Data against a schema.

use sendoff_formats::babelqueue::payload::Schema;
use sendoff_formats::json::Json;
use serde_json::Value;

use super::{Suite, cases};

fn run(suite: &Suite, case: &Value) {
    let schema = suite.manifest["payload_schema"]["schema"].to_string();
    let schema = Schema::parse(schema.as_bytes()).unwrap();
    let data = Json::parse(case["data"].to_string().as_bytes()).unwrap();
    let violations = schema.violations(&data);
    assert_eq!(violations.is_empty(), case["valid"].as_bool().unwrap(), "{violations:?}");
}

cases!(run, "/payload_schema/cases", [
    valid_minimal: "valid-minimal",
    valid_full: "valid-full",
    invalid_missing_required: "invalid-missing-required",
    invalid_wrong_type: "invalid-wrong-type",
    invalid_additional_property: "invalid-additional-property",
    invalid_enum: "invalid-enum",
    invalid_below_minimum: "invalid-below-minimum",
]);
