//! What only NATS has: missing streams, subjects that are somebody else's, full streams, rights.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::StreamExt;
use sendoff_brokers::nats::{NatsOptions, NatsPublisher};
use sendoff_conformance::servers::Proxy;
use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, PublishError, Publisher};

use crate::server::{Server, config};

const PATIENCE: Duration = Duration::from_secs(30);

fn publisher(url: &str) -> NatsPublisher {
    NatsPublisher::new(url, NatsOptions::default()).unwrap()
}

fn message(topic: &str, id: &str) -> Message {
    Message::builder("shop", topic).id(id).body("{}").build().unwrap()
}

async fn publish(publisher: &NatsPublisher, message: &Message) -> Result<(), PublishError> {
    tokio::time::timeout(PATIENCE, publisher.publish(message)).await.unwrap()
}

async fn refusal(publisher: &NatsPublisher, topic: &str) -> PublishError {
    publish(publisher, &message(topic, "1")).await.unwrap_err()
}

#[tokio::test]
async fn a_missing_stream_is_never_success_and_the_error_says_how_to_create_it() {
    let server = Server::start(&[]);
    let publisher = publisher(&server.url("ORDERS"));
    let error = refusal(&publisher, "placed").await;
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("there is no stream ORDERS"), "{error}");
    assert!(error.detail().contains("nats stream add ORDERS --subjects='ORDERS.>'"), "{error}");
    // Once it is there, publishing goes on by itself.
    server.create_stream("ORDERS", &["ORDERS.>"]).await;
    publish(&publisher, &message("placed", "1")).await.unwrap();
}

