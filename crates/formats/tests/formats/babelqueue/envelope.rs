//! The envelope: bytes, keys, refusals, changes.

use sendoff_formats::babelqueue::{
    DEFAULT_QUEUE, Envelope, EnvelopeError, ForbiddenKey, LANG, PolyglotMessage, Refusal,
};
use sendoff_formats::json::{Json, Object, ParseError, SerializeError};
use sha2::{Digest, Sha256};

/// The vector that the family's programs share: keys in their order, every kind of value.
const BYTES: &str = r#"{"job":"urn:babel:catalog:item.indexed","trace_id":"t-123","data":{"title":"Café — naïve ☕ A & B <x>/y","qty":7,"ratio":0.5,"active":true,"note":null},"meta":{"id":"m-1","queue":"catalog","lang":"java","schema_version":1,"created_at":1749132727000},"attempts":2}"#;

fn decode(text: &str) -> Envelope {
    Envelope::decode(text.as_bytes()).unwrap()
}

fn text(envelope: &Envelope) -> String {
    String::from_utf8(envelope.encode()).unwrap()
}

#[test]
fn the_bytes_of_the_shared_vector_come_out_as_they_went_in() {
    assert_eq!(text(&decode(BYTES)), BYTES);
    // And where it is made anew from its parts.
    let data = Json::parse(
        r#"{"title":"Café — naïve ☕ A & B <x>/y","qty":7,"ratio":0.5,"active":true,"note":null}"#
            .as_bytes(),
    );
    let made =
        Envelope::make("urn:babel:catalog:item.indexed", data.unwrap(), "catalog", Some("t-123"))
            .unwrap()
            .with_id("m-1")
            .with_lang("java")
            .with_created_at_ms(1_749_132_727_000)
            .with_attempts(2);
    assert_eq!(text(&made), BYTES);
}

/// What the public suite's fixtures weigh and hash to, where it is here.
#[test]
fn the_public_fixtures_have_their_known_sizes_and_hashes() {
    let Some(folder) = std::env::var_os("SENDOFF_BABELQUEUE_CONFORMANCE") else { return };
    let known = [
        ("order-created", 251, "d0bedc85", "3d42e"),
        ("unicode-and-numbers", 341, "846b6fff", "54a42"),
        ("dead-lettered", 443, "c1c39032", "9acb3"),
    ];
    for (name, size, begin, end) in known {
        let file = std::path::Path::new(&folder).join(format!("fixtures/{name}.json"));
        let encoded = Envelope::decode(&std::fs::read(file).unwrap()).unwrap().encode();
        let hash: String =
            Sha256::digest(&encoded).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(encoded.len(), size, "{name}");
        assert!(hash.starts_with(begin) && hash.ends_with(end), "{name}: {hash}");
    }
}

