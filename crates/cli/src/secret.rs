//! Passwords in addresses, masked for everything that is shown.

use sendoff::webhook::WebhookAddress;

/// A URL with its password masked. A webhook's is shown as the webhook's own rules have it, or not at
/// all where it is malformed. Of any other, the user's name stays where a password follows it; a user part
/// without one may be a token and is masked whole. Also masks `password=` and the like in queries.
///
/// It masks rather too much than too little: whatever stands before the last `@` is credentials,
/// also in a URL that is malformed.
pub(crate) fn masked(url: &str) -> String {
    if url.starts_with("http:") || url.starts_with("https:") {
        let address = WebhookAddress::parse(url);
        return address.map_or_else(|_| "***".to_owned(), |address| address.to_string());
    }
    let start =
        url.find("://").map(|at| at + 3).or_else(|| url.find(':').map(|at| at + 1)).unwrap_or(0);
    let (scheme, rest) = url.split_at(start);
    let mut text = scheme.to_owned();
    match rest.rfind('@') {
        Some(at) => {
            let credentials = &rest[..at];
            match credentials.split_once(':') {
                Some((user, _)) => text.push_str(&format!("{user}:***")),
                None => text.push_str("***"),
            }
            text.push_str(&masked_parameters(&rest[at..]));
        }
        None => text.push_str(&masked_parameters(rest)),
    }
    text
}

/// Masks the values of parameters whose names say that they are secret.
fn masked_parameters(text: &str) -> String {
    const SECRET: [&str; 5] = ["password", "passwd", "sslpassword", "token", "secret"];
    let mut masked = String::with_capacity(text.len());
    for part in text.split_inclusive(['?', '&', ' ']) {
        let separator = part.chars().last().filter(|c| matches!(c, '?' | '&' | ' '));
        let bare = separator.map_or(part, |_| &part[..part.len() - 1]);
        match bare.split_once('=') {
            Some((name, _)) if SECRET.contains(&name.to_lowercase().as_str()) => {
                masked.push_str(&format!("{name}=***"));
            }
            _ => masked.push_str(bare),
        }
        masked.extend(separator);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn passwords_are_masked_wherever_they_stand() {
        for (url, shown) in [
            ("postgres://u:secret@h:5432/d", "postgres://u:***@h:5432/d"),
            ("postgres://u:se/c@ret@h/d", "postgres://u:***@h/d"),
            ("postgres:/u:secret@h/d", "postgres:/u:***@h/d"),
            ("postgres://h/d?user=u&password=secret&x=1", "postgres://h/d?user=u&password=***&x=1"),
            ("nats://secret@h:4222/S", "nats://***@h:4222/S"),
            ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("https://u:secret@h/a?secret", "https://h/a?***"),
            ("https://h/hooks/secretsecretsecret01234", "https://h/hooks/***"),
            ("https:u:secret@h", "***"),
        ] {
            assert_eq!(masked(url), shown);
            assert!(!masked(url).contains("secret"), "{url}");
        }
    }
}