#[tokio::test]
async fn a_plain_subscriber_is_no_stream_whatever_it_answers() {
    let server = Server::start(&[]);
    let listener = server.client().await;
    let mut requests = listener.subscribe("ORDERS.>").await.unwrap();
    listener.flush().await.unwrap();
    let publisher = publisher(&server.url("ORDERS"));
    let message = message("placed", "1");
    let replies =
        ["thanks", "{}", r#"{"stream":"OTHER","seq":1}"#, r#"{"stream":"ORDERS","seq":0}"#];
    for reply in replies.into_iter().map(Some).chain([None]) {
        let answering = async {
            let request = requests.next().await.unwrap();
            if let Some(reply) = reply {
                listener.publish(request.reply.unwrap(), reply.into()).await.unwrap();
            }
        };
        let publishing = tokio::time::timeout(Duration::from_secs(2), publisher.publish(&message));
        match (reply, tokio::join!(publishing, answering).0) {
            (Some(_), Ok(Err(error))) => {
                assert_eq!(error.class(), PublishClass::Failed, "{error}");
                assert!(!error.detail().contains("thanks"), "a stranger's words: {error}");
            }
            // It heard the message and says nothing: still nothing is confirmed.
            (None, Err(_elapsed)) => {}
            (reply, outcome) => panic!("{reply:?}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn a_subject_that_another_stream_takes_is_refused() {
    let server = Server::start(&[]);
    server.create_stream("ORDERS", &["elsewhere"]).await;
    server.create_stream("OTHER", &["ORDERS.>"]).await;
    let error = refusal(&publisher(&server.url("ORDERS")), "placed").await;
    assert_eq!(error.class(), PublishClass::Failed, "{error}");
    assert!(error.detail().contains("stream OTHER has taken ORDERS.placed"), "{error}");
}

#[tokio::test]
async fn a_topic_that_the_stream_does_not_listen_to_fails_alone() {
    let server = Server::start(&[]);
    server.create_stream("ORDERS", &["ORDERS.placed"]).await;
    let publisher = publisher(&server.url("ORDERS"));
    publish(&publisher, &message("placed", "1")).await.unwrap();
    let error = refusal(&publisher, "shipped").await;
    assert_eq!(error.class(), PublishClass::Failed, "{error}");
    assert!(error.detail().contains("does not listen to ORDERS.shipped"), "{error}");
    publish(&publisher, &message("placed", "2")).await.unwrap();
}

#[tokio::test]
async fn a_stream_with_other_subjects_takes_nothing_and_the_error_says_so() {
    let server = Server::start(&[]);
    server.create_stream("ORDERS", &["orders.>"]).await;
    let error = refusal(&publisher(&server.url("ORDERS")), "placed").await;
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("listens to orders.>"), "{error}");
    let publisher = publisher(&format!("{}?prefix=orders", server.url("ORDERS")));
    publish(&publisher, &message("placed", "1")).await.unwrap();
}

#[tokio::test]
async fn without_a_prefix_the_topic_is_the_subject_and_reaches_no_inbox_and_no_api() {
    let server = Server::start(&[]);
    server.create_stream("ALL", &["orders.>", "%24JS.>", "%5FINBOX.>"]).await;
    let publisher = publisher(&format!("{}?prefix=", server.url("ALL")));
    for topic in ["orders.placed", "$JS.API.STREAM.DELETE.ALL", "_INBOX.a"] {
        publish(&publisher, &message(topic, topic)).await.unwrap();
    }
    let context = server.context().await;
    assert_eq!(context.get_stream("ALL").await.unwrap().cached_info().state.messages, 3);
}

/// Publishes until the stream is full; it takes one at least.
async fn first_refusal(publisher: &NatsPublisher) -> PublishError {
    publish(publisher, &message("placed", "first")).await.unwrap();
    for n in 0..100 {
        if let Err(error) = publish(publisher, &message("placed", &n.to_string())).await {
            return error;
        }
    }
    panic!("the stream is never full");
}

#[tokio::test]
async fn a_full_stream_throttles_and_one_full_subject_fails() {
    let server = Server::start(&[]);
    let full = |name: &str, limit: fn(&mut Config)| {
        let mut config = config(name, &[&format!("{name}.>")]);
        config.discard = DiscardPolicy::New;
        limit(&mut config);
        config
    };
    server.create_stream_with(full("COUNT", |config| config.max_messages = 1)).await;
    server.create_stream_with(full("BYTES", |config| config.max_bytes = 1_000)).await;
    let per_subject = |config: &mut Config| {
        config.max_messages_per_subject = 1;
        config.discard_new_per_subject = true;
    };
    server.create_stream_with(full("SUBJECT", per_subject)).await;
    for (stream, throttles) in [("COUNT", true), ("BYTES", true), ("SUBJECT", false)] {
        let publisher = publisher(&server.url(stream));
        let error = first_refusal(&publisher).await;
        match error.class() {
            PublishClass::Throttled { wait } => assert!(throttles && !wait.is_zero(), "{error}"),
            class => assert!(!throttles && class == PublishClass::Failed, "{stream}: {error}"),
        }
        assert!(error.detail().contains("maximum"), "the server's words: {error}");
    }
}

#[tokio::test]
async fn a_message_over_the_streams_own_limit_is_refused_for_good() {
    let server = Server::start(&[]);
    let config = Config { max_message_size: 1_000, ..config("ORDERS", &["ORDERS.>"]) };
    server.create_stream_with(config).await;
    let publisher = publisher(&server.url("ORDERS"));
    let large = Message::builder("shop", "placed").body(vec![b'x'; 2_000]).build().unwrap();
    let error = publish(&publisher, &large).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Permanent, "{error}");
    publish(&publisher, &message("placed", "1")).await.unwrap();
}

#[tokio::test]
async fn a_user_without_the_right_to_a_subject_is_told_and_not_left_waiting() {
    let server = Server::start(&["authorization { users = [ { user: me, password: hush, \
         permissions: { publish: { deny: [\"ORDERS.secret\"] } } } ] }"]);
    let context = async_nats::jetstream::new(server.client_as("me", "hush").await);
    context.create_stream(config("ORDERS", &["ORDERS.>"])).await.unwrap();
    let publisher = publisher(&server.url_as("me", "hush", "ORDERS"));
    publish(&publisher, &message("open", "1")).await.unwrap();
    let (denied, allowed) = (message("secret", "2"), message("open", "3"));
    let (denied, allowed) =
        tokio::join!(publish(&publisher, &denied), publish(&publisher, &allowed));
    let error = denied.unwrap_err();
    assert_eq!(error.class(), PublishClass::Failed, "{error}");
    assert!(error.detail().contains("may not publish to ORDERS.secret"), "{error}");
    allowed.unwrap();
}

#[tokio::test]
async fn a_wrong_password_makes_the_target_unreachable_and_is_shown_nowhere() {
    let server = Server::start(&["authorization { user: me, password: right }"]);
    let publisher = publisher(&server.url_as("me", "hush", "ORDERS"));
    let error = refusal(&publisher, "placed").await;
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("authorization violation"), "{error}");
    let shown = format!("{publisher:?} {} {error} {error:?}", publisher.address());
    assert!(!shown.contains("hush"), "{shown}");
}

#[tokio::test]
async fn an_account_without_jetstream_is_told_so() {
    let server = Server::start(&[
        "accounts { A { users: [ { user: a, password: a } ], jetstream: enabled }",
        "B { users: [ { user: b, password: b } ] } }",
    ]);
    let error = refusal(&publisher(&server.url_as("b", "b", "ORDERS")), "placed").await;
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("JetStream not enabled for account"), "{error}");
}