#[test]
fn make_trims_fills_in_and_counts_nothing() {
    let one = Envelope::make(" urn:babel:a:b \n", Json::Null, " ", Some("  ")).unwrap();
    assert_eq!((one.urn(), one.queue()), ("urn:babel:a:b", DEFAULT_QUEUE));
    assert_eq!((one.lang(), one.schema_version(), one.attempts()), (LANG, 1, 0));
    assert_eq!(one.data(), Some(&Object::new()));
    assert_eq!(one.dead_letter(), None);
    assert!(one.created_at_ms() > 1_600_000_000_000);
    assert!(one.accepts());
    assert!(text(&one).contains(r#""data":{},"#));
    for id in [one.id(), one.trace_id()] {
        assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 4);
    }
    let other = Envelope::make("urn:babel:a:b", Json::Null, "", Some(" trace-abc-123 ")).unwrap();
    assert_eq!(other.trace_id(), "trace-abc-123");
    assert!(other.id() != one.id() && other.trace_id() != one.trace_id());
}

#[test]
fn make_refuses_a_blank_urn_and_data_that_is_no_object() {
    let error = Envelope::make(" \t", Json::Null, "q", None).unwrap_err();
    let begin = "A polyglot message must expose a stable, non-empty URN";
    assert!(error.to_string().starts_with(begin), "{error}");
    for data in ["[]", "1", "\"x\"", "true"] {
        let data = Json::parse(data.as_bytes()).unwrap();
        let made = Envelope::make("urn:a", data, "q", None);
        assert_eq!(made.unwrap_err(), EnvelopeError::DataNotAnObject);
    }
}

struct Placed(Option<&'static str>, f64);

impl PolyglotMessage for Placed {
    fn urn(&self) -> &str {
        "urn:babel:orders:created"
    }
    fn payload(&self) -> Result<Json, SerializeError> {
        Json::of(&std::collections::BTreeMap::from([("amount", self.1)]))
    }
    fn trace_id(&self) -> Option<&str> {
        self.0
    }
}

#[test]
fn a_message_of_the_callers_own_continues_its_trace() {
    let one = Envelope::from_message(&Placed(Some("chain-1"), 9.5), "orders").unwrap();
    assert_eq!((one.trace_id(), one.queue()), ("chain-1", "orders"));
    let other = Envelope::from_message(&Placed(None, 9.5), "orders").unwrap();
    assert!(uuid::Uuid::parse_str(other.trace_id()).is_ok());
    let error = Envelope::from_message(&Placed(None, f64::NAN), "orders").unwrap_err();
    assert!(matches!(error, EnvelopeError::Data(_)), "{error:?}");
}

#[test]
fn what_is_no_object_is_no_envelope() {
    for body in ["", "not json", "{\"job\":", "{} x"] {
        let error = Envelope::decode(body.as_bytes()).unwrap_err();
        assert!(matches!(error, EnvelopeError::Malformed(_)), "{body:?}: {error:?}");
    }
    assert!(matches!(
        Envelope::decode(b"{} {}"),
        Err(EnvelopeError::Malformed(ParseError::Trailing { .. }))
    ));
    for body in ["[]", "1", "null", "\"text\"", "true"] {
        assert_eq!(Envelope::decode(body.as_bytes()).unwrap_err(), EnvelopeError::NotAnObject);
    }
}

#[test]
fn big_integers_key_order_and_unknown_keys_survive() {
    let body = concat!(
        r#"{"job":"urn:a","trace_id":"t","data":{"z":123456789012345678901234567890,"a":1.0,"m":[1e400]},"#,
        r#""meta":{"id":"i","queue":"q","lang":"cobol","schema_version":1,"created_at":1,"region":{"b":1,"a":2}},"#,
        r#""attempts":0,"x-z":[true,null],"x-a":"1"}"#
    );
    assert_eq!(text(&decode(body)), body);
    let envelope = decode(body);
    assert_eq!(envelope.extra("x-a"), Some(&Json::from("1")));
    assert_eq!(envelope.extra("job"), None);
    assert_eq!(envelope.extras().map(|(key, _)| key).collect::<Vec<_>>(), ["x-z", "x-a"]);
    assert_eq!(envelope.meta_extras().map(|(key, _)| key).collect::<Vec<_>>(), ["region"]);
}

#[test]
fn keys_of_the_contract_come_first_and_unknown_ones_in_their_order() {
    let body = r#"{"zeta":1,"attempts":0,"meta":{"note":"n","created_at":5,"id":"i","schema_version":1,"lang":"go","queue":"q"},"alpha":{},"data":{},"trace_id":"t","job":"urn:a"}"#;
    let expected = r#"{"job":"urn:a","trace_id":"t","data":{},"meta":{"id":"i","queue":"q","lang":"go","schema_version":1,"created_at":5,"note":"n"},"attempts":0,"zeta":1,"alpha":{}}"#;
    assert_eq!(text(&decode(body)), expected);
}

#[test]
fn the_alias_of_the_urn_is_taken_and_never_written() {
    let cases = [
        (r#"{"urn":"urn:b"}"#, r#"{"job":"urn:b"}"#),
        (r#"{"job":"  ","urn":"urn:b"}"#, r#"{"job":"urn:b"}"#),
        (r#"{"job":7,"urn":"urn:b"}"#, r#"{"job":"urn:b"}"#),
        (r#"{"job":"urn:a","urn":"urn:b"}"#, r#"{"job":"urn:a"}"#),
        (r#"{"job":"urn:a","urn":{}}"#, r#"{"job":"urn:a"}"#),
        (r#"{"urn":" "}"#, "{}"),
    ];
    for (body, expected) in cases {
        assert_eq!(text(&decode(body)), expected, "{body}");
    }
}

#[test]
fn forbidden_keys_are_dropped_and_told_with_their_pointers() {
    let body = BYTES
        .replace(r#""attempts":2}"#, r#""attempts":2,"timestamp":1,"kept":1}"#)
        .replace(r#""id":"m-1""#, r#""ts":1,"source":"x","attempts":9,"max_retries":3,"id":"m-1""#);
    let envelope = decode(&body);
    let pointers: Vec<_> = envelope.forbidden().iter().map(|key| key.pointer()).collect();
    let all = ["/timestamp", "/meta/max_retries", "/meta/attempts", "/meta/source", "/meta/ts"];
    assert_eq!(pointers, all);
    assert_eq!(ForbiddenKey::CODE, "BABELQUEUE_FORBIDDEN_KEY");
    assert!(envelope.accepts(), "they are a warning, not a refusal");
    assert_eq!(text(&envelope), BYTES.replace("\"attempts\":2}", "\"attempts\":2,\"kept\":1}"));
    // One that the caller adds is dropped the same way.
    let added = decode(BYTES).with_extra("timestamp", 1).unwrap();
    let added = added.with_meta_extra("source", "x").unwrap().with_attempts(2);
    let pointers: Vec<_> = added.forbidden().iter().map(|key| key.pointer()).collect();
    assert_eq!(pointers, ["/timestamp", "/meta/source"]);
    assert_eq!(text(&added), BYTES);
    // The names are forbidden in these places only.
    let data = r#"{"job":"urn:a","data":{"timestamp":1,"meta":{"ts":1}},"ts":1}"#;
    assert!(decode(data).forbidden().is_empty());
}

#[test]
fn a_key_of_the_contract_never_comes_from_extras() {
    for key in ["job", "urn", "trace_id", "data", "meta", "attempts", "dead_letter"] {
        let error = decode(BYTES).with_extra(key, "x").unwrap_err();
        assert_eq!(error, EnvelopeError::OwnKey(key.to_owned()));
    }
    for key in ["id", "queue", "lang", "schema_version", "created_at"] {
        assert!(decode(BYTES).with_meta_extra(key, "x").is_err(), "{key}");
    }
    let extended = decode(BYTES).with_extra("x-note", true).unwrap();
    assert_eq!(text(&extended), BYTES.replace(":2}", r#":2,"x-note":true}"#));
}

#[test]
fn refusals_come_in_their_order_and_types_are_strict() {
    use Refusal::{
        InvalidAttempts, InvalidData, MissingMeta, MissingTraceId, MissingUrn,
        UnsupportedSchemaVersion,
    };
    let all = [MissingUrn, MissingMeta, InvalidData, MissingTraceId, InvalidAttempts];
    assert_eq!(decode("{}").refusals(), all);
    let broken = [
        (
            r#""job":"urn:babel:catalog:item.indexed""#,
            vec![r#""job":" ""#, r#""job":1"#],
            MissingUrn,
        ),
        (
            r#""trace_id":"t-123""#,
            vec![r#""trace_id":"\t""#, r#""trace_id":1"#, r#""x":1"#],
            MissingTraceId,
        ),
        (
            r#""schema_version":1"#,
            vec![
                r#""schema_version":2"#,
                r#""schema_version":1.0"#,
                r#""schema_version":"1""#,
                r#""schema_version":true"#,
                r#""schema_version":0"#,
                r#""x":1"#,
            ],
            UnsupportedSchemaVersion,
        ),
        (
            r#""attempts":2"#,
            vec![
                r#""attempts":true"#,
                r#""attempts":"2""#,
                r#""attempts":2.0"#,
                r#""attempts":null"#,
                r#""x":1"#,
            ],
            InvalidAttempts,
        ),
    ];
    for (good, bad, refusal) in broken {
        for bad in bad {
            let envelope = decode(&BYTES.replace(good, bad));
            assert_eq!(envelope.refusals(), [refusal], "{bad}");
            assert!(!envelope.accepts());
        }
    }
}

#[test]
fn data_that_is_no_object_is_refused_and_each_refusal_has_its_word() {
    use Refusal::{
        InvalidAttempts, InvalidData, MissingMeta, MissingTraceId, MissingUrn,
        UnsupportedSchemaVersion,
    };
    for data in ["[]", "null", "\"x\"", "1"] {
        let data = format!(r#""data":{data},"meta""#);
        let body = BYTES.split_once(r#""data""#).unwrap().0.to_owned()
            + &data
            + BYTES.split_once(r#""meta""#).unwrap().1;
        assert_eq!(decode(&body).refusals(), [InvalidData], "{data}");
    }
    let words = [
        MissingUrn,
        MissingMeta,
        UnsupportedSchemaVersion,
        InvalidData,
        MissingTraceId,
        InvalidAttempts,
    ]
    .map(Refusal::as_str);
    assert_eq!(
        words,
        [
            "missing_urn",
            "missing_meta",
            "unsupported_schema_version",
            "invalid_data",
            "missing_trace_id",
            "invalid_attempts",
        ]
    );
}

#[test]
fn what_is_missing_or_wrongly_typed_reads_as_nothing_and_stays_as_it_is() {
    let body = r#"{"job":7,"trace_id":null,"data":[1],"meta":{"id":1,"schema_version":"1"},"attempts":"x"}"#;
    let envelope = decode(body);
    assert_eq!((envelope.urn(), envelope.trace_id(), envelope.id()), ("", "", ""));
    assert_eq!(
        (envelope.schema_version(), envelope.attempts(), envelope.created_at_ms()),
        (0, 0, 0)
    );
    assert_eq!(envelope.data(), None);
    assert_eq!(text(&envelope), body);
}

#[test]
fn two_envelopes_are_equal_where_their_values_and_types_are() {
    assert_eq!(
        decode(BYTES),
        decode(&BYTES.replace(r#""qty":7,"ratio":0.5"#, r#""ratio":0.5,"qty":7"#))
    );
    for other in [r#""qty":7.0"#, r#""qty":"7""#, r#""qty":true"#] {
        assert_ne!(decode(BYTES), decode(&BYTES.replace(r#""qty":7"#, other)), "{other}");
    }
}

#[test]
fn data_becomes_a_type_of_rust() {
    #[derive(serde::Deserialize)]
    struct Item {
        qty: u8,
        note: Option<String>,
    }
    let item: Item = decode(BYTES).data_as().unwrap();
    assert_eq!((item.qty, item.note), (7, None));
    assert!(decode(BYTES).data_as::<Vec<u8>>().is_err());
}

#[test]
fn a_log_line_of_an_envelope_has_no_payload() {
    let log = format!("{:?}", decode(BYTES));
    assert!(log.contains("m-1") && !log.contains("naïve"), "{log}");
}
