//! Secrets and signatures of Standard Webhooks.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use sendoff_core::{Error, Result};

const PREFIX: &str = "whsec_";
const KEY_BYTES_MIN: usize = 24;
const KEY_BYTES_MAX: usize = 64;

/// A secret that requests are signed with: `whsec_` and the Base64 of 24 to 64 bytes.
///
/// `Debug` does not show it.
///
/// ```
/// use sendoff_brokers::webhook::WebhookSecret;
/// let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
/// assert_eq!(format!("{secret:?}"), "WebhookSecret(***)");
/// # Ok::<(), sendoff_core::Error>(())
/// ```
#[derive(Clone)]
pub struct WebhookSecret(hmac::Key);

impl WebhookSecret {
    /// The most secrets that one publisher signs with.
    pub const MAX: usize = 8;

    /// Reads secrets with white space or commas between, as a variable of the environment has them.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] with the place of the one that is malformed, or where
    /// there are more than [`WebhookSecret::MAX`]. Nothing of them is quoted.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        let parts: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|part| !part.is_empty())
            .collect();
        if parts.len() > Self::MAX {
            return Err(refused(format!(
                "there are {}, and {} can be used at once",
                parts.len(),
                Self::MAX
            )));
        }
        let read = |(index, part): (usize, &&str)| {
            key(part).map(Self).map_err(|why| refused(format!("number {} {why}", index + 1)))
        };
        parts.iter().enumerate().map(read).collect()
    }

    /// `v1,` and the signature in Base64.
    pub(crate) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let mut signing = hmac::Context::with_key(&self.0);
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            signing.update(part);
        }
        format!("v1,{}", BASE64_STANDARD.encode(signing.sign()))
    }
}

fn key(text: &str) -> std::result::Result<hmac::Key, String> {
    let encoded =
        text.strip_prefix(PREFIX).ok_or_else(|| format!("does not begin with {PREFIX}"))?;
    let bytes = BASE64_STANDARD
        .decode(encoded)
        .map_err(|_| format!("is not {PREFIX} and padded Base64"))?;
    if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes.len()) {
        return Err(format!(
            "has {} bytes, and a key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX}",
            bytes.len()
        ));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

impl FromStr for WebhookSecret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        key(text).map(Self).map_err(|why| refused(format!("it {why}")))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(***)")
    }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::invalid("reading a webhook's secret", reason)
        .advice("make one: echo whsec_$(head -c 32 /dev/urandom | base64)")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::WebhookSecret;

    const ONE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // Computed with Python's hmac and hashlib.
        let secret: WebhookSecret = ONE.parse().unwrap();
        assert_eq!(
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b"{\"test\": 2432232314}"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn malformed_secrets_are_refused_and_not_quoted() {
        let short = "whsec_aHVzaGh1c2g=";
        let long = format!("whsec_{}", "aHVz".repeat(22));
        let unpadded = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS";
        for text in ["", "hush", "whsec_", "whsec_hush!", short, &long, unpadded, " ", "v1,hush"] {
            let error = text.parse::<WebhookSecret>().expect_err(text).to_string();
            assert!(!error.contains("hush") && !error.contains("aHVz"), "{error}");
            assert!(error.contains("/dev/urandom"), "{error}");
        }
        let error = WebhookSecret::parse_list(&format!("{ONE} hush")).unwrap_err().to_string();
        assert!(error.contains("number 2 does not begin with whsec_"), "{error}");
        let many = [ONE; WebhookSecret::MAX + 1].join(",");
        assert!(WebhookSecret::parse_list(&many).is_err());
        assert_eq!(WebhookSecret::parse_list(&format!(" {ONE},\n{ONE} ")).unwrap().len(), 2);
        assert_eq!(WebhookSecret::parse_list("").unwrap().len(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_text_is_secrets_or_refused_without_being_quoted(
            text in "(whsec_)?[A-Za-z0-9+/=, ]{0,90}|\\PC{0,20}",
        ) {
            match WebhookSecret::parse_list(&text) {
                Ok(secrets) => {
                    prop_assert!(secrets.len() <= WebhookSecret::MAX);
                    let shown = format!("{secrets:?}");
                    prop_assert_eq!(shown.matches("(***)").count(), secrets.len());
                }
                Err(error) => {
                    for part in text.split_whitespace().filter(|part| part.len() > 14) {
                        prop_assert!(!error.to_string().contains(part), "{}", error);
                    }
                }
            }
        }
    }
}
