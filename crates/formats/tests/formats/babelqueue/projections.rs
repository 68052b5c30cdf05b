//! Projections beyond the suite's cases: headers of the caller's own, what is missing, NATS.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use sendoff_core::Outbox;
use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::bindings::{
    Typed, artemis, kafka, nats, pulsar, rabbitmq, reconcile, redis, service_bus, sqs,
};
use sendoff_formats::json::Json;

fn body() -> Bytes {
    let made =
        Envelope::make("urn:babel:orders:created", Json::Null, "orders", Some("t-1")).unwrap();
    made.with_id("m-1").with_created_at_ms(1_749_132_727_999).with_attempts(2).encode().into()
}

fn own(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn names<V>(pairs: &[(String, V)]) -> Vec<&str> {
    pairs.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn nats_carries_the_six_and_the_id_by_which_a_stream_deduplicates() {
    let headers = nats::project(&body(), &own(&[("traceparent", "00-x")])).unwrap();
    let expected = [
        ("Nats-Msg-Id", "m-1"),
        ("bq-job", "urn:babel:orders:created"),
        ("bq-trace-id", "t-1"),
        ("bq-message-id", "m-1"),
        ("bq-schema-version", "1"),
        ("bq-source-lang", "rust"),
        ("bq-attempts", "2"),
        ("traceparent", "00-x"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(headers, expected);
    for (body, delivered, expected) in
        [(0, Some(1), 0), (0, Some(3), 2), (5, Some(2), 5), (2, None, 2), (0, Some(0), 0)]
    {
        assert_eq!(nats::attempts(body, delivered), expected);
    }
}

#[test]
fn an_envelope_is_a_message_of_the_outbox() {
    let envelope = Envelope::decode(&body()).unwrap();
    let message = nats::message(&Outbox::new("shop"), &envelope).build().unwrap();
    assert_eq!((message.topic(), message.id(), message.source()), ("orders", "m-1", "shop"));
    assert_eq!(message.body(), &body());
    assert_eq!(message.headers().get("bq-trace-id"), Some("t-1"));
    assert_eq!(message.headers().len(), 6);
    let blank = Envelope::decode(br#"{"job":"urn:a"}"#).unwrap();
    let message = nats::message(&Outbox::new("shop"), &blank).build().unwrap();
    assert_eq!(message.topic(), "default");
    assert!(!message.id().is_empty());
}

#[test]
fn the_contract_wins_and_blank_names_and_values_are_left_out() {
    let mine = own(&[("bq-job", "mine"), ("x-b", "2"), ("x-a", "1"), (" ", "x"), ("x-c", " ")]);
    let headers = kafka::project(&body(), &mine).unwrap().headers;
    assert_eq!(names(&headers)[6..], ["x-a", "x-b"]);
    assert_eq!(headers[0].1, "urn:babel:orders:created");
    assert_eq!(pulsar::project(&body(), &mine).unwrap(), headers);
    let typed = rabbitmq::project(&body(), &mine).unwrap().headers;
    assert_eq!(
        names(&typed),
        ["x-schema-version", "x-source-lang", "x-attempts", "bq-job", "x-a", "x-b"]
    );
    assert_eq!(typed[4].1, Typed::Text("1".to_owned()));
    let properties = service_bus::project(&body(), &mine).unwrap().application_properties;
    assert_eq!(names(&properties)[3..], ["bq-job", "x-a", "x-b"]);
    let properties =
        artemis::project(&body(), &own(&[("bq_app_id", "mine"), ("x", "1")])).unwrap().properties;
    assert_eq!(
        names(&properties),
        ["bq_schema_version", "bq_source_lang", "bq_attempts", "bq_app_id", "x"]
    );
    assert_eq!(properties[3].1, "babelqueue");
}

#[test]
fn sqs_stops_at_ten_attributes() {
    let mine: BTreeMap<_, _> = (0..9).map(|n| (format!("x-{n}"), "v".to_owned())).collect();
    let attributes = sqs::project(&body(), &mine).unwrap();
    assert_eq!(names(&attributes)[6..], ["x-0", "x-1", "x-2", "x-3"]);
}

#[test]
fn a_fifo_queue_gets_a_group_and_an_id() {
    let fifo = sqs::fifo(&body(), "orders.fifo", None, false);
    assert_eq!(
        (fifo.group_id.as_str(), fifo.deduplication_id.as_deref()),
        ("orders.fifo", Some("m-1"))
    );
    let fifo = sqs::fifo(&body(), "orders.fifo", Some("customer-7"), true);
    assert_eq!((fifo.group_id.as_str(), fifo.deduplication_id), ("customer-7", None));
}

#[test]
fn what_does_not_decode_has_no_projection_and_stays_as_it_is() {
    let none = BTreeMap::new();
    for body in [&b"no json"[..], b"[]", b"", b"\xff"] {
        assert_eq!(rabbitmq::project(body, &none), None);
        assert_eq!(sqs::project(body, &none), None);
        assert_eq!(service_bus::project(body, &none), None);
        assert_eq!(pulsar::project(body, &none), None);
        assert_eq!(kafka::project(body, &none), None);
        assert_eq!(artemis::project(body, &none), None);
        assert_eq!(nats::project(body, &none), None);
        let body = Bytes::copy_from_slice(body);
        assert_eq!(reconcile(&body, |_| 7), body);
    }
}

#[test]
fn what_an_envelope_lacks_is_not_projected() {
    let none = BTreeMap::new();
    let bare = br#"{"job":"","meta":{"lang":""}}"#;
    assert_eq!(names(&kafka::project(bare, &none).unwrap().headers), ["bq-attempts"]);
    assert_eq!(kafka::project(bare, &none).unwrap().timestamp_ms, None);
    assert_eq!(sqs::project(bare, &none).unwrap(), []);
    let message = rabbitmq::project(bare, &none).unwrap();
    assert_eq!((message.kind, message.message_id, message.timestamp_s), (None, None, None));
    assert_eq!(names(&nats::project(bare, &none).unwrap()), ["bq-attempts"]);
}

#[test]
fn rabbitmq_has_what_laravel_and_the_others_set() {
    let message = rabbitmq::project(&body(), &BTreeMap::new()).unwrap();
    assert_eq!((message.content_encoding, message.delivery_mode), ("utf-8", 2));
    assert_eq!(message.timestamp_s, Some(1_749_132_727));
    assert_eq!(rabbitmq::attempts(3, Some(1)), 1);
    assert_eq!((rabbitmq::attempts(3, None), rabbitmq::attempts(3, Some(-1))), (3, 3));
    assert_eq!(redis::attempts(3), 3);
}

#[test]
fn kafka_ignores_what_is_no_count_and_names_its_retry_topics() {
    for garbage in [&b"x"[..], b"", b"-1", b"+1", b"1.5", b"\xff", b" 1", b"99999999999999999999"] {
        assert_eq!(kafka::attempts(4, Some(garbage)), 4);
    }
    let tier = Duration::from_millis(kafka::RETRY_TIERS_MS[0]);
    assert_eq!(kafka::retry_topic_by_delay("orders", tier), "orders.retry.5000");
    assert_eq!(kafka::retry_topic_by_number("orders", 2), "orders.retry.2");
}

#[test]
fn redis_frames_a_body_only_where_headers_go_along() {
    let headers = own(&[("traceparent", "00-x"), ("blank", " ")]);
    let element = redis::frame(&body(), &headers);
    let text = std::str::from_utf8(&element).unwrap();
    assert!(
        text.starts_with(r#"{"__bq_frame":1,"headers":{"traceparent":"00-x"},"body":"{\"job\":"#),
        "{text}"
    );
    let back = redis::unframe(&element);
    assert_eq!((back.body, back.headers), (body(), own(&[("traceparent", "00-x")])));
    assert_eq!(redis::frame(&body(), &own(&[("blank", "")])), body());
    let binary = Bytes::from_static(b"\xff");
    assert_eq!(redis::frame(&binary, &headers), binary);
    for bare in [
        r#"{"__bq_frame":0,"body":"x"}"#,
        r#"{"__bq_frame":1,"body":7}"#,
        r#"{"__bq_frame":1}"#,
        r#"["__bq_frame"]"#,
        r#"{"job":"__bq_frame"}"#,
        "__bq_frame",
        r#"{"__bq_frame":"","body":"x"}"#,
        r#"{"__bq_frame":null,"body":"x"}"#,
        r#"{"__bq_frame":false,"body":"x"}"#,
    ] {
        let element = Bytes::from_static(bare.as_bytes());
        assert_eq!(redis::unframe(&element).body, element, "{bare}");
    }
    for framed in ["true", "1", "\"1\"", "[]", "{}"] {
        let element = Bytes::from(format!(r#"{{"__bq_frame":{framed},"body":"x"}}"#));
        assert_eq!(&redis::unframe(&element).body[..], b"x", "{framed}");
    }
}
