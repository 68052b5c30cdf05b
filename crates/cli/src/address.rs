//! Names in the paths and queries of URLs, byte for byte.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// What RFC 3986 calls unreserved stays as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Bytes as one segment of a path, or as a value in a query.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    match bytes {
        // Clients take these two away as steps in a path, encoded or not: nothing can be done but
        // to encode them and to say so in the documentation.
        b"." => "%2E".to_owned(),
        b".." => "%2E%2E".to_owned(),
        _ => percent_encode(bytes, ENCODED).to_string(),
    }
}

/// The bytes of the segments of a path.
pub(crate) fn segments(path: &str) -> Vec<Vec<u8>> {
    path.trim_start_matches('/')
        .split('/')
        .map(|part| percent_decode(part.as_bytes()).collect())
        .collect()
}

/// The parameters of a query, as they stand in it: a plus sign is a space.
pub(crate) fn parameters(query: &str) -> Vec<(String, Option<Vec<u8>>)> {
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (part, None),
            };
            let value =
                value.map(|value| percent_decode(value.replace('+', " ").as_bytes()).collect());
            (percent_decode(name.as_bytes()).decode_utf8_lossy().into_owned(), value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_from_a_path_and_from_a_query() {
        let every: Vec<u8> = (0..=255).collect();
        for name in [&every[..], b"a/b?c#d%2F+ &=", "\u{1f41f}".as_bytes(), b".", b".."] {
            let path = format!("/v1/callbacks/b/{}", encoded(name));
            assert_eq!(segments(&path).last().unwrap(), name);
            let query = format!("failures&after={}", encoded(name));
            assert_eq!(parameters(&query)[1], ("after".to_owned(), Some(name.to_vec())));
        }
    }

    #[test]
    fn a_parameter_may_have_no_value() {
        assert_eq!(parameters("failures&x=")[0], ("failures".to_owned(), None));
        assert_eq!(parameters("failures&x=")[1], ("x".to_owned(), Some(Vec::new())));
        assert!(parameters("").is_empty());
    }
}
