//! Warnings in the log.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use sendoff_formats::babelqueue::Envelope;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Notes each event as a line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn each_forbidden_key_is_one_warning_with_its_pointer_and_no_value() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let body = br#"{"job":"urn:a","timestamp":"secret","meta":{"ts":"secret","id":"m-1"}}"#;
        let envelope = Envelope::decode(body).unwrap();
        assert_eq!(envelope.forbidden().len(), 2);
        // What has none warns of nothing.
        Envelope::decode(&envelope.encode()).unwrap();
    });
    let lines = log.0.lock().unwrap().clone();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, pointer) in lines.iter().zip(["\"/timestamp\"", "\"/meta/ts\""]) {
        let expected = ["WARN", "code=\"BABELQUEUE_FORBIDDEN_KEY\"", pointer];
        assert!(expected.iter().all(|part| line.contains(part)), "{line}");
        assert!(!line.contains("secret"), "{line}");
    }
}
