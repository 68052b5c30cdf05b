//! Near misses: names that differ from a member's in a way that partners' systems bring about.

/// The forms of a name that are the same but for case, surrounding space and URL encoding: two names
/// are near where one of these is equal. At most three, shortest effort first.
#[must_use]
pub fn near_forms(name: &[u8]) -> Vec<Vec<u8>> {
    let fold = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.trim().to_lowercase().into_bytes()
    };
    let mut forms = vec![fold(name)];
    for form in [fold(&percent_decoded(name, false)), fold(&percent_decoded(name, true))] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

fn percent_decoded(name: &[u8], plus_is_space: bool) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(name.len());
    let mut at = 0;
    while let Some(byte) = name.get(at) {
        match (byte, digit(name.get(at + 1)), digit(name.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                at += 3;
                continue;
            }
            (b'+', _, _) if plus_is_space => decoded.push(b' '),
            _ => decoded.push(*byte),
        }
        at += 1;
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::near_forms;

    fn near(one: &str, other: &str) -> bool {
        let others = near_forms(other.as_bytes());
        near_forms(one.as_bytes()).iter().any(|form| others.contains(form))
    }

    #[test]
    fn case_space_and_url_encoding_are_near() {
        assert!(near("Invoice.XML", "invoice.xml"));
        assert!(near(" a.xml\n", "a.xml"));
        assert!(near("a%20b.xml", "a b.xml"));
        assert!(near("a+b.xml", "a b.xml"));
        assert!(near("Acks%2Fb1", "acks/b1"));
        assert!(!near("a.xml", "b.xml"));
        assert!(!near("100%", "100"));
    }
}
