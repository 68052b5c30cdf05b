//! A trace goes from the sender's span through the outbox to the publish.

#![allow(clippy::expect_used, reason = "a test's scene panics where the test is broken")]

use std::sync::{Arc, LazyLock};

use opentelemetry::trace::{
    SpanContext, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, global};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use sendoff_core::memory::{Act, MemoryPublisher, MemoryStore, On};
use sendoff_core::store::OutboxDesk;
use sendoff_core::{Message, Outbox, PublishError, Relay};
use tracing_subscriber::layer::SubscriberExt;

/// What every test of this process exports to; each looks for its own trace.
static SPANS: LazyLock<(InMemorySpanExporter, SdkTracerProvider)> = LazyLock::new(|| {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_simple_exporter(exporter.clone())
        .build();
    global::set_tracer_provider(provider.clone());
    (exporter, provider)
});

/// The publish spans of a trace.
fn publishes(trace: &SpanContext) -> Vec<SpanData> {
    let spans = SPANS.0.get_finished_spans().expect("spans");
    let of_trace = |span: &SpanData| span.span_context.trace_id() == trace.trace_id();
    spans.into_iter().filter(|span| of_trace(span) && span.name.starts_with("publish ")).collect()
}

/// Sends a message and publishes it; gives what was sent and what arrived.
async fn publish(message: &Message, target: &MemoryPublisher) -> Vec<Message> {
    let store = Arc::new(MemoryStore::new());
    store.send_all(std::slice::from_ref(message)).await.expect("it is taken");
    let relay = Relay::builder(store.clone(), Arc::new(target.clone())).build().expect("valid");
    relay.run_once(store, std::future::pending()).await.expect("it drains");
    target.deliveries().into_iter().map(|delivery| delivery.message.clone()).collect()
}

fn order() -> Message {
    Outbox::new("shop").message("orders.placed").body("{}").build().expect("valid")
}

/// `traceparent` of a span.
fn parent(context: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags().to_u8())
}

#[tokio::test]
async fn the_senders_span_is_stored_and_the_publish_is_its_child() {
    let tracer = SPANS.1.tracer("test");
    let span = tracer.start("place an order");
    let context = Context::current_with_span(span);
    let sender = context.span().span_context().clone();
    let message = {
        let _here = context.attach();
        order()
    };
    assert_eq!(message.headers().get("traceparent"), Some(parent(&sender).as_str()));
    let arrived = publish(&message, &MemoryPublisher::new()).await;
    let [publish] = publishes(&sender).try_into().expect("one publish");
    assert_eq!(publish.parent_span_id, sender.span_id());
    assert_eq!(publish.span_kind, SpanKind::Producer);
    assert_eq!(publish.name, "publish orders.placed");
    assert_eq!(publish.status, Status::Unset);
    // Whoever receives it goes on from the publish.
    let header = arrived[0].headers().get("traceparent");
    assert_eq!(header, Some(parent(&publish.span_context).as_str()));
    assert_eq!(arrived[0].body(), message.body());
}

#[tokio::test]
async fn a_span_of_the_tracing_crate_is_the_senders_span() {
    let layer = tracing_opentelemetry::layer().with_tracer(SPANS.1.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    let (message, sender) = tracing::subscriber::with_default(subscriber, || {
        let _span = tracing::info_span!("place an order").entered();
        let sender = Context::map_current(|context| context.span().span_context().clone());
        (order(), sender)
    });
    assert!(sender.is_valid());
    assert_eq!(message.headers().get("traceparent"), Some(parent(&sender).as_str()));
    publish(&message, &MemoryPublisher::new()).await;
    assert_eq!(publishes(&sender).len(), 1);
}

#[tokio::test]
async fn a_context_that_the_sender_sets_himself_is_kept() {
    LazyLock::force(&SPANS);
    let span = SPANS.1.tracer("test").start("another");
    let _here = Context::current_with_span(span).attach();
    let own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let message = Outbox::new("shop")
        .message("t")
        .header("traceparent", own)
        .header("tracestate", "vendor=1")
        .build()
        .expect("valid");
    assert_eq!(message.headers().get("traceparent"), Some(own));
    let arrived = publish(&message, &MemoryPublisher::new()).await;
    let header = arrived[0].headers().get("traceparent").expect("it is there");
    assert!(header.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{header}");
    assert_ne!(header, own);
    assert_eq!(arrived[0].headers().get("tracestate"), Some("vendor=1"));
}

#[tokio::test]
async fn headers_are_delivered_as_stored_where_the_trace_is_not_sampled_or_is_none() {
    LazyLock::force(&SPANS);
    let not_sampled = "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    for value in [not_sampled, "00-nonsense", ""] {
        let message = Message::builder("shop", "t").header("traceparent", value);
        let message = message.header("other", "x").build().expect("valid");
        let arrived = publish(&message, &MemoryPublisher::new()).await;
        assert_eq!(arrived[0].headers(), message.headers(), "{value}");
    }
    let plain = Message::builder("shop", "t").build().expect("valid");
    assert!(publish(&plain, &MemoryPublisher::new()).await[0].headers().is_empty());
}

#[tokio::test]
async fn every_attempt_has_a_span_with_what_became_of_it() {
    let tracer = SPANS.1.tracer("test");
    let context = Context::current_with_span(tracer.start("place an order"));
    let sender = context.span().span_context().clone();
    let message = {
        let _here = context.attach();
        order()
    };
    let target = MemoryPublisher::new();
    target.next(1, On::Any, Act::Refuse(PublishError::failed("not now")));
    publish(&message, &target).await;
    let publishes = publishes(&sender);
    let statuses: Vec<&Status> = publishes.iter().map(|span| &span.status).collect();
    assert_eq!(statuses, [&Status::error("not now"), &Status::Unset]);
    assert!(publishes.iter().all(|span| span.parent_span_id == sender.span_id()));
}
