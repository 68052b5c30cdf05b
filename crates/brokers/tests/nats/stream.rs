//! Streams that are created when the address asks for it, and those that are there already.

use std::time::Duration;

use async_nats::jetstream::stream::{DiscardPolicy, StorageType};
use sendoff_brokers::nats::{NatsOptions, NatsPublisher};
use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, Publisher};

use crate::server::{Server, config};

fn publisher(url: &str) -> NatsPublisher {
    NatsPublisher::new(url, NatsOptions::default()).unwrap()
}

fn message(id: &str) -> Message {
    Message::builder("shop", "placed").id(id).body("{}").build().unwrap()
}

#[tokio::test]
async fn a_stream_is_created_when_that_is_asked_for_and_not_otherwise() {
    let server = Server::start(&[]);
    for not in ["ORDERS", "ORDERS?create=false"] {
        let error = publisher(&server.url(not)).publish(&message("1")).await.unwrap_err();
        assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    }
    assert!(server.context().await.get_stream("ORDERS").await.is_err());
    // Two publishers of which neither is first.
    let url = server.url("ORDERS?create=true&prefix=shop.eu");
    let (one, other) = (publisher(&url), publisher(&url));
    let (first, second) = (message("1"), message("2"));
    let (one, other) = tokio::join!(one.publish(&first), other.publish(&second));
    one.unwrap();
    other.unwrap();
    let stream = server.context().await.get_stream("ORDERS").await.unwrap();
    let created = &stream.cached_info().config;
    assert_eq!(created.subjects, ["shop.eu.>"]);
    assert_eq!(created.storage, StorageType::File);
    assert_eq!(created.duplicate_window, Duration::from_secs(600));
    assert_eq!(stream.cached_info().state.messages, 2);
}

#[tokio::test]
async fn a_stream_that_is_there_is_not_changed() {
    let server = Server::start(&[]);
    let mut theirs = config("ORDERS", &["ORDERS.placed"]);
    theirs.storage = StorageType::Memory;
    theirs.discard = DiscardPolicy::New;
    theirs.duplicate_window = Duration::from_secs(7);
    theirs.description = Some("theirs".to_owned());
    server.create_stream_with(theirs).await;
    let info = || async {
        let context = server.context().await;
        context.get_stream("ORDERS").await.unwrap().cached_info().config.clone()
    };
    let before = info().await;
    let publisher = publisher(&server.url("ORDERS?create=true"));
    publisher.publish(&message("1")).await.unwrap();
    assert_eq!(info().await, before);
}

#[tokio::test]
async fn a_stream_comes_back_when_somebody_has_deleted_it_and_the_connection_begins_anew() {
    let server = Server::start(&[]);
    let publisher = publisher(&server.url("ORDERS?create=true"));
    publisher.publish(&message("1")).await.unwrap();
    server.context().await.delete_stream("ORDERS").await.unwrap();
    let error = publisher.publish(&message("2")).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    publisher.reset().await;
    publisher.publish(&message("2")).await.unwrap();
}

#[tokio::test]
async fn what_hinders_the_creation_is_told_with_what_to_do() {
    // Subjects that another stream has; a user who may not create.
    let server = Server::start(&[]);
    server.create_stream("OTHER", &["ORDERS.>"]).await;
    let error =
        publisher(&server.url("ORDERS?create=true")).publish(&message("1")).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("cannot create stream ORDERS"), "{error}");
    assert!(error.detail().contains("overlap"), "the server's reason: {error}");

    let server = Server::start(&["authorization { users = [ { user: me, password: hush, \
         permissions: { publish: { deny: [\"$JS.API.STREAM.CREATE.>\"] } } } ] }"]);
    let url = format!("nats://me:hush@127.0.0.1:{}/ORDERS?create=true", server.nats.port());
    let error = publisher(&url).publish(&message("1")).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("cannot create stream ORDERS"), "{error}");
    assert!(error.detail().contains("the right to $JS.API.STREAM.CREATE.ORDERS"), "{error}");
    assert!(!error.detail().contains("hush"), "{error}");
}
