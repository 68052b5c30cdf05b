//! Percent-encoding, as URLs have it: a byte becomes `%` and two hexadecimal digits.
//!
//! Which characters need it is the business of whoever calls.

use std::borrow::Cow;

/// Appends a character as the percent-encoded bytes of its UTF-8.
pub(crate) fn push(text: &mut String, character: char) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let mut utf8 = [0; 4];
    for byte in character.encode_utf8(&mut utf8).bytes() {
        text.push('%');
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Encodes the characters for which `needs` answers true.
pub(crate) fn encode(text: &str, needs: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&needs) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if needs(character) {
            push(&mut encoded, character);
        } else {
            encoded.push(character);
        }
    }
    Cow::Owned(encoded)
}

/// Undoes [`encode`]; `None` where a `%` has no two digits, or the bytes are not UTF-8.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            bytes.push(high << 4 | low);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn what_is_encoded_is_decoded_again() {
        let encoded = encode("a b%c\u{e9}", |c| c == ' ' || c == '%' || !c.is_ascii());
        assert_eq!(encoded, "a%20b%25c%C3%A9");
        assert_eq!(decode(&encoded).as_deref(), Some("a b%c\u{e9}"));
    }

    #[test]
    fn broken_escapes_and_broken_utf8_are_refused() {
        for broken in ["%", "%4", "%4x", "%+1", "%C3"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
