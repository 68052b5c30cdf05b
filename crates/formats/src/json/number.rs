//! Numbers: the digits as they were written.

use std::fmt;

/// A number of JSON, kept as its text.
///
/// Two numbers are equal where both are integers, or both are not, and their values are the same: `1`
/// is another number than `1.0`, which is the same as `1.00`.
#[derive(Clone)]
pub struct Number(Box<str>);

impl Number {
    /// A number that is not an integer's type: `2.0` is written `2.0`.
    ///
    /// Nothing for not-a-number and infinity, which JSON cannot say.
    #[must_use]
    pub fn from_f64(value: f64) -> Option<Self> {
        serde_json::Number::from_f64(value).map(|number| Self(number.to_string().into()))
    }

    /// The number with these digits; nothing where the text is no number of JSON.
    ///
    /// ```
    /// use sendoff_formats::json::Number;
    /// assert!(Number::parse("123456789012345678901234567890").is_some());
    /// assert!(Number::parse("007").is_none());
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match super::Json::parse(text.as_bytes()) {
            // White space around it is no part of a number.
            Ok(super::Json::Number(number)) if number.as_str().len() == text.len() => Some(number),
            _ => None,
        }
    }

    /// Only for text that a lexer of JSON has taken for a number.
    pub(super) fn lexed(text: &str) -> Self {
        Self(text.into())
    }

    /// The digits as they were written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is written without point and exponent.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        !self.0.contains(['.', 'e', 'E'])
    }

    /// The integer, where it is one of 64 bits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// The nearest number of double precision; infinite for what is too large.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// Whether its value is a whole number, however it is written: `2`, `2.0` and `2e3` are.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        if self.is_integer() {
            return true;
        }
        let (digits, exponent) = match self.0.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i64>()),
            None => (&*self.0, Ok(0)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let zeros = whole.len() - whole.trim_end_matches('0').len();
        if fraction.is_empty() && whole.trim_start_matches('-').bytes().all(|digit| digit == b'0') {
            return true;
        }
        match exponent {
            // As many places are moved as the fraction has, or no more than the zeros before it.
            Ok(exponent) if fraction.is_empty() => exponent
                .checked_neg()
                .is_some_and(|back| i64::try_from(zeros).is_ok_and(|z| back <= z)),
            Ok(exponent) => i64::try_from(fraction.len()).is_ok_and(|places| places <= exponent),
            // An exponent that is itself no number of 64 bits.
            Err(_) => !self.0.contains("e-") && !self.0.contains("E-"),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        if self.0 == other.0 {
            return true;
        }
        if self.is_integer() || other.is_integer() {
            // JSON has no leading zeros, so that integers with other digits are others.
            return false;
        }
        let (own, other) = (self.to_f64(), other.to_f64());
        own.is_finite() && own.to_bits() == other.to_bits()
    }
}

impl Eq for Number {}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.to_string().into())
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value.to_string().into())
    }
}

impl From<i128> for Number {
    fn from(value: i128) -> Self {
        Self(value.to_string().into())
    }
}

impl From<u128> for Number {
    fn from(value: u128) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Debug for Number {
    /// Not the digits: a payload does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Number({} digits)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn numbers_compare_by_type_and_value() {
        assert_eq!(number("1.0"), number("1.00"));
        assert_eq!(number("5e-1"), number("0.5"));
        for other in ["1.0", "1e0", "2", "-1"] {
            assert_ne!(number("1"), number(other), "{other}");
        }
        let big = "123456789012345678901234567890";
        assert_eq!(number(big), number(big));
        assert_ne!(number(big), number("123456789012345678901234567891"));
        assert_ne!(number("1e999"), number("1e998"));
    }

    #[test]
    fn a_whole_number_is_told_however_it_is_written() {
        for whole in [
            "0",
            "-3",
            "2.0",
            "2e3",
            "1.5e1",
            "120e-1",
            "0.0e-5",
            "-0.0",
            "0e-99999999999999999999",
        ] {
            assert!(number(whole).is_whole(), "{whole}");
        }
        for broken in ["0.5", "1e-1", "1.55e1", "120e-2", "1e-99999999999999999999"] {
            assert!(!number(broken).is_whole(), "{broken}");
        }
    }

    #[test]
    fn text_that_is_no_number_is_refused() {
        for text in ["", " 1", "1 ", "007", "1.", "-", "+1", "NaN", "true", "1e"] {
            assert!(Number::parse(text).is_none(), "{text:?}");
        }
    }
}
