//! Errors that no repetition mends.

use std::error::Error;
use std::fmt;

use sendoff_core::PublishError;
use sendoff_core::publisher::PublishClass;

/// An error that no repetition mends, with its cause. A relay puts the message aside instead of trying
/// it again.
///
/// ```
/// use sendoff_formats::event::{is_permanent, permanent};
/// let refused = permanent("x".parse::<u8>()).unwrap_err();
/// assert_eq!(refused.to_string(), "permanent: invalid digit found in string");
/// assert!(is_permanent(&refused));
/// assert_eq!(permanent("7".parse::<u8>()).unwrap(), 7);
/// ```
#[derive(Debug)]
pub struct Permanent(Box<dyn Error + Send + Sync>);

impl Permanent {
    /// Marks an error.
    #[must_use]
    pub fn of(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }

    /// What was marked.
    #[must_use]
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.0.as_ref()
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permanent: {}", self.0)
    }
}

impl Error for Permanent {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

impl From<Permanent> for PublishError {
    /// A publisher of one's own may end with `?`: the relay quarantines the message.
    fn from(error: Permanent) -> Self {
        Self::permanent(error.to_string())
    }
}

/// Marks the error of a result; what succeeded stays as it is.
///
/// # Errors
/// [`Permanent`], with the result's own error as its cause.
pub fn permanent<T, E: Into<Box<dyn Error + Send + Sync>>>(
    result: Result<T, E>,
) -> Result<T, Permanent> {
    result.map_err(Permanent::of)
}

/// Whether an error, or one that it was caused by, is marked; so is a publisher's
/// [`PublishClass::Permanent`].
#[must_use]
pub fn is_permanent(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let by_publisher = error
            .downcast_ref::<PublishError>()
            .is_some_and(|error| error.class() == PublishClass::Permanent);
        if by_publisher || error.is::<Permanent>() {
            return true;
        }
        next = error.source();
    }
    false
}
