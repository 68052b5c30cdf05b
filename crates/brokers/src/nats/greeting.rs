//! The beginning of a connection: what the server says of itself, and who we are.

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::nats::NatsOptions;
use crate::nats::address::{Login, NatsAddress};
use crate::nats::wire::{self, Op};

/// A connection that has been greeted, and listens to its inbox.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) stream: TcpStream,
    /// Bytes that came after the greeting.
    pub(super) read: Vec<u8>,
    /// The largest message, headers included, that the server takes.
    pub(super) max_payload: usize,
    /// The subject that answers are sent to, with a dot and a token behind it.
    pub(super) inbox: String,
}

/// What the server says of itself, as far as it matters.
#[derive(Debug, Deserialize)]
struct Info {
    #[serde(default)]
    headers: bool,
    #[serde(default)]
    max_payload: usize,
    #[serde(default)]
    tls_required: bool,
}

/// What we say of ourselves.
#[derive(Serialize)]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    headers: bool,
    no_responders: bool,
    protocol: u8,
    lang: &'a str,
    version: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<&'a str>,
}

/// Connects, logs in and subscribes to an inbox of its own. Without a bound in time.
///
/// # Errors
/// A text that says why not, without the password.
pub(super) async fn greet(address: &NatsAddress, options: &NatsOptions) -> Result<Greeted, String> {
    let mut stream =
        TcpStream::connect(address.server()).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let mut read = Vec::new();
    let info: Info = loop {
        let told = match wire::read(&read).map_err(|garbled| garbled.0.to_owned())? {
            Some((Op::Info(info), taken)) => {
                let info = serde_json::from_slice(info);
                Some((info.map_err(|_| "its greeting cannot be read".to_owned())?, taken))
            }
            Some((Op::Error(error), _)) => return Err(error.to_lowercase()),
            Some(_) => return Err("it does not greet as a NATS server".to_owned()),
            None => None,
        };
        if let Some((info, taken)) = told {
            read.drain(..taken);
            break info;
        }
        more(&mut stream, &mut read).await?;
    };
    if info.tls_required {
        return Err("the server requires TLS, which is not supported yet".to_owned());
    }
    if !info.headers {
        return Err("the server takes no headers (NATS 2.2 and later do)".to_owned());
    }
    let inbox = new_inbox();
    let connect = connect(address, options)?;
    let hello = format!("CONNECT {connect}\r\nSUB {inbox}.* 1\r\nPING\r\n");
    stream.write_all(hello.as_bytes()).await.map_err(|error| error.to_string())?;
    // The server answers the PING when it has taken what came before it.
    loop {
        let (taken, done) = match wire::read(&read).map_err(|garbled| garbled.0.to_owned())? {
            Some((Op::Error(error), _)) => return Err(error.to_lowercase()),
            Some((Op::Pong, taken)) => (taken, true),
            Some((_, taken)) => (taken, false),
            None => {
                more(&mut stream, &mut read).await?;
                continue;
            }
        };
        read.drain(..taken);
        if done {
            return Ok(Greeted { stream, read, max_payload: info.max_payload, inbox });
        }
    }
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> Result<(), String> {
    match stream.read_buf(read).await {
        Ok(0) => Err("the server closed the connection".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn connect(address: &NatsAddress, options: &NatsOptions) -> Result<String, String> {
    let (user, pass, auth_token) = match address.login() {
        None => (None, None, None),
        Some(Login::Token(token)) => (None, None, Some(token.as_str())),
        Some(Login::Password { user, password }) => {
            (Some(user.as_str()), Some(password.as_str()), None)
        }
    };
    let connect = Connect {
        verbose: false,
        pedantic: false,
        tls_required: false,
        headers: true,
        no_responders: true,
        protocol: 1,
        lang: "rust",
        version: env!("CARGO_PKG_VERSION"),
        name: &options.client_name,
        user,
        pass,
        auth_token,
    };
    // It cannot fail: texts and numbers. The error's text could quote a value.
    serde_json::to_string(&connect).map_err(|_| "the greeting cannot be written".to_owned())
}

/// A subject that nobody else has.
fn new_inbox() -> String {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds each of these from the system's randomness.
    let half = || RandomState::new().hash_one(std::process::id());
    format!("_INBOX.{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_told_and_nothing_else_is_made_up() {
        let options = NatsOptions::default();
        let told = |url| connect(&NatsAddress::parse(url).unwrap(), &options).unwrap();
        let plain = told("nats://host/S");
        assert!(!plain.contains("user") && !plain.contains("auth_token"), "{plain}");
        assert!(plain.contains(r#""no_responders":true"#), "{plain}");
        let user = told("nats://me:p%22w@host/S");
        assert!(user.contains(r#""user":"me","pass":"p\"w""#), "{user}");
        assert!(told("nats://t0k@host/S").contains(r#""auth_token":"t0k""#));
    }

    #[test]
    fn no_two_inboxes_are_the_same() {
        assert_ne!(new_inbox(), new_inbox());
        assert_eq!(new_inbox().len(), "_INBOX.".len() + 32);
    }
}
