//! Redrive, with each of its options, and what it leaves for handlers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sendoff_formats::babelqueue::outbox::{OutboxTransport, TransportError};
use sendoff_formats::babelqueue::redrive::Redrive;
use sendoff_formats::babelqueue::transport::{Delivery, Headers, InMemoryTransport, Transport};
use sendoff_formats::babelqueue::{DeadLetter, Envelope, Reason, replay};
use sendoff_formats::json::Json;

const DLQ: &str = "orders.dlq";

fn dead(number: i64, original_queue: &str) -> Envelope {
    let data = Json::parse(format!(r#"{{"n":{number}}}"#).as_bytes()).unwrap();
    let envelope = Envelope::make("urn:babel:orders:created", data, "orders", None).unwrap();
    let envelope = envelope.with_attempts(3).with_extra("x-note", "kept").unwrap();
    envelope.annotate(&DeadLetter::new(Reason::Failed, original_queue, 3))
}

async fn dead_letters(transport: &mut InMemoryTransport, envelopes: &[Envelope]) {
    for envelope in envelopes {
        transport.publish(DLQ, &envelope.encode().into()).await.unwrap();
    }
}

#[tokio::test]
async fn messages_go_back_to_where_they_came_from_as_they_were() {
    let mut transport = InMemoryTransport::new();
    let envelopes = [dead(1, "orders"), dead(2, "orders.express"), dead(3, "")];
    dead_letters(&mut transport, &envelopes).await;
    let report = Redrive::of(DLQ).run(&mut transport).await.unwrap();
    assert_eq!((report.redriven, report.skipped, report.more), (3, 0, false));
    assert_eq!(transport.bodies(DLQ), Vec::<Bytes>::new());
    let reset: Vec<_> = envelopes.iter().map(|envelope| envelope.reset().encode()).collect();
    assert_eq!(transport.bodies("orders"), [&reset[0][..], &reset[2][..]]);
    assert_eq!(transport.bodies("orders.express"), [&reset[1][..]]);
    let back = Envelope::decode(&reset[0]).unwrap();
    assert_eq!((back.attempts(), back.dead_letter()), (0, None));
    assert_eq!((back.trace_id(), back.id()), (envelopes[0].trace_id(), envelopes[0].id()));
    assert_eq!(back.extra("x-note"), Some(&Json::from("kept")));
    let item = &report.items[1];
    assert_eq!(
        (item.message_id.as_str(), item.trace_id.as_str()),
        (envelopes[1].id(), envelopes[1].trace_id())
    );
    assert_eq!((item.from.as_str(), item.to.as_str()), (DLQ, "orders.express"));
    assert_eq!((item.urn.as_str(), &item.reason), (envelopes[1].urn(), &Some(Reason::Failed)));
    assert!(item.redriven && !item.bypassed);
}

#[tokio::test]
async fn not_more_than_the_maximum_and_to_the_queue_that_is_named() {
    let mut transport = InMemoryTransport::new();
    let envelopes = [dead(1, "orders"), dead(2, "orders"), dead(3, "orders")];
    dead_letters(&mut transport, &envelopes).await;
    let report = Redrive::of(DLQ).max(2).to_queue("repair").run(&mut transport).await.unwrap();
    assert_eq!(report.redriven, 2);
    assert_eq!(transport.bodies("repair").len(), 2);
    assert_eq!(transport.bodies(DLQ), [envelopes[2].encode()]);
}

#[tokio::test]
async fn what_is_not_selected_or_does_not_decode_is_put_back_and_not_met_again() {
    let mut transport = InMemoryTransport::new();
    let envelopes = [dead(1, "orders"), dead(2, "orders")];
    transport.publish(DLQ, &Bytes::from_static(b"no json")).await.unwrap();
    dead_letters(&mut transport, &envelopes).await;
    let wanted = envelopes[1].id().to_owned();
    let redrive = Redrive::of(DLQ).select(|envelope| envelope.id() == wanted);
    let report = redrive.run(&mut transport).await.unwrap();
    assert_eq!((report.redriven, report.skipped, report.items.len()), (1, 2, 3));
    let left = transport.bodies(DLQ);
    assert_eq!((&left[0][..], &left[1][..]), (&b"no json"[..], &envelopes[0].encode()[..]));
    assert_eq!(
        report.items.iter().map(|item| item.redriven).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[tokio::test]
async fn a_dry_run_says_where_and_changes_nothing() {
    let mut transport = InMemoryTransport::new();
    let envelopes = [dead(1, "orders"), dead(2, "orders.express")];
    dead_letters(&mut transport, &envelopes).await;
    let report =
        Redrive::of(DLQ).dry_run().bypass_external_effects().run(&mut transport).await.unwrap();
    assert_eq!((report.redriven, report.skipped), (0, 2));
    assert_eq!(report.items[1].to, "orders.express");
    assert!(report.items.iter().all(|item| !item.redriven && !item.bypassed));
    assert_eq!(transport.bodies(DLQ), envelopes.map(|envelope| envelope.encode()));
}

#[tokio::test]
async fn the_wish_to_bypass_effects_reaches_the_handler() {
    let mut transport = InMemoryTransport::new();
    dead_letters(&mut transport, &[dead(1, "orders")]).await;
    let redrive = Redrive::of(DLQ).bypass_external_effects();
    assert!(redrive.run(&mut transport).await.unwrap().items[0].bypassed);
    let delivery = transport.pop("orders", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(delivery.headers.get(replay::HEADER).map(String::as_str), Some("1"));
    let effect = async || replay::bypass_external_effects(async { "sent" }).await;
    let replayed =
        replay::scope(&delivery.headers, async { (replay::is_replay(), effect().await) });
    assert_eq!(replayed.await, (true, None));
    let none = Headers::new();
    let plain = replay::scope(&none, async { (replay::is_replay(), effect().await) });
    assert_eq!(plain.await, (false, Some("sent")));
    assert!(!replay::is_replay());
}

#[tokio::test]
async fn a_transport_without_headers_cannot_carry_the_wish_and_the_report_says_so() {
    let mut transport = InMemoryTransport::without_headers();
    dead_letters(&mut transport, &[dead(1, "orders")]).await;
    let redrive = Redrive::of(DLQ).bypass_external_effects();
    let report = redrive.run(&mut transport).await.unwrap();
    assert!(report.items[0].redriven && !report.items[0].bypassed);
}

#[tokio::test]
async fn headers_beside_the_envelope_go_along_but_an_old_wish_does_not() {
    let mut transport = InMemoryTransport::new();
    let headers = [("traceparent", "00-x"), (replay::HEADER, "1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = Headers::from(headers);
    let body = dead(1, "orders").encode().into();
    transport.publish_with_headers(DLQ, &body, &headers).await.unwrap();
    Redrive::of(DLQ).run(&mut transport).await.unwrap();
    let delivery = transport.pop("orders", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(delivery.headers.into_keys().collect::<Vec<_>>(), ["traceparent"]);
}

/// A queue that fails for one target, and notes what was acknowledged and when.
#[derive(Clone)]
struct Fails {
    inner: InMemoryTransport,
    target: &'static str,
    events: Arc<Mutex<Vec<String>>>,
}

impl OutboxTransport for Fails {
    async fn publish(&mut self, queue: &str, body: &Bytes) -> Result<(), TransportError> {
        if queue == self.target {
            return Err("the queue is full".into());
        }
        self.events.lock().unwrap().push(format!("publish {queue}"));
        self.inner.publish(queue, body).await
    }
}

impl Transport for Fails {
    type Handle = ();
    async fn pop(
        &mut self,
        queue: &str,
        timeout: Duration,
    ) -> Result<Option<Delivery<()>>, TransportError> {
        self.inner.pop(queue, timeout).await
    }
    async fn ack(&mut self, _: &Delivery<()>) -> Result<(), TransportError> {
        self.events.lock().unwrap().push("ack".to_owned());
        Ok(())
    }
}

#[tokio::test]
async fn a_publish_that_fails_puts_the_rest_back_and_is_told() {
    let inner = InMemoryTransport::new();
    let mut transport = Fails { inner, target: "full", events: Arc::default() };
    let envelopes = [dead(1, "orders"), dead(2, "full"), dead(3, "orders")];
    dead_letters(&mut transport.inner, &envelopes).await;
    let error = Redrive::of(DLQ).run(&mut transport).await.unwrap_err();
    assert!(error.to_string().contains("the queue is full"), "{error}");
    assert_eq!(error.report.redriven, 1);
    let left = transport.inner.bodies(DLQ);
    assert_eq!(left, [envelopes[1].encode(), envelopes[2].encode()]);
    // Nothing is acknowledged before it stands somewhere else.
    let events = transport.events.lock().unwrap().clone();
    let put_back = format!("publish {DLQ}");
    assert_eq!(events, ["publish orders", "ack", &put_back, "ack", &put_back, "ack"]);
}

#[tokio::test]
async fn an_envelope_of_a_later_version_is_redriven_with_all_that_it_has() {
    let mut transport = InMemoryTransport::new();
    let body =
        r#"{"job":"urn:a","data":[1],"meta":{"queue":"later","schema_version":2},"attempts":1}"#;
    transport.publish(DLQ, &Bytes::from_static(body.as_bytes())).await.unwrap();
    Redrive::of(DLQ).run(&mut transport).await.unwrap();
    let expected = body.replace(r#""attempts":1"#, r#""attempts":0"#);
    assert_eq!(transport.bodies("later"), [expected.into_bytes()]);
}
