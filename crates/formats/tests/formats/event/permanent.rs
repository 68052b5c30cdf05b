//! Permanent errors.

use std::error::Error;
use std::fmt;

use sendoff_core::PublishError;
use sendoff_core::publisher::PublishClass;
use sendoff_formats::event::{Permanent, is_permanent, permanent};

#[derive(Debug)]
struct Wraps(Box<dyn Error + Send + Sync>);

impl fmt::Display for Wraps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("publishing")
    }
}

impl Error for Wraps {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

#[test]
fn the_mark_survives_wrapping_and_the_cause_is_reachable() {
    let marked = Permanent::of(std::io::Error::other("no such subject"));
    assert_eq!(marked.to_string(), "permanent: no such subject");
    assert!(marked.cause().is::<std::io::Error>());
    let wrapped = Wraps(Box::new(Wraps(Box::new(marked))));
    assert!(is_permanent(&wrapped));
    let inner = wrapped.source().and_then(Error::source).and_then(Error::source).unwrap();
    assert!(inner.is::<std::io::Error>());
}

#[test]
fn what_is_not_marked_is_not_permanent_and_what_succeeds_stays() {
    assert!(!is_permanent(&Wraps("x".into())));
    assert!(!is_permanent(&PublishError::failed("x")));
    assert!(is_permanent(&Wraps(Box::new(PublishError::permanent("x")))));
    assert_eq!(permanent::<_, std::io::Error>(Ok(7)).unwrap(), 7);
    assert!(permanent("x".parse::<u8>()).is_err());
}

#[test]
fn a_publisher_may_end_with_it() {
    let publish = || -> Result<(), PublishError> { Ok(permanent("x".parse::<u8>()).map(|_| ())?) };
    let error = publish().unwrap_err();
    assert_eq!(error.class(), PublishClass::Permanent);
    assert!(error.detail().starts_with("permanent: "), "{error}");
}
