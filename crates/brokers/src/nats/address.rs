//! `nats://[user:password@]host[:port]/STREAM[?parameters]`, taken apart.

use std::fmt;

use sendoff_core::{Error, Result};

use crate::nats::parameters::{self, Parameters};
use crate::nats::security::Files;
use crate::percent;

const PORT_DEFAULT: u16 = 4222;
const EXAMPLE: &str = "an example: nats://127.0.0.1:4222/ORDERS";

/// Where a stream is and under which prefix its subjects stand.
///
/// `Display` and `Debug` never show the user or the password.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsAddress {
    host: String,
    port: u16,
    login: Option<Login>,
    stream: String,
    prefix: String,
    tls: bool,
    create: bool,
    files: Files,
}

/// How to log in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Login {
    /// `user:password@`
    Password { user: String, password: String },
    /// `token@`, as NATS' own tools have it.
    Token(String),
}

impl NatsAddress {
    /// Takes a URL apart; the parameters stand in [`crate::nats`]. Without a port it is 4222; without
    /// `prefix` it is the stream's name; an empty `prefix` means that subjects have none. User,
    /// password, stream and parameters are percent-decoded. Files are not opened.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] with the reason and an example. What could be a part of
    /// a password is not quoted.
    pub fn parse(url: &str) -> Result<Self> {
        let (tls, rest) = match (url.strip_prefix("nats://"), url.strip_prefix("tls://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(refused("it does not begin with nats:// or tls://")),
        };
        let (authority, path) =
            rest.split_once('/').ok_or_else(|| refused("it names no stream"))?;
        if path.contains('@') || rest.contains('#') {
            return Err(refused(
                "a `/`, `@` or `#` inside the user, the password or the parameters has to be \
                 percent-encoded (%2F, %40, %23)",
            ));
        }
        let (login, host_port) = match authority.rsplit_once('@') {
            Some((login, host_port)) => (Some(parse_login(login)?), host_port),
            None => (None, authority),
        };
        let (host, port) = parse_host_port(host_port)?;
        let (stream, query) = match path.split_once('?') {
            Some((stream, query)) => (stream, Some(query)),
            None => (path, None),
        };
        let stream = parse_stream(stream)?;
        let Parameters { prefix, create, files } = query.map_or_else(
            || Ok(Parameters::default()),
            |query| parameters::parse(query, tls, login.is_some()).map_err(refused),
        )?;
        let prefix = prefix.unwrap_or_else(|| stream.clone());
        check_prefix(&prefix)?;
        if create && prefix.is_empty() {
            return Err(refused("a stream of every subject cannot be created: give it a prefix"));
        }
        Ok(Self { host, port, login, stream, prefix, tls, create, files })
    }

    /// The stream that has to confirm every message.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// What subjects begin with, without the dot; empty for nothing.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The filter that a stream needs in order to take every topic.
    #[must_use]
    pub fn filter(&self) -> String {
        if self.prefix.is_empty() { ">".to_owned() } else { format!("{}.>", self.prefix) }
    }

    pub(crate) fn server(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether nothing is said to the server without TLS.
    pub(crate) fn tls(&self) -> bool {
        self.tls
    }

    /// Whether the stream is to be created where it is not there.
    pub(crate) fn create(&self) -> bool {
        self.create
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }
}

impl fmt::Display for NatsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "tls" } else { "nats" };
        write!(f, "{scheme}://{}/{}", self.server(), self.stream)?;
        if self.prefix != self.stream {
            write!(f, "?prefix={}", self.prefix)?;
        }
        Ok(())
    }
}

impl fmt::Debug for NatsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NatsAddress({self})")
    }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::invalid("reading a NATS URL", reason).advice(EXAMPLE)
}

fn parse_login(text: &str) -> Result<Login> {
    let decoded = |part: &str| {
        percent::decode(part)
            .map(std::borrow::Cow::into_owned)
            .ok_or_else(|| refused("the user or the password has a broken percent-encoding"))
    };
    if matches!(text, "" | ":") {
        return Err(refused("there is nothing before the `@`"));
    }
    match text.split_once(':') {
        None => Ok(Login::Token(decoded(text)?)),
        Some((user, password)) => {
            Ok(Login::Password { user: decoded(user)?, password: decoded(password)? })
        }
    }
}

fn parse_host_port(text: &str) -> Result<(String, u16)> {
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, port) = bracketed
            .split_once(']')
            .ok_or_else(|| refused("the `[` of an IPv6 address is not closed"))?;
        (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        }
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(refused("it names no host"));
    }
    let port = match port {
        Some("") if !text.ends_with(':') => PORT_DEFAULT,
        port => port
            .and_then(|port| port.parse().ok())
            .filter(|port| *port > 0)
            .ok_or_else(|| refused("the port is not a number from 1 to 65535"))?,
    };
    Ok((host.to_owned(), port))
}

fn parse_stream(text: &str) -> Result<String> {
    if text.is_empty() {
        return Err(refused("it names no stream"));
    }
    let stream = percent::decode(text)
        .ok_or_else(|| refused("the stream's name has a broken percent-encoding"))?
        .into_owned();
    let forbidden =
        |c: char| matches!(c, '.' | '*' | '>' | '/' | '\\') || c.is_whitespace() || c.is_control();
    if stream.contains(forbidden) || stream.len() > 255 {
        return Err(refused(format!(
            "{stream:?} cannot be a stream's name: no dots, wildcards, slashes or white space, at \
             most 255 bytes"
        )));
    }
    Ok(stream)
}

