//! `https://[user:password@]host[:port]/path[?query]`, taken apart.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::{HeaderValue, InvalidHeaderValue};
use hyper::http::uri::InvalidUri;
use sendoff_core::{Error, Result};
use url::{Position, Url};

use crate::percent;

const EXAMPLE: &str = "an example: https://shop.example/hooks/orders";

/// Where a webhook is posted to.
///
/// `Display` and `Debug` show neither the user, the password, the query nor what looks like a token
/// in the path.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookAddress {
    url: Url,
    authorization: Option<HeaderValue>,
}

impl WebhookAddress {
    /// Takes a URL apart.
    ///
    /// ```
    /// use sendoff_brokers::webhook::WebhookAddress;
    /// let address = WebhookAddress::parse("https://me:hush@shop.example/hooks?key=hush")?;
    /// assert_eq!(address.to_string(), "https://shop.example/hooks?***");
    /// # Ok::<(), sendoff_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] with the reason and an example. The URL is not quoted.
    pub fn parse(text: &str) -> Result<Self> {
        if !text.starts_with("https://") && !text.starts_with("http://") {
            return Err(refused("it does not begin with https:// or http://"));
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(refused("white space and control characters have to be percent-encoded"));
        }
        if text.contains('#') {
            return Err(refused("a `#` has to be percent-encoded (%23): fragments are not sent"));
        }
        let mut url = Url::parse(text).map_err(|error| refused(error.to_string()))?;
        if url.host().is_none() || url.port() == Some(0) {
            return Err(refused("it names no host, or port 0"));
        }
        if path_and_query(&url).is_err() || host_and_port(&url).is_err() {
            return Err(refused("what is not a letter or a digit has to be percent-encoded"));
        }
        let authorization = authorization(&url)?;
        // Neither can fail for a URL with a host.
        if url.set_username("").is_err() || url.set_password(None).is_err() {
            return Err(refused("it names no host"));
        }
        Ok(Self { url, authorization })
    }

    /// Without user and password.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The value of `authorization`, marked as a secret.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }
}

/// Basic authorization, where the URL has a user.
fn authorization(url: &Url) -> Result<Option<HeaderValue>> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let decoded = |part: &str| {
        percent::decode(part)
            .map(std::borrow::Cow::into_owned)
            .ok_or_else(|| refused("the user or the password has a broken percent-encoding"))
    };
    let user = decoded(url.username())?;
    if user.contains(':') {
        return Err(refused("a user's name cannot have a `:`"));
    }
    let password = decoded(url.password().unwrap_or_default())?;
    let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}"))
        .map_err(|_| refused("the user or the password cannot be sent"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// What stands in a request's first line.
pub(super) fn path_and_query(url: &Url) -> std::result::Result<Uri, InvalidUri> {
    Uri::try_from(&url[Position::BeforePath..Position::AfterQuery])
}

/// The value of `host`.
pub(super) fn host_and_port(url: &Url) -> std::result::Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::try_from(&url[Position::BeforeHost..Position::AfterPort])
}

/// A URL for people: nothing that may be a secret.
pub(super) fn shown(url: &Url) -> String {
    let mut text = origin(url);
    for segment in url.path().split('/').skip(1) {
        text.push('/');
        text.push_str(if looks_like_a_token(segment) { "***" } else { segment });
    }
    if url.query().is_some() {
        text.push_str("?***");
    }
    text
}

/// Scheme, host and port.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn looks_like_a_token(segment: &str) -> bool {
    const TOKEN_BYTES_MIN: usize = 20;
    segment.len() >= TOKEN_BYTES_MIN
        && segment.contains(|c: char| c.is_ascii_digit())
        && segment.contains(|c: char| c.is_ascii_alphabetic())
}

impl fmt::Display for WebhookAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.url))
    }
}

impl fmt::Debug for WebhookAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookAddress({self})")
    }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::invalid("reading a webhook's URL", reason).advice(EXAMPLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sendoff_core::ErrorKind;

    use super::WebhookAddress;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("https://h", "https://h/"),
            ("http://h:80/a", "http://h/a"),
            ("https://h:8443/a/b", "https://h:8443/a/b"),
            ("https://me:hush@h/a?key=hush#".trim_end_matches('#'), "https://h/a?***"),
            ("https://hush@h/", "https://h/"),
            ("https://h/services/T0HUSH/xhushhush0123456789xx", "https://h/services/T0HUSH/***"),
            ("http://[::1]:8080/a", "http://[::1]:8080/a"),
            ("http://0x7f.1/a", "http://127.0.0.1/a"),
            ("https://h/a%20b", "https://h/a%20b"),
        ] {
            let address = WebhookAddress::parse(url).unwrap();
            assert_eq!(address.to_string(), shown);
            assert!(!format!("{address:?}").contains("hush"), "{address:?}");
        }
    }

    #[test]
    fn user_and_password_become_basic_authorization() {
        let address = WebhookAddress::parse("https://me:h%40sh@h/").unwrap();
        let value = address.authorization().unwrap();
        assert_eq!(value.to_str().unwrap(), "Basic bWU6aEBzaA==");
        assert!(value.is_sensitive());
        assert!(WebhookAddress::parse("https://h/").unwrap().authorization().is_none());
    }

    #[test]
    fn a_malformed_url_is_refused_without_being_quoted() {
        for url in [
            "hush",
            "https:hush.example/",
            "https://",
            "https://:80/hush",
            "https://hush:0/",
            "https://h:99999/hush",
            "https://h/hush#a",
            "https://h/hu sh",
            "https://h/hush\r\nx: y",
            "https://me:hush%@h/",
            "https://%3Ahush:x@h/",
            "ftp://hush/",
        ] {
            let error = WebhookAddress::parse(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            let text = error.to_string();
            assert!(!text.contains("hush"), "{text}");
            assert!(text.contains("an example: https://"), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_text_is_an_address_or_refused(text in "(https?://)?[ -~]{0,40}|\\PC{0,20}") {
            if let Ok(address) = WebhookAddress::parse(&text) {
                prop_assert!(super::path_and_query(address.url()).is_ok());
                // What is shown is an address itself.
                prop_assert!(WebhookAddress::parse(&address.to_string()).is_ok(), "{}", address);
            }
        }

        #[test]
        fn user_password_and_query_are_never_shown(
            user in "[a-z%@:/ ]{0,6}", password in "[ -~]{0,8}", query in "[ -~]{0,8}",
        ) {
            let encode = |text: &str| crate::percent::encode(text, |c| !c.is_ascii_alphanumeric()).into_owned();
            let url = format!("https://{}Q9:{}Q9@h/p?{}Q9", encode(&user), encode(&password), encode(&query));
            if let Ok(address) = WebhookAddress::parse(&url) {
                prop_assert_eq!(address.to_string(), "https://h/p?***");
            }
        }
    }
}
