//! The client protocol of NATS, as far as a publisher speaks it: what a server sends, read from
//! bytes, and what is sent to it, written to bytes. No socket here.

use crate::nats::headers;
use sendoff_core::Message;

/// One operation of the server's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Op<'a> {
    /// A delivery to our subscription: here always the answer to something that was sent.
    Delivery {
        subject: &'a str,
        /// The status of an answer without a body, such as 503.
        status: Option<u16>,
        payload: &'a [u8],
    },
    Ping,
    Pong,
    /// The server's complaint, without its quotes.
    Error(&'a str),
    /// What the server says of itself, in JSON.
    Info(&'a [u8]),
    Ok,
}

/// Bytes that are no protocol of NATS'.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled(pub(super) &'static str);

/// A line of the protocol is never longer, but for what a server says of itself.
const LINE_MAX: usize = 64 << 10;
/// An answer of JetStream's is never larger by far.
const DELIVERY_MAX: usize = 8 << 20;

/// Reads the first operation and how many bytes it has; `None` where it is not complete.
///
/// # Errors
/// [`Garbled`] where it can never become one.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Op<'_>, usize)>, Garbled> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() > LINE_MAX { Err(Garbled("an endless line")) } else { Ok(None) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let after = end + 1;
    let op = match line {
        [b'M' | b'm', ..] => return read_delivery(line, &bytes[after..], after, false),
        [b'H' | b'h', ..] => return read_delivery(line, &bytes[after..], after, true),
        b"PING" => Op::Ping,
        b"PONG" => Op::Pong,
        [b'+', ..] => Op::Ok,
        [b'-', ..] => {
            let text = std::str::from_utf8(line).unwrap_or("-ERR").trim_start_matches("-ERR");
            Op::Error(text.trim().trim_matches('\''))
        }
        [b'I', b'N', b'F', b'O', info @ ..] => Op::Info(info),
        _ => return Err(Garbled("an unknown operation")),
    };
    Ok(Some((op, after)))
}

/// `MSG subject sid [reply] bytes`, or `HMSG subject sid [reply] header-bytes all-bytes`; then
/// the bytes and a line feed.
fn read_delivery<'a>(
    line: &'a [u8],
    rest: &'a [u8],
    before: usize,
    with_headers: bool,
) -> Result<Option<(Op<'a>, usize)>, Garbled> {
    const BROKEN: Garbled = Garbled("a delivery that cannot be read");
    let line = std::str::from_utf8(line).map_err(|_| BROKEN)?;
    let subject = line.split_ascii_whitespace().nth(1).ok_or(BROKEN)?;
    let mut sizes = line.rsplit(' ');
    let mut size = || sizes.next().and_then(|word| word.parse::<usize>().ok()).ok_or(BROKEN);
    let all = size()?;
    let header_bytes = if with_headers { size()? } else { 0 };
    if all > DELIVERY_MAX || header_bytes > all {
        return Err(BROKEN);
    }
    if rest.len() < all + 2 {
        return Ok(None);
    }
    let (headers, payload) = rest[..all].split_at(header_bytes);
    if &rest[all..all + 2] != b"\r\n" {
        return Err(BROKEN);
    }
    let op = Op::Delivery { subject, status: status_of(headers), payload };
    Ok(Some((op, before + all + 2)))
}

