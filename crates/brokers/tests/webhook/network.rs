//! Redirects, and where a request may go.

use std::time::Duration;

use sendoff_brokers::webhook::{Private, Redirects, WebhookOptions, WebhookPublisher};
use sendoff_core::publisher::PublishClass;

use crate::receiver::{Receiver, message, publish, refusal, status, status_with};

fn publisher(url: &str, redirects: Redirects, private: Private) -> WebhookPublisher {
    let options = WebhookOptions { redirects, private, ..WebhookOptions::default() };
    WebhookPublisher::new(url, options).unwrap()
}

/// A server that sends everything elsewhere.
fn leading_to(code: u16, location: String) -> Receiver {
    Receiver::answering(move |_| status_with(code, "location", &location))
}

#[tokio::test]
async fn redirects_are_refused_unless_they_are_allowed() {
    let end = Receiver::start();
    for code in [301, 302, 303, 307, 308] {
        let start = leading_to(code, end.url("/hush"));
        let publisher = publisher(&start.url("/"), Redirects::Refuse, Private::Always);
        let error = refusal(&publisher, "1").await;
        assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
        let moved = format!("moved to http://127.0.0.1:{}; correct the address", end.port());
        assert!(error.detail().contains(&moved), "{error}");
        assert!(!error.detail().contains("hush"), "{error}");
    }
    assert_eq!(end.arrived().len(), 0);
}

#[tokio::test]
async fn the_same_post_follows_307_and_308_and_nothing_follows_the_others() {
    let end = Receiver::start();
    for (code, follows) in [(301, false), (302, false), (303, false), (307, true), (308, true)] {
        let start = leading_to(code, end.url("/there?a=b"));
        let url = format!("http://me:hush@127.0.0.1:{}/", start.port());
        let publisher = publisher(&url, Redirects::Follow, Private::Always);
        let outcome = publish(&publisher, &message(&code.to_string())).await;
        assert_eq!(outcome.is_ok(), follows, "{code}: {outcome:?}");
        let sent = start.arrived();
        assert_eq!(sent[0].header("authorization"), "Basic bWU6aHVzaA==");
    }
    let arrived = end.arrived();
    assert_eq!(arrived.len(), 2);
    for request in &arrived {
        assert_eq!((request.method.as_str(), request.uri.as_str()), ("POST", "/there?a=b"));
        assert_eq!(request.header("host"), format!("127.0.0.1:{}", end.port()));
        assert_eq!(request.body, "{}");
        // That is for the target alone.
        assert!(!request.headers.contains_key("authorization"));
    }
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_not_followed_unless_that_is_allowed() {
    let end = Receiver::start();
    let by_name = format!("http://localhost:{}/", end.port());
    let by_number = format!("http://2130706433:{}/", end.port());
    let mapped = format!("http://[::ffff:127.0.0.1]:{}/", end.port());
    for location in [end.url("/"), by_name, by_number, mapped] {
        let start = leading_to(307, location.clone());
        let publisher = publisher(&start.url("/"), Redirects::Follow, Private::Target);
        let error = refusal(&publisher, "1").await;
        assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
        assert!(error.detail().contains("its address is private"), "{location}: {error}");
    }
    for location in ["http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/"] {
        let start = leading_to(307, location.to_owned());
        let publisher = publisher(&start.url("/"), Redirects::Follow, Private::Target);
        let error = refusal(&publisher, "1").await;
        assert!(error.detail().contains("its address is private"), "{location}: {error}");
    }
    assert_eq!((end.connections(), end.arrived().len()), (0, 0));
}

#[tokio::test]
async fn a_redirect_within_the_target_is_followed_to_its_own_address() {
    let server = Receiver::answering(|request| match request.uri.as_str() {
        "/old" => status_with(308, "location", "new"),
        "/new" => status(204),
        _ => status_with(307, "location", "/round"),
    });
    let there = publisher(&server.url("/old"), Redirects::Follow, Private::Target);
    publish(&there, &message("1")).await.unwrap();
    let uris: Vec<_> = server.arrived().into_iter().map(|request| request.uri).collect();
    assert_eq!(uris, ["/old", "/new"]);
    let round = publisher(&server.url("/round"), Redirects::Follow, Private::Target);
    let error = refusal(&round, "2").await;
    assert!(error.detail().contains("after 3 redirects"), "{error}");
    assert_eq!(server.arrived().len(), 2 + 4);
}

#[tokio::test]
async fn where_private_addresses_are_never_allowed_not_even_the_target_has_one() {
    let server = Receiver::start();
    // What a name leads to is decided after it was resolved, on the address that is connected to.
    for url in [
        server.url("/"),
        format!("http://localhost:{}/", server.port()),
        format!("http://0x7f.0.0.1:{}/", server.port()),
        format!("http://0:{}/", server.port()),
        format!("http://[::ffff:7f00:1]:{}/", server.port()),
    ] {
        let publisher = publisher(&url, Redirects::Refuse, Private::Never);
        let error = refusal(&publisher, "1").await;
        assert_eq!(error.class(), PublishClass::Unreachable, "{url}: {error}");
        assert!(error.detail().contains("its address is private"), "{url}: {error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_redirect_that_leads_to_silence_is_bounded() {
    // A socket that accepts and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let start = leading_to(307, format!("http://{}/", silent.local_addr().unwrap()));
    let options = WebhookOptions {
        redirects: Redirects::Follow,
        private: Private::Always,
        answer_timeout: Duration::from_millis(500),
        ..WebhookOptions::default()
    };
    let publisher = WebhookPublisher::new(&start.url("/"), options).unwrap();
    assert_eq!(refusal(&publisher, "1").await.class(), PublishClass::TimedOut);
}
