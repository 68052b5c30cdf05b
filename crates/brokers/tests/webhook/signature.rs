//! Signatures and headers as a receiver sees them, verified with another library than the one that
//! signs.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sendoff_brokers::webhook::{WebhookOptions, WebhookPublisher, WebhookSecret};
use sendoff_core::Message;
use sendoff_core::time::Clock;
use sha2::Sha256;

use crate::receiver::{Arrived, Receiver, message, publish, publisher};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfLXXU6gDk=";

/// Whether one of the signatures is that of a secret, as the standard has receivers verify it.
fn verifies(request: &Arrived, secret: &str) -> bool {
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let signed =
        format!("{}.{}.", request.header("webhook-id"), request.header("webhook-timestamp"));
    request.header("webhook-signature").split(' ').any(|signature| {
        let given = BASE64_STANDARD.decode(signature.strip_prefix("v1,").unwrap()).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(signed.as_bytes());
        mac.update(&request.body);
        mac.verify_slice(&given).is_ok()
    })
}

#[tokio::test]
async fn every_attempt_is_signed_anew_over_id_timestamp_and_body() {
    let server = Receiver::start();
    let clock = Clock::manual();
    let options = WebhookOptions {
        secrets: WebhookSecret::parse_list(OLD).unwrap(),
        clock: clock.clone(),
        ..WebhookOptions::default()
    };
    let publisher = WebhookPublisher::new(&server.url("/hooks/a?b=c"), options).unwrap();
    let body: Vec<u8> = (0..=255).collect();
    let message =
        Message::builder("my.shop", "orders.placed").id("1.2").body(body.clone()).build().unwrap();
    publish(&publisher, &message).await.unwrap();
    clock.advance(Duration::from_millis(61_500));
    publish(&publisher, &message).await.unwrap();
    let arrived = server.arrived();
    let timestamps: Vec<_> = arrived.iter().map(|one| one.header("webhook-timestamp")).collect();
    assert_eq!(timestamps, ["1893456000", "1893456061"]);
    for request in &arrived {
        assert_eq!((request.method.as_str(), request.uri.as_str()), ("POST", "/hooks/a?b=c"));
        assert_eq!(request.header("webhook-id"), "my%2Eshop/1%2E2");
        assert_eq!(request.header("content-type"), "application/octet-stream");
        assert_eq!(request.header("content-length"), "256");
        assert_eq!(request.header("sendoff-topic"), "orders.placed");
        assert_eq!(request.body, body);
        assert!(verifies(request, OLD));
        assert!(!verifies(request, NEW), "the check can fail");
    }
}

#[tokio::test]
async fn each_of_several_secrets_signs_so_that_a_receiver_can_change_over() {
    let server = Receiver::start();
    let options = WebhookOptions {
        secrets: WebhookSecret::parse_list(&format!("{NEW} {OLD}")).unwrap(),
        ..WebhookOptions::default()
    };
    let publisher = WebhookPublisher::new(&server.url("/"), options).unwrap();
    publish(&publisher, &message("1")).await.unwrap();
    let request = &server.arrived()[0];
    assert_eq!(request.header("webhook-signature").split(' ').count(), 2);
    assert!(verifies(request, OLD) && verifies(request, NEW));
    let shown = format!("{publisher:?}");
    assert!(!shown.contains("MfKQ") && !shown.contains("C2FV"), "{shown}");
}

#[tokio::test]
async fn without_a_secret_there_is_no_signature() {
    let server = Receiver::start();
    publish(&publisher(&server.url("/")), &message("1")).await.unwrap();
    let request = &server.arrived()[0];
    assert!(!request.headers.contains_key("webhook-signature"));
    assert_eq!(request.header("webhook-id"), "shop/1");
}

#[tokio::test]
async fn nothing_of_a_message_becomes_a_header_line_of_its_own() {
    let server = Receiver::start();
    let publisher = publisher(&server.url("/"));
    let message = Message::builder("shop", "orders\u{85}placed".replace('\u{85}', "\u{2028}"))
        .id("1")
        .key("k\r\nwebhook-signature: forged\r\n\r\nPOST / HTTP/1.1")
        .header("Webhook-Signature", "forged")
        .header("Content-Length", "0")
        .header("Transfer-Encoding", "chunked")
        .header("Host", "forged")
        .header("x-\u{e9}", "a\tb")
        .body("{}")
        .build()
        .unwrap();
    publish(&publisher, &message).await.unwrap();
    let arrived = server.arrived();
    assert_eq!(arrived.len(), 1);
    assert_eq!(arrived[0].header("host"), format!("127.0.0.1:{}", server.port()));
    assert_eq!(arrived[0].header("content-length"), "2");
    assert!(!arrived[0].headers.contains_key("webhook-signature"));
    assert!(!arrived[0].headers.contains_key("transfer-encoding"));
    assert_eq!(server.arrivals()[0].message, message);
}

#[tokio::test]
async fn user_and_password_of_the_url_are_sent_and_shown_nowhere() {
    let server = Receiver::start();
    let url = format!("http://me:hush@127.0.0.1:{}/a?key=hush", server.port());
    let publisher = publisher(&url);
    publish(&publisher, &message("1")).await.unwrap();
    assert_eq!(server.arrived()[0].header("authorization"), "Basic bWU6aHVzaA==");
    assert_eq!(server.arrived()[0].uri, "/a?key=hush");
    drop(server);
    let error = publish(&publisher, &message("2")).await.unwrap_err();
    let shown = format!("{publisher:?} {error:?}");
    assert!(!shown.contains("hush") && !shown.contains("bWU6"), "{shown}");
}
