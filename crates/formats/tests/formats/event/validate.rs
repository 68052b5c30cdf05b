//! What an event may be.

use sendoff_formats::event::{Event, EventError, EventKind, Fault};

use super::full;

fn faults(event: &Event) -> Vec<Fault> {
    match event.validate() {
        Ok(()) => Vec::new(),
        Err(EventError::Invalid(faults)) => faults,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let mut event = Event::default();
    event.extensions.insert("UPPER".to_owned(), String::new());
    event.extensions.insert(String::new(), String::new());
    event.extensions.insert("subject".to_owned(), "a\nb".to_owned());
    let text = event.validate().unwrap_err().to_string();
    for part in [
        "id is required",
        "source is required",
        "type is required",
        "\"UPPER\"",
        "\"\"",
        "\"subject\" has the name",
        "subject has a control character",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(faults(&full()), []);
}

#[test]
fn a_type_is_names_with_points_between_them() {
    for bad in [".", "a.", ".a", "a..b", "a b", "a*", "a.>", "a\tb", "a\u{a0}b", "a\0b"] {
        assert_eq!(faults(&Event { kind: bad.to_owned(), ..full() }), [Fault::Kind], "{bad:?}");
        assert!(EventKind::<()>::define(bad).is_err());
    }
    assert!(EventKind::<()>::define("").is_err());
    for good in ["a", "com.example.orders.placed", "a-b_c.v2", "é.x"] {
        assert_eq!(faults(&Event { kind: good.to_owned(), ..full() }), [], "{good}");
        assert_eq!(EventKind::<()>::define(good).unwrap().name(), good);
    }
}

#[test]
fn no_attribute_name_is_an_extension() {
    for name in [
        "id",
        "source",
        "specversion",
        "type",
        "datacontenttype",
        "dataschema",
        "subject",
        "time",
        "data",
    ] {
        let mut event = full();
        event.extensions.insert(name.to_owned(), "x".to_owned());
        assert_eq!(faults(&event), [Fault::ExtensionIsAttribute(name.to_owned())]);
    }
}

#[test]
fn a_log_line_of_an_event_has_no_data() {
    let log = format!("{:?}", full());
    assert!(log.contains("orders.placed") && !log.contains("123456"), "{log}");
}
