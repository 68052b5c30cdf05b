//! Addresses of stores and targets, and secrets of webhooks: nothing of a password is ever shown.

use sendoff_brokers::Target as Address;
use sendoff_brokers::webhook::WebhookSecret;
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};

use crate::{SECRET, Target, assert_discreet};

/// A target's address; the password is put between its first two parts.
pub(crate) const TARGET: Target = Target {
    name: "target_url",
    run: target,
    seeds: &[
        b"nats://|@host:4222/STREAM?create=true",
        b"tls://|@host/STREAM?ca=x",
        b"https://|@host/path?a=b",
        b"file:out.jsonl|",
        b"stdout:|",
    ],
};

/// The text with the secret where the bar is.
fn with_secret(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let (before, after) = text.split_once('|').unwrap_or((&text, ""));
    format!("{before}me:{SECRET}{after}")
}

/// Whether the secret stands where a login is, in front of whatever follows; in a path it is none.
fn has_login(url: &str) -> bool {
    const SCHEMES: [&str; 6] = ["nats", "tls", "http", "https", "postgres", "postgresql"];
    let login = format!("me:{SECRET}");
    url.split_once("://")
        .is_some_and(|(scheme, rest)| SCHEMES.contains(&scheme) && rest.starts_with(&login))
}

fn target(data: &[u8]) {
    let url = with_secret(data);
    match Address::read(&url) {
        Ok(address) if has_login(&url) => assert_discreet(&address, ""),
        Err(error) if has_login(&url) => assert_discreet(&error, &error.to_string()),
        _ => {}
    }
}

/// The address of a PostgreSQL store.
pub(crate) const STORE: Target = Target {
    name: "store_url",
    run: store,
    seeds: &[
        b"postgres://|@host:5432/shop",
        b"postgres://|@a:1,b:2/shop?target_session_attrs=any",
        b"postgresql://|@[::1]/shop?sslmode=disable",
        b"postgres://|@/shop?host=/tmp",
    ],
};

fn store(data: &[u8]) {
    let url = with_secret(data);
    match PostgresStore::new(&url, PostgresOptions::default()) {
        Ok(store) if has_login(&url) => assert_discreet(&store, ""),
        Err(error) if has_login(&url) => assert_discreet(&error, &error.to_string()),
        _ => {}
    }
}

/// A list of a webhook's secrets.
pub(crate) const SECRETS: Target = Target {
    name: "webhook_secrets",
    run: secrets,
    seeds: &[b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b"a, b\nc", b"whsec_"],
};

fn secrets(data: &[u8]) {
    let text = format!("{} {SECRET}", String::from_utf8_lossy(data));
    match WebhookSecret::parse_list(&text) {
        Ok(secrets) => assert_discreet(&secrets, ""),
        Err(error) => assert_discreet(&error, &error.to_string()),
    }
}
