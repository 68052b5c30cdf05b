//! What a receiver's answers mean: statuses, waits, and what happens to one message that is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use sendoff_brokers::webhook::{WebhookOptions, WebhookPublisher};
use sendoff_core::publisher::PublishClass;
use sendoff_core::time::Clock;
use sendoff_core::{Message, Publisher};

use crate::receiver::{
    Answer, Receiver, message, publish, publisher, refusal, status, status_with,
};

#[tokio::test]
async fn every_status_has_the_class_that_the_reference_says() {
    let next = Arc::new(Mutex::new(204));
    let server = Receiver::answering({
        let next = Arc::clone(&next);
        move |_| status(*next.lock().unwrap())
    });
    for code in (200..=599).chain([999]) {
        *next.lock().unwrap() = code;
        let publisher = publisher(&server.url("/"));
        let outcome = publish(&publisher, &message(&code.to_string())).await;
        if (200..300).contains(&code) {
            assert_eq!(outcome, Ok(()), "{code}");
            continue;
        }
        let error = outcome.unwrap_err();
        assert!(error.detail().contains(&code.to_string()), "{error}");
        let expected = match code {
            300..400 | 401 | 403 | 404 | 405 | 407 | 421 | 426 | 503 => PublishClass::Unreachable,
            429 => PublishClass::Throttled { wait: Duration::from_secs(1) },
            408 | 425 => PublishClass::Failed,
            400..500 => PublishClass::Permanent,
            502 | 504 | 520..=524 => PublishClass::Lost,
            _ => PublishClass::Failed,
        };
        assert_eq!(error.class(), expected, "{code}: {error}");
    }
}

#[tokio::test]
async fn a_wait_that_is_asked_for_is_kept_in_seconds_and_as_a_date() {
    for (code, asked, seconds) in [
        (429, "7", 7),
        (503, "7", 7),
        (429, "Tue, 01 Jan 2030 00:01:30 GMT", 90),
        (503, "Tue, 01 Jan 2030 00:01:30 GMT", 90),
        (429, "0", 1),
        (429, "1000000", 3_600),
        (429, "whenever", 1),
    ] {
        let server = Receiver::answering(move |_| status_with(code, "retry-after", asked));
        // It is 2030-01-01.
        let options = WebhookOptions { clock: Clock::manual(), ..WebhookOptions::default() };
        let publisher = WebhookPublisher::new(&server.url("/"), options).unwrap();
        let error = refusal(&publisher, "1").await;
        let wait = Duration::from_secs(seconds);
        assert_eq!(error.class(), PublishClass::Throttled { wait }, "{code} {asked}: {error}");
    }
}

#[tokio::test]
async fn what_the_receiver_says_is_never_quoted() {
    for code in [301, 400, 403, 410, 422, 429, 500, 502, 503] {
        // A receiver that sends everything back, in every place that it has.
        let server = Receiver::answering(move |request| {
            let mut answer = Answer::new(Full::new(request.body.clone()));
            *answer.status_mut() = code.try_into().unwrap();
            for name in ["location", "retry-after", "x-error"] {
                answer.headers_mut().insert(name, "/hush".parse().unwrap());
            }
            answer
        });
        let publisher = publisher(&server.url("/"));
        let message = Message::builder("shop", "t").id("1").body("hush").build().unwrap();
        let error = publish(&publisher, &message).await.unwrap_err();
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    }
}

#[tokio::test]
async fn one_message_that_is_always_refused_fails_alone_and_does_not_stop_the_others() {
    let server = Receiver::answering(|request| {
        status(if request.header("sendoff-id") == "bad" { 403 } else { 204 })
    });
    let publisher = publisher(&server.url("/"));
    // As a relay does with a target that counts as unreachable: the same one again.
    for _ in 0..2 {
        assert_eq!(refusal(&publisher, "bad").await.class(), PublishClass::Unreachable);
    }
    let error = refusal(&publisher, "bad").await;
    assert_eq!(error.class(), PublishClass::Failed, "{error}");
    assert!(error.detail().contains("3 times in a row"), "{error}");
    publish(&publisher, &message("good")).await.unwrap();
}

#[tokio::test]
async fn connections_are_used_again_and_there_are_no_more_than_publishes_at_once() {
    let at_once = Arc::new(AtomicUsize::new(0));
    let server = Receiver::start();
    let options = WebhookOptions { in_flight_max: 8, ..WebhookOptions::default() };
    let publisher = Arc::new(WebhookPublisher::new(&server.url("/"), options).unwrap());
    assert_eq!(publisher.limits().in_flight_max, 8);
    for id in 0..20 {
        publish(&publisher, &message(&id.to_string())).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
    let crowd: Vec<_> = (0..400)
        .map(|id| {
            let (publisher, at_once) = (Arc::clone(&publisher), Arc::clone(&at_once));
            tokio::spawn(async move {
                publish(&publisher, &message(&id.to_string())).await.unwrap();
                at_once.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    for one in crowd {
        one.await.unwrap();
    }
    assert_eq!(at_once.load(Ordering::SeqCst), 400);
    assert!(server.connections() <= 8, "{} connections", server.connections());
}

#[tokio::test]
async fn a_receiver_that_ends_its_connections_between_publishes_loses_nothing() {
    let mut server = Receiver::start();
    let publisher = publisher(&server.url("/"));
    for id in 0..20 {
        publish(&publisher, &message(&id.to_string())).await.unwrap();
        server.kill();
        server.restart();
        // So that the end of the connection is here before the next publish.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.arrived().len(), 20);
    let closing = Receiver::answering(|_| status_with(204, "connection", "close"));
    let publisher = crate::receiver::publisher(&closing.url("/"));
    for id in 0..20 {
        publish(&publisher, &message(&id.to_string())).await.unwrap();
    }
    assert_eq!(closing.connections(), 20);
}

#[tokio::test]
async fn no_answer_in_time_is_an_unknown_outcome_and_others_go_on() {
    let mut server = Receiver::start();
    let options =
        WebhookOptions { answer_timeout: Duration::from_millis(300), ..WebhookOptions::default() };
    let publisher = WebhookPublisher::new(&server.url("/"), options).unwrap();
    publish(&publisher, &message("1")).await.unwrap();
    server.pause();
    let error = refusal(&publisher, "2").await;
    assert_eq!(error.class(), PublishClass::TimedOut, "{error}");
    server.resume();
    publisher.reset().await;
    publish(&publisher, &message("3")).await.unwrap();
}

#[tokio::test]
async fn options_out_of_range_are_refused() {
    let refused = |change: fn(&mut WebhookOptions)| {
        let mut options = WebhookOptions::default();
        change(&mut options);
        WebhookPublisher::new("http://127.0.0.1:1/", options).unwrap_err().to_string()
    };
    assert!(refused(|o| o.in_flight_max = 0).contains("in_flight_max"));
    assert!(refused(|o| o.connect_timeout = Duration::ZERO).contains("connect_timeout"));
    let nine = |o: &mut WebhookOptions| {
        let one = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        o.secrets = vec![one; 9];
    };
    assert!(refused(nine).contains("more secrets"));
}
