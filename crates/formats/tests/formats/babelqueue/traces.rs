//! Trace ids of envelopes and of W3C's trace context.

use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::trace::{
    Span, TRACEPARENT, envelope_trace_id, otel_span_id, otel_trace_id, parent, read_traceparent,
};
use sendoff_formats::babelqueue::transport::Headers;
use sendoff_formats::json::Json;

const UUID: &str = "7b3f9c2a-e41d-4f88-9b2a-1c0d5e6f7a8b";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn envelope(trace_id: &str) -> Envelope {
    Envelope::make("urn:babel:orders:created", Json::Null, "orders", Some(trace_id)).unwrap()
}

#[test]
fn a_uuid_is_its_own_trace_id_and_anything_else_is_hashed() {
    assert_eq!(hex(&otel_trace_id(UUID)), UUID.replace('-', ""));
    assert_eq!(hex(&otel_trace_id("trace-abc-123")), "369a988ff08e5e6d3f8691f13b6c8333");
    // In upper case, or 0, it is none.
    assert_ne!(hex(&otel_trace_id(&UUID.to_uppercase())), UUID.replace('-', ""));
    assert_ne!(otel_trace_id("00000000-0000-0000-0000-000000000000"), [0; 16]);
    assert_ne!(otel_trace_id(""), [0; 16]);
}

#[test]
fn the_span_of_the_sender_is_made_from_the_trace_id() {
    assert_eq!(hex(&otel_span_id("trace-abc-123")), "237678a5a553d931");
    assert_eq!(hex(&otel_span_id(UUID)), "980c512d6f4a8fba");
}

#[test]
fn a_traceparent_wins_and_a_malformed_one_does_not() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let good = format!("00-{trace}-b7ad6b7169203331-01");
    let with = |header: &str| Headers::from([(TRACEPARENT.to_owned(), header.to_owned())]);
    let found = parent(&envelope(UUID), &with(&good));
    assert_eq!(
        (hex(&found.trace_id), hex(&found.span_id), found.sampled),
        (trace.to_owned(), "b7ad6b7169203331".to_owned(), true)
    );
    assert_eq!(found.to_string(), good);
    assert!(!read_traceparent(&format!("00-{trace}-b7ad6b7169203331-00")).unwrap().sampled);
    assert!(read_traceparent(&format!("cc-{trace}-b7ad6b7169203331-01-later")).is_some());
    let made = parent(&envelope(UUID), &Headers::new());
    assert_eq!(made.to_string(), format!("00-{}-980c512d6f4a8fba-01", UUID.replace('-', "")));
    let zero = "0".repeat(32);
    for bad in [
        String::new(),
        "00".to_owned(),
        format!("ff-{trace}-b7ad6b7169203331-01"),
        format!("00-{zero}-b7ad6b7169203331-01"),
        format!("00-{trace}-0000000000000000-01"),
        format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
        format!("{good}-more"),
        format!("00-{trace}-b7ad6b71692033-01"),
        format!("00-{trace}-b7ad6b7169203331-1"),
        format!("00-{trace}-b7ad6b7169203331-+1"),
        good.replace('-', "_"),
        format!("00-{}-b7ad6b7169203331-01", "é".repeat(16)),
    ] {
        assert_eq!(parent(&envelope(UUID), &with(&bad)), made, "{bad}");
    }
}

#[test]
fn a_producer_stamps_the_id_of_its_trace() {
    assert_eq!(envelope_trace_id(otel_trace_id(UUID)), UUID);
    assert_eq!(envelope_trace_id([0xab; 16]), "abababab-abab-abab-abab-abababababab");
}

#[test]
fn spans_have_the_names_and_attributes_of_the_family() {
    let envelope = envelope(UUID).with_id("m-1").with_attempts(2);
    let publish = Span::publish(&envelope);
    assert_eq!(publish.name, "publish urn:babel:orders:created");
    let attributes = |destination, operation| {
        vec![
            ("messaging.system", "babelqueue".to_owned()),
            ("messaging.operation", operation),
            ("messaging.destination.name", destination),
            ("messaging.message.id", "m-1".to_owned()),
            ("messaging.message.conversation_id", UUID.to_owned()),
            ("messaging.babelqueue.attempts", "2".to_owned()),
        ]
    };
    assert_eq!(publish.attributes, attributes(envelope.urn().to_owned(), "publish".to_owned()));
    let process = Span::process(&envelope, "orders");
    assert_eq!(process.name, "process urn:babel:orders:created");
    assert_eq!(process.attributes, attributes("orders".to_owned(), "process".to_owned()));
}
