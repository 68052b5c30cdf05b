//! Dead letters: the block, and what it leaves alone.

use sendoff_formats::babelqueue::{DeadLetter, Envelope, Reason, dead_letter_queue};
use sendoff_formats::json::Json;

fn envelope() -> Envelope {
    let data = Json::parse(br#"{"big":123456789012345678901234567890}"#).unwrap();
    Envelope::make("urn:babel:orders:created", data, "orders", None)
        .unwrap()
        .with_extra("x-note", "kept")
        .unwrap()
}

#[test]
fn annotate_adds_the_block_and_leaves_the_message_alone() {
    let original = envelope();
    let mut dead = DeadLetter::new(Reason::Failed, "orders", 3)
        .error("line one\nline two amqp://guest:secret@host/")
        .exception("shop::GatewayTimeout");
    dead.failed_at_ms = 1_749_132_730_000;
    let annotated = original.annotate(&dead);
    let text = String::from_utf8(annotated.encode()).unwrap();
    let block = concat!(
        r#""attempts":0,"dead_letter":{"reason":"failed","#,
        r#""error":"line one line two amqp://***@host/","exception":"shop::GatewayTimeout","#,
        r#""failed_at":1749132730000,"original_queue":"orders","attempts":3,"lang":"rust"},"x-note":"kept"}"#
    );
    assert!(text.ends_with(block), "{text}");
    assert_eq!(annotated.dead_letter(), Some(dead));
    assert_eq!(annotated.reset(), original);
    assert_eq!(original.dead_letter(), None, "it is a copy");
    assert!(annotated.accepts());
}

#[test]
fn what_is_not_known_of_a_failure_is_null() {
    let annotated = envelope().annotate(&DeadLetter::new(Reason::UnknownUrn, "q", 1));
    let text = String::from_utf8(annotated.encode()).unwrap();
    assert!(text.contains(r#""reason":"unknown_urn","error":null,"exception":null,"#), "{text}");
    let dead = annotated.dead_letter().unwrap();
    assert_eq!((dead.error, dead.exception), (None, None));
    assert!(dead.failed_at_ms > 1_600_000_000_000);
}

#[test]
fn the_original_queue_is_the_messages_own_where_it_has_one() {
    assert_eq!(envelope().original_queue("consumed"), "orders");
    let without = Envelope::decode(br#"{"job":"urn:a"}"#).unwrap();
    assert_eq!(without.original_queue("consumed"), "consumed");
    assert_eq!(dead_letter_queue("orders"), "orders.dlq");
}

#[test]
fn a_block_of_another_program_is_kept_whole() {
    let body = r#"{"job":"urn:a","dead_letter":{"extra":1,"reason":"later_word","attempts":2}}"#;
    let envelope = Envelope::decode(body.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(envelope.encode()).unwrap(), body);
    let dead = envelope.dead_letter().unwrap();
    assert_eq!(dead.reason, Reason::Other("later_word".to_owned()));
    assert_eq!((dead.attempts, dead.original_queue.as_str()), (2, ""));
    for none in [r#"{"dead_letter":{}}"#, r#"{"dead_letter":"x"}"#] {
        assert_eq!(Envelope::decode(none.as_bytes()).unwrap().dead_letter(), None);
    }
}