/// The status in the first line of headers: `NATS/1.0 503`.
fn status_of(headers: &[u8]) -> Option<u16> {
    let line = headers.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Writes publishes.
#[derive(Debug)]
pub(super) struct Writer {
    /// What answers are sent to, with a dot and a token behind it.
    inbox: String,
    headers: Vec<u8>,
}

impl Writer {
    pub(super) fn new(inbox: String) -> Self {
        Self { inbox, headers: Vec::with_capacity(512) }
    }

    /// The token of an answer that was sent to this subject.
    pub(super) fn token(&self, subject: &str) -> Option<u64> {
        subject.strip_prefix(self.inbox.as_str())?.strip_prefix('.')?.parse().ok()
    }

    /// A message, to be answered under the token. Answers how many bytes count against the
    /// server's `max_payload` where these are more than it takes; then nothing is written.
    pub(super) fn publish(
        &mut self,
        out: &mut Vec<u8>,
        (subject, token): (&str, u64),
        message: &Message,
        max_payload: usize,
    ) -> Result<(), usize> {
        self.headers.clear();
        headers::write(message, &mut self.headers);
        let body: &[u8] = message.body();
        let size = self.headers.len() + body.len();
        if size > max_payload {
            return Err(size);
        }
        out.reserve(size + subject.len() + self.inbox.len() + 64);
        out.extend_from_slice(b"HPUB ");
        self.address(out, subject, token);
        number(out, self.headers.len() as u64);
        out.push(b' ');
        number(out, size as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.headers);
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// A question without a body, to be answered under the token.
    pub(super) fn ask(&self, out: &mut Vec<u8>, subject: &str, token: u64) {
        out.extend_from_slice(b"PUB ");
        self.address(out, subject, token);
        out.extend_from_slice(b"0\r\n\r\n");
    }

    fn address(&self, out: &mut Vec<u8>, subject: &str, token: u64) {
        out.extend_from_slice(subject.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.inbox.as_bytes());
        out.push(b'.');
        number(out, token);
        out.push(b' ');
    }
}

/// Appends a number's digits.
fn number(out: &mut Vec<u8>, mut number: u64) {
    const DIGITS: &[u8; 10] = b"0123456789";
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = DIGITS[usize::try_from(number % 10).unwrap_or(0)];
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> (Op<'_>, usize) {
        read(bytes).unwrap().unwrap()
    }

    #[test]
    fn what_a_server_sends_is_read() {
        let ack = br#"MSG _INBOX.a.17 1 27"#;
        let mut bytes = ack.to_vec();
        bytes.extend_from_slice(b"\r\n{\"stream\":\"ORDERS\",\"seq\":1}\r\nPING\r\n");
        let (op, taken) = one(&bytes);
        let payload: &[u8] = br#"{"stream":"ORDERS","seq":1}"#;
        assert_eq!(op, Op::Delivery { subject: "_INBOX.a.17", status: None, payload });
        assert_eq!(one(&bytes[taken..]), (Op::Ping, 6));
        let (op, taken) = one(b"HMSG _INBOX.a.18 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n");
        let empty: &[u8] = b"";
        assert_eq!(op, Op::Delivery { subject: "_INBOX.a.18", status: Some(503), payload: empty });
        assert_eq!(taken, 44);
        let (op, _) = one(b"MSG _INBOX.a.1 1 reply.to 2\r\nok\r\n");
        assert_eq!(op, Op::Delivery { subject: "_INBOX.a.1", status: None, payload: b"ok" });
        assert_eq!(one(b"PONG\r\n").0, Op::Pong);
        assert_eq!(one(b"+OK\r\n").0, Op::Ok);
        assert_eq!(one(b"-ERR 'Stale Connection'\r\n").0, Op::Error("Stale Connection"));
        assert_eq!(one(b"INFO {\"headers\":true}\r\n").0, Op::Info(b" {\"headers\":true}"));
    }

    #[test]
    fn what_is_not_complete_waits_for_the_rest() {
        let whole = b"HMSG a.1 1 16 18\r\nNATS/1.0 503\r\n\r\nxy\r\n";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), Ok(None), "{end}");
        }
        assert_eq!(one(whole).1, whole.len());
    }

    #[test]
    fn what_is_no_protocol_is_refused_and_not_waited_for() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"MSG\r\n",
            b"MSG a 1 x\r\n",
            b"MSG a 1 99999999999\r\n",
            b"HMSG a 1 5 4\r\nabcd\r\n",
            b"MSG a 1 2\r\nabcdef",
            b"\r\n",
        ] {
            assert!(read(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
        assert!(read(&vec![b'x'; LINE_MAX + 1]).is_err());
    }

    #[test]
    fn a_publish_is_written_as_the_protocol_has_it() {
        let message = Message::builder("shop", "t").id("7").body("{}").build().unwrap();
        let mut writer = Writer::new("_INBOX.x".to_owned());
        let mut out = Vec::new();
        writer.publish(&mut out, ("ORDERS.t", 1_000), &message, usize::MAX).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (line, rest) = text.split_once("\r\n").unwrap();
        let headers = rest.len() - "{}\r\n".len();
        assert_eq!(line, format!("HPUB ORDERS.t _INBOX.x.1000 {headers} {}", headers + 2));
        assert!(rest.starts_with("NATS/1.0\r\nNats-Msg-Id: shop/7\r\n"), "{rest}");
        assert!(rest.ends_with("\r\n\r\n{}\r\n"), "{rest}");
        assert_eq!(writer.token("_INBOX.x.1000"), Some(1_000));
        assert_eq!(writer.token("_INBOX.x"), None);
        let mut out = Vec::new();
        let refused = writer.publish(&mut out, ("ORDERS.t", 1), &message, headers + 1);
        assert_eq!(refused, Err(headers + 2));
        assert!(out.is_empty());
        writer.ask(&mut out, "$JS.API.STREAM.INFO.ORDERS", 0);
        assert_eq!(out, b"PUB $JS.API.STREAM.INFO.ORDERS _INBOX.x.0 0\r\n\r\n");
    }
}
