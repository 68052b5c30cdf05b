//! Secrets: passwords in addresses, masked for everything that is shown, and random ones.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sendoff::{Error, ErrorKind, Result};

/// A secret that is shorter was cut by a crash, or is none.
const KEPT_CHARACTERS_MIN: usize = 32;

/// Random bytes, fit for a key.
///
/// # Errors
/// The system gives none.
pub(crate) fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Unexpected, "drawing random bytes").detail(error.to_string())
    })?;
    Ok(bytes)
}

/// Random bytes as text.
///
/// # Errors
/// As [`random`].
pub(crate) fn random_text() -> Result<String> {
    Ok(random()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The secret that a file keeps, which nobody but its owner may read. Made where it is not there.
///
/// # Errors
/// The file can be neither read nor made.
pub(crate) fn kept(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Unexpected, "keeping a secret")
            .subject(path.display().to_string())
            .caused_by(error)
    };
    match fs::read_to_string(path) {
        Ok(text) if text.trim().len() >= KEPT_CHARACTERS_MIN => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let secret = random_text()?;
    let new = path.with_extension("new");
    // What a crash left behind, with whatever rights it has.
    let _ = fs::remove_file(&new);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            writeln!(file, "{secret}")?;
            file.sync_all()?;
            fs::rename(&new, path)
        })
        .map_err(failed)?;
    Ok(secret)
}

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
    use std::os::unix::fs::PermissionsExt;

    use super::{kept, masked};

    #[test]
    fn a_kept_secret_is_its_owners_and_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let secret = kept(&path).unwrap();
        assert!(secret.len() >= 64);
        assert_eq!(kept(&path).unwrap(), secret);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Cut by a crash.
        std::fs::write(&path, "").unwrap();
        assert_ne!(kept(&path).unwrap(), secret);
    }

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
