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

/// Gets a page that is no JSON.
pub(crate) fn text(port: u16, path: &str) -> String {
    text_with(port, path, "")
}

/// The same with more headers, each of which ends with a carriage return and a line feed.
pub(crate) fn text_with(port: u16, path: &str, headers: &str) -> String {
    let (head, body) = exchange(port, "GET", path, headers, b"");
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
    body
}

/// Sends one request with more headers, each of which ends with a carriage return and a line feed.
pub(crate) fn request_with(
    port: u16,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Answer {
    let (head, body) = exchange(port, method, path, headers, body);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    Answer { status, head: head.to_lowercase(), value }
}

/// Head and body of what is answered.
fn exchange(port: u16, method: &str, path: &str, headers: &str, body: &[u8]) -> (String, String) {
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
    (head.to_owned(), body.to_owned())
}
