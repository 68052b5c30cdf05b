//! What holds for any envelope and for any bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::bindings::{
    artemis, kafka, nats, rabbitmq, reconcile, redis, sqs,
};
use sendoff_formats::babelqueue::payload::Schema;
use sendoff_formats::babelqueue::trace::read_traceparent;
use sendoff_formats::json::{Json, Object};

/// Values as they stand in envelopes and in schemas, good and bad.
fn any_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-3_i64..9).prop_map(Json::from),
        "[a-z :]{0,8}".prop_map(Json::from),
        prop::sample::select(vec!["object", "array", "integer", "string", "number"])
            .prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key = prop::sample::select(vec![
            "job",
            "urn",
            "trace_id",
            "data",
            "meta",
            "attempts",
            "dead_letter",
            "id",
            "queue",
            "lang",
            "schema_version",
            "created_at",
            "timestamp",
            "ts",
            "source",
            "max_retries",
            "reason",
            "type",
            "properties",
            "items",
            "required",
            "minimum",
            "minLength",
            "enum",
            "const",
            "__bq_frame",
            "body",
            "headers",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec((key, inner), 0..8)
                .prop_map(|pairs| Json::from(Object::from_iter(pairs))),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_decoded_and_encoded_stays_the_same_from_then_on(value in any_value()) {
        if let Ok(envelope) = Envelope::decode(&value.to_vec()) {
            let body = envelope.encode();
            let again = Envelope::decode(&body).unwrap();
            prop_assert_eq!(again.encode(), body);
            prop_assert_eq!(again.forbidden(), &[]);
            prop_assert_eq!(&again, &envelope);
            prop_assert_eq!(again.refusals(), envelope.refusals());
            prop_assert_eq!(envelope.reset().attempts(), 0);
        }
    }

    #[test]
    fn nothing_is_lost_but_the_alias_and_what_is_forbidden(value in any_value()) {
        let Json::Object(fields) = &value else { return Ok(()) };
        let envelope = Envelope::decode(&value.to_vec()).unwrap();
        let Json::Object(written) = Json::parse(&envelope.encode()).unwrap() else { unreachable!() };
        for (key, value) in fields.iter() {
            let kept = written.get(key);
            match key {
                "urn" | "timestamp" => prop_assert_eq!(kept, None),
                "meta" | "job" => prop_assert!(kept.is_some()),
                _ => prop_assert_eq!(kept, Some(value)),
            }
        }
    }

    #[test]
    fn any_bytes_go_through_every_binding_without_a_panic(
        value in any_value(),
        cut in 0_usize..200,
        flip in any::<(prop::sample::Index, u8)>(),
        count in any::<u64>(),
    ) {
        let mut bytes = value.to_vec();
        bytes.truncate(cut.max(1));
        let at = flip.0.index(bytes.len());
        bytes[at] ^= flip.1;
        let body = Bytes::from(bytes);
        let own = BTreeMap::from([("x".to_owned(), "y".to_owned())]);
        let decodes = Envelope::decode(&body).is_ok();
        prop_assert_eq!(rabbitmq::project(&body, &own).is_some(), decodes);
        prop_assert_eq!(sqs::project(&body, &own).is_some(), decodes);
        prop_assert_eq!(kafka::project(&body, &own).is_some(), decodes);
        prop_assert_eq!(artemis::project(&body, &own).is_some(), decodes);
        prop_assert_eq!(nats::project(&body, &own).is_some(), decodes);
        let reconciled = reconcile(&body, |attempts| nats::attempts(attempts, Some(count)));
        prop_assert_eq!(Envelope::decode(&reconciled).is_ok(), decodes);
        let _ = redis::unframe(&body);
    }

    #[test]
    fn a_frame_gives_back_what_it_was_given(body in any::<String>(), name in "[a-z]{1,8}", value in "[!-~]{1,8}") {
        // A body that is itself a frame is the one thing that a bare element cannot be.
        let own = BTreeMap::from([(name, value)]);
        let element = redis::unframe(&redis::frame(&Bytes::from(body.clone()), &own));
        prop_assert_eq!(element.body, Bytes::from(body));
        prop_assert_eq!(element.headers, own);
    }

    #[test]
    fn any_schema_checks_any_value(schema in any_value(), value in any_value()) {
        if let Ok(schema) = Schema::parse(&schema.to_vec()) {
            let _ = schema.violations(&value);
        }
    }

    #[test]
    fn any_text_is_a_traceparent_or_none(text in "[0-9a-f-]{40,60}|.{0,60}") {
        if let Some(parent) = read_traceparent(&text) {
            prop_assert_eq!(read_traceparent(&parent.to_string()), Some(parent));
        }
    }
}
