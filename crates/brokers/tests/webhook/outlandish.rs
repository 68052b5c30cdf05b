//! Servers that are no good HTTP servers: silent, cut short, garbled, endless.

use std::time::{Duration, Instant};

use sendoff_brokers::webhook::{WebhookOptions, WebhookPublisher};
use sendoff_core::PublishError;
use sendoff_core::publisher::PublishClass;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::receiver::{message, publish};

/// What a server does after it has read a request.
enum After {
    /// Writes these bytes and closes.
    Close(Vec<u8>),
    /// Writes these bytes and says nothing more.
    Silence(Vec<u8>),
    /// Writes the first, then the second without end.
    Endless(Vec<u8>, Vec<u8>),
}

/// Publishes one message to a server that reads its request and then does as it is told.
async fn outcome(after: After) -> Result<(), PublishError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            // The client may have gone: that is its right.
            match &after {
                After::Close(bytes) => drop(stream.write_all(bytes).await),
                After::Silence(bytes) => {
                    drop(stream.write_all(bytes).await);
                    drop(stream.read(&mut [0; 1]).await);
                }
                After::Endless(bytes, more) => {
                    drop(stream.write_all(bytes).await);
                    while stream.write_all(more).await.is_ok() {}
                }
            }
        }
    });
    let options =
        WebhookOptions { answer_timeout: Duration::from_secs(2), ..WebhookOptions::default() };
    let publisher = WebhookPublisher::new(&url, options).unwrap();
    let outcome = publish(&publisher, &message("1")).await;
    serving.abort();
    outcome
}

async fn read_request(stream: &mut TcpStream) {
    let mut read = Vec::new();
    // The body is `{}`.
    while !read.ends_with(b"\r\n\r\n{}") {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0);
    }
}

async fn class(after: After) -> PublishClass {
    outcome(after).await.unwrap_err().class()
}

#[tokio::test]
async fn an_answer_that_is_cut_short_or_no_http_leaves_the_outcome_unknown() {
    for bytes in [
        "",
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "200 OK\r\n\r\n",
        "HTTP/1.1 200000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "\0\0\0\0",
    ] {
        assert_eq!(class(After::Close(bytes.into())).await, PublishClass::Lost, "{bytes:?}");
    }
}

#[tokio::test]
async fn silence_is_bounded() {
    for bytes in ["", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nx: y\r\n"] {
        let begun = Instant::now();
        assert_eq!(class(After::Silence(bytes.into())).await, PublishClass::TimedOut, "{bytes:?}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_status_counts_whatever_becomes_of_the_body_behind_it() {
    let head = |length: &str| format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\n").into_bytes();
    let (long, chunked) = ("content-length: 1000000000000", "transfer-encoding: chunked");
    let begun = Instant::now();
    for after in [
        After::Close(head(long)),
        After::Silence(head(long)),
        After::Endless(head(long), vec![b'x'; 64 << 10]),
        After::Endless(head(chunked), b"4\r\nxxxx\r\n".repeat(1_000)),
        After::Close([head(chunked), b"not a chunk".to_vec()].concat()),
    ] {
        outcome(after).await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "a body is waited for: {begun:?}");
}

#[tokio::test]
async fn endless_headers_are_not_read_to_their_end() {
    let head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for more in ["x: y\r\n".repeat(1_000), "x".repeat(64 << 10)] {
        let class = class(After::Endless(head.clone(), more.into())).await;
        assert_eq!(class, PublishClass::Lost);
    }
    // Interim answers without end are no answer.
    let interim = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100);
    let class = class(After::Endless(Vec::new(), interim)).await;
    assert!(matches!(class, PublishClass::Lost | PublishClass::TimedOut), "{class:?}");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_unreachable_within_the_bound() {
    let options =
        WebhookOptions { connect_timeout: Duration::from_millis(500), ..WebhookOptions::default() };
    // Nobody listens; no such name; TLS that never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("https://{}/", silent.local_addr().unwrap());
    for url in ["http://127.0.0.1:1/", "http://no-such-host.invalid/", &silent] {
        let begun = Instant::now();
        let publisher = WebhookPublisher::new(url, options.clone()).unwrap();
        let error = publish(&publisher, &message("1")).await.unwrap_err();
        assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
        assert!(error.detail().contains("cannot connect to http"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
