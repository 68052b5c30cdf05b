//! As much of HTTP as the tests need.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::folder::PATIENCE;

/// Sends one request and gives the status and the JSON of the answer.
pub(crate) fn request(port: u16, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let answer = request_with(port, method, path, "", body);
    (answer.status, answer.value)
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status and headers, in small letters.
    pub(crate) head: String,
    pub(crate) value: Value,
}

/// Sends one request with more headers, each of which ends with a carriage return and a line feed.
pub(crate) fn request_with(
    port: u16,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // An endpoint that refuses a large body may close before it has read it all.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{method} {path} was answered with {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    Answer { status, head: head.to_lowercase(), value }
}
