//! Who may use the routes: whoever has a bearer token of the configuration.

use std::fmt;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hmac::{Hmac, KeyInit, Mac};
use sendoff::Result;
use sha2::Sha256;

use super::{Api, Problem};
use crate::secret;

/// The tokens that are accepted, kept as keyed hashes and compared in constant time.
pub(crate) struct Keys {
    key: Hmac<Sha256>,
    hashes: Vec<Vec<u8>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({} tokens)", self.hashes.len())
    }
}

impl Keys {
    /// Accepts these tokens.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new(tokens: &[String]) -> Result<Self> {
        // A key of this process: how long a comparison takes says nothing of a token's text.
        let mut key = <Hmac<Sha256> as KeyInit>::new(&Default::default());
        key.update(&secret::random()?);
        let hash = |token: &String| {
            let mut hash = key.clone();
            hash.update(token.as_bytes());
            hash.finalize().into_bytes().to_vec()
        };
        let hashes = tokens.iter().map(hash).collect();
        Ok(Self { key, hashes })
    }

    fn admit(&self, token: &[u8]) -> bool {
        let mut presented = self.key.clone();
        presented.update(token);
        self.hashes
            .iter()
            .fold(false, |admitted, hash| presented.clone().verify_slice(hash).is_ok() | admitted)
    }
}

/// Lets a request through that has a token; before its body is read.
pub(super) async fn authorized(State(api): State<Api>, request: Request, next: Next) -> Response {
    let token = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().split_at_checked("bearer ".len()))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
        .map(|(_, token)| token.trim_ascii());
    match token {
        Some(token) if api.0.keys.admit(token) => next.run(request).await,
        _ => Problem::new("unauthorized", "send the header `Authorization: Bearer TOKEN`")
            .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;

    #[test]
    fn each_token_is_admitted_and_nothing_else_is() {
        let keys = Keys::new(&["first-token".to_owned(), "second-token".to_owned()]).unwrap();
        assert!(keys.admit(b"first-token") && keys.admit(b"second-token"));
        for other in [&b""[..], b"first-toke", b"first-token ", b"first-token,second-token"] {
            assert!(!keys.admit(other));
        }
        assert!(!Keys::new(&[]).unwrap().admit(b""));
        assert!(!format!("{keys:?}").contains("first"));
    }
}