fn check_prefix(prefix: &str) -> Result<()> {
    let forbidden = |c: char| matches!(c, '*' | '>' | '%') || c.is_whitespace() || c.is_control();
    let reserved = prefix.starts_with('$') || prefix.starts_with("_INBOX");
    let gap = !prefix.is_empty() && prefix.split('.').any(str::is_empty);
    if reserved || gap || prefix.contains(forbidden) || prefix.len() > 255 {
        return Err(refused(format!(
            "{prefix:?} cannot be a prefix: words joined by single dots, no wildcards, `%` or white \
             space, not beginning with `$` or _INBOX, at most 255 bytes"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sendoff_core::ErrorKind;

    use super::{Login, NatsAddress};

    #[test]
    fn a_url_is_taken_apart_and_shown_without_its_password() {
        let address =
            NatsAddress::parse("nats://me:p%40ss@broker.example:5222/ORDERS?prefix=shop.eu")
                .unwrap();
        assert_eq!(address.server(), "broker.example:5222");
        assert_eq!(address.stream(), "ORDERS");
        assert_eq!(address.prefix(), "shop.eu");
        assert_eq!(address.filter(), "shop.eu.>");
        assert!(
            address.login()
                == Some(&Login::Password { user: "me".to_owned(), password: "p@ss".to_owned() })
        );
        let shown = "nats://broker.example:5222/ORDERS?prefix=shop.eu";
        assert_eq!(address.to_string(), shown);
        assert_eq!(format!("{address:?}"), format!("NatsAddress({shown})"));
    }

    #[test]
    fn port_and_prefix_have_defaults() {
        let address = NatsAddress::parse("nats://localhost/ORDERS").unwrap();
        assert_eq!(address.to_string(), "nats://localhost:4222/ORDERS");
        assert_eq!(address.prefix(), "ORDERS");
        let address = NatsAddress::parse("nats://[::1]/ORDERS?prefix=").unwrap();
        assert_eq!(address.server(), "[::1]:4222");
        assert_eq!(address.filter(), ">");
        let address = NatsAddress::parse("tls://host:1/ORDERS?prefix=a&create=true").unwrap();
        assert_eq!(address.to_string(), "tls://host:1/ORDERS?prefix=a");
        assert!(address.tls() && address.create());
        let address = NatsAddress::parse("nats://s3cret@localhost/ORDERS").unwrap();
        assert!(address.login() == Some(&Login::Token("s3cret".to_owned())));
    }

    #[test]
    fn a_malformed_url_is_refused_with_the_reason_and_an_example() {
        for (url, reason) in [
            ("http://host/S", "does not begin with nats://"),
            ("nats:host/S", "does not begin with nats://"),
            ("tls:host/S", "does not begin with nats:// or tls://"),
            ("nats://host/S?prefix=&create=true", "every subject cannot be created"),
            ("nats://host:4222", "names no stream"),
            ("nats://host:4222/", "names no stream"),
            ("nats://:4222/S", "names no host"),
            ("nats:///S", "names no host"),
            ("nats://@host/S", "nothing before the `@`"),
            ("nats://:@host/S", "nothing before the `@`"),
            ("nats://host:/S", "the port is not a number"),
            ("nats://host:0/S", "the port is not a number"),
            ("nats://host:65536/S", "the port is not a number"),
            ("nats://[::1/S", "not closed"),
            ("nats://[::1]4222/S", "the port is not a number"),
            ("nats://host/A.B", "cannot be a stream's name"),
            ("nats://host/A/B", "cannot be a stream's name"),
            ("nats://host/A%zz", "broken percent-encoding"),
            ("nats://host/S?", "no such parameter"),
            ("nats://host/S?prefx=a", "no such parameter"),
            ("nats://host/S?prefix=a&prefix=b", "`prefix` stands twice"),
            ("nats://host/S?prefix=a..b", "cannot be a prefix"),
            ("nats://host/S?prefix=a.*", "cannot be a prefix"),
            ("nats://host/S?prefix=$JS.API", "cannot be a prefix"),
            ("nats://host/S?prefix=_INBOX.a", "cannot be a prefix"),
        ] {
            let error = NatsAddress::parse(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            let text = error.to_string();
            assert!(text.contains(reason), "{url}: {text}");
            assert!(text.contains("nats://127.0.0.1:4222/ORDERS"), "{url}: {text}");
        }
    }

    #[test]
    fn a_password_is_in_no_message_however_the_url_is_broken() {
        for url in [
            "nats://me:hush/hush@host/S",
            "nats://me:hush@host:x/S",
            "nats://me:hush@/S",
            "nats://me:hush%zz@host/S",
            "nats://me:hush#@host/S",
            "nats://me:hush@host",
            "nats://me:hush@host/S?hush@",
            "nats://me:hush",
            "tls://me:hush@host/S?hush",
            "tls://me:hush@host/S?hush=hush",
            "tls://hush@host/S?credentials=hush",
            "http://me:hush@host/S",
        ] {
            let error = NatsAddress::parse(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("hush"), "{url}: {error}");
        }
    }
}
