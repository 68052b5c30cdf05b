//! As much of HTTP as the tests need.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::folder::PATIENCE;

/// Sends one request and gives the status and the JSON of the answer.
pub(crate) fn request(port: u16, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // An endpoint that refuses a large body may close before it has read it all.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    (status, value)
}
