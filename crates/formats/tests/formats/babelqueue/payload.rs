//! Payloads against schemas, and the registry that names them.

use sendoff_core::ErrorKind;
use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::payload::{Schema, SchemaError, Schemas};
use sendoff_formats::babelqueue::registry::Registry;
use sendoff_formats::json::Json;

fn violations(schema: &str, data: &str) -> Vec<String> {
    let schema = Schema::parse(schema.as_bytes()).unwrap();
    let data = Json::parse(data.as_bytes()).unwrap();
    schema.violations(&data).iter().map(ToString::to_string).collect()
}

#[test]
fn every_kind_of_violation_has_its_word_and_its_place() {
    let cases = [
        (r#"{"const":1}"#, "2", "<root>: wrong_const"),
        (r#"{"const":1}"#, "1.0", "<root>: wrong_const"),
        (r#"{"enum":["a",1]}"#, "\"1\"", "<root>: not_in_enum"),
        (r#"{"type":"object"}"#, "[]", "<root>: not_an_object"),
        (r#"{"type":"array"}"#, "{}", "<root>: not_an_array"),
        (r#"{"type":"string"}"#, "1", "<root>: not_a_string"),
        (r#"{"type":"integer"}"#, "1.5", "<root>: not_an_integer"),
        (r#"{"type":"integer"}"#, "true", "<root>: not_an_integer"),
        (r#"{"type":"number"}"#, "true", "<root>: not_a_number"),
        (r#"{"type":"number"}"#, "\"1\"", "<root>: not_a_number"),
        (r#"{"type":"boolean"}"#, "1", "<root>: not_a_boolean"),
        (r#"{"type":"null"}"#, "0", "<root>: not_null"),
        (r#"{"type":"string","minLength":3}"#, "\"ab\"", "<root>: below_min_length"),
        // Code points count, not bytes.
        (r#"{"type":"string","minLength":2}"#, "\"\u{1f980}\"", "<root>: below_min_length"),
        (r#"{"type":"integer","minimum":1}"#, "0", "<root>: below_minimum"),
        (r#"{"type":"number","minimum":0.5}"#, "0.49", "<root>: below_minimum"),
        (r#"{"type":"object","required":["a"]}"#, "{}", "a: missing_required"),
        (
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
            r#"{"a":1,"b":2}"#,
            "b: additional_not_allowed",
        ),
        (
            r#"{"type":"object","properties":{"lines":{"type":"array","items":{"type":"object","properties":{"qty":{"type":"integer"}}}}}}"#,
            r#"{"lines":[{"qty":1},{},{"qty":"x"}]}"#,
            "lines[2].qty: not_an_integer",
        ),
    ];
    for (schema, data, expected) in cases {
        assert_eq!(violations(schema, data), [expected], "{schema} {data}");
    }
}

#[test]
fn what_matches_has_no_violation() {
    let cases = [
        (r#"{"type":"integer","minimum":1}"#, "2.0"),
        (
            r#"{"type":"integer","minimum":123456789012345678901234567890}"#,
            "123456789012345678901234567890",
        ),
        (r#"{"type":"integer"}"#, "1e3"),
        (r#"{"type":"string","minLength":3}"#, "\"äöü\""),
        (r#"{"type":"string","minLength":1}"#, "\"\u{1f980}\""),
        (r#"{"properties":{"a":{"type":"string"}},"required":["b"]}"#, r#"{"a":1}"#),
        (r#"{"type":"object","additionalProperties":{"type":"string"}}"#, r#"{"a":1}"#),
        (r#"{"type":"string","maxLength":1,"pattern":"^x$","format":"uuid"}"#, "\"long\""),
        (r#"{"type":["string","null"]}"#, "1"),
        (r#"{"enum":[{"a":1,"b":2}]}"#, r#"{"b":2,"a":1}"#),
        ("{}", "null"),
    ];
    for (schema, data) in cases {
        assert_eq!(violations(schema, data), Vec::<String>::new(), "{schema} {data}");
    }
}

#[test]
fn all_violations_are_found_in_their_order() {
    let schema = r#"{"type":"object","required":["id","at"],"properties":{"id":{"type":"integer"},"kind":{"enum":["a"]}},"additionalProperties":false}"#;
    let found = violations(schema, r#"{"x":1,"kind":"b","id":"7"}"#);
    let expected = [
        "at: missing_required",
        "id: not_an_integer",
        "kind: not_in_enum",
        "x: additional_not_allowed",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_envelope_is_checked_by_its_urn_and_one_without_a_schema_is_not() {
    let mut schemas = Schemas::new();
    let schema = Schema::parse(br#"{"type":"object","required":["order_id"]}"#).unwrap();
    assert_eq!(schemas.set("urn:babel:orders:created", schema), None);
    let made = |urn| Envelope::make(urn, Json::Null, "", None).unwrap();
    let error = schemas.check(&made("urn:babel:orders:created")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Message data for \"urn:babel:orders:created\" does not match its URN schema: \
         order_id: missing_required."
    );
    assert_eq!(schemas.check(&made("urn:babel:orders:paid")), Ok(()));
    assert_eq!(Schema::parse(b"[]"), Err(SchemaError::NotAnObject));
    assert!(Schema::parse(b"{").is_err());
}

#[test]
fn a_registry_finds_its_schemas_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("orders")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("orders/created.json", r#"{"type":"object","required":["order_id"]}"#);
    let line = r#"{"urn":"urn:babel:orders:created","schema":"orders/created.json","owner":"orders","status":"active","since":1}"#;
    write("registry.json", &format!(r#"{{"schemas":[{line}]}}"#));
    let path = folder.path().join("registry.json");
    let registry = Registry::load(&path).unwrap();
    assert_eq!(registry.entries()[0].owner, "orders");
    assert_eq!(registry.entries()[0].status, "active");
    assert!(registry.schemas().get("urn:babel:orders:created").is_some());

    write("registry.json", &format!(r#"{{"schemas":[{line},{line}]}}"#));
    let error = Registry::load(&path).unwrap_err();
    assert!(error.to_string().contains("stands twice"), "{error}");
    write(
        "registry.json",
        &format!(r#"{{"schemas":[{}]}}"#, line.replace("created.json", "gone.json")),
    );
    let error = Registry::load(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("gone.json"), "{error}");
    for broken in
        ["[]", "{", r#"{"schemas":{}}"#, r#"{"schemas":[{"urn":"u"}]}"#, r#"{"schemas":[7]}"#]
    {
        write("registry.json", broken);
        assert_eq!(Registry::load(&path).unwrap_err().kind(), ErrorKind::Invalid, "{broken}");
    }
}