#[tokio::test]
async fn what_was_lost_with_the_connection_is_stored_once_when_it_is_published_again() {
    let server = Server::start(&[]);
    server.create_stream("SUITE", &["SUITE.>"]).await;
    let proxy = Proxy::start(([127, 0, 0, 1], server.nats.port()).into()).await.unwrap();
    let publisher = publisher(&format!("nats://{}/SUITE", proxy.address()));
    publish(&publisher, &message("placed", "1")).await.unwrap();
    server.nats.pause().unwrap();
    let second = message("placed", "2");
    let (outcome, ()) = tokio::join!(publish(&publisher, &second), async {
        // Time for it to reach the server's socket, where it stays until the server goes on.
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.cut();
    });
    let error = outcome.unwrap_err();
    assert_eq!(error.class(), PublishClass::Lost, "{error}");
    server.nats.resume().unwrap();
    publish(&publisher, &second).await.unwrap();
    let ids: Vec<_> = server.arrived("SUITE").await.into_iter().map(|a| a.dedup_id).collect();
    assert_eq!(ids, ["shop/1", "shop/2"]);
}

#[tokio::test]
async fn no_header_of_a_message_hides_the_id_from_the_server() {
    let server = Server::start(&[]);
    server.create_stream("SUITE", &["SUITE.>"]).await;
    let publisher = publisher(&server.url("SUITE"));
    // The order of headers on the wire is random: many tries.
    for n in 0..32 {
        let message = Message::builder("shop", "placed")
            .id(n.to_string())
            .header("x-note", "no Nats-Msg-Id: here")
            .header("x-Nats-Msg-Id", "own")
            .header("Nats-Msg-Id", "own")
            .build()
            .unwrap();
        publish(&publisher, &message).await.unwrap();
        publish(&publisher, &message).await.unwrap();
    }
    assert_eq!(server.arrived("SUITE").await.len(), 32);
}

#[tokio::test]
async fn a_host_that_is_not_there_is_unreachable_within_the_bound() {
    let options =
        NatsOptions { connect_timeout: Duration::from_millis(300), ..NatsOptions::default() };
    // A socket that accepts and says nothing, a port where nobody listens, a name without a host.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("nats://{}/S", silent.local_addr().unwrap());
    for url in [silent.as_str(), "nats://127.0.0.1:1/S", "nats://no-such-host.invalid/S"] {
        let publisher = NatsPublisher::new(url, options.clone()).unwrap();
        let error = refusal(&publisher, "placed").await;
        assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
        assert!(error.detail().contains("cannot connect to nats://"), "{error}");
    }
}
