//! The span around a publish. Without the feature `opentelemetry` there is none, and it costs nothing.

#[cfg(feature = "opentelemetry")]
pub(super) use with_opentelemetry::PublishSpan;
#[cfg(not(feature = "opentelemetry"))]
pub(super) use without::PublishSpan;

#[cfg(not(feature = "opentelemetry"))]
mod without {
    use std::sync::Arc;

    use crate::message::Message;
    use crate::publisher::PublishError;

    /// No span.
    #[derive(Debug)]
    pub(in crate::relay) struct PublishSpan;

    impl PublishSpan {
        pub(in crate::relay) fn begin(message: Arc<Message>, _: &str) -> (Arc<Message>, Self) {
            (message, Self)
        }

        pub(in crate::relay) fn end(self, _: Option<&Result<(), PublishError>>) {}
    }
}

#[cfg(feature = "opentelemetry")]
mod with_opentelemetry {
    use std::sync::Arc;

    use opentelemetry::global::{self, BoxedSpan};
    use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer};
    use opentelemetry::{Context, KeyValue};

    use crate::message::{Message, trace_context};
    use crate::publisher::PublishError;

    /// The span of one publish, a child of the context that the message carries.
    ///
    /// A message without a context has none: the relay begins no traces of its own. Dropped without
    /// an end, as when the relay begins anew, it ends without a status.
    #[derive(Debug)]
    pub(in crate::relay) struct PublishSpan(Option<Box<BoxedSpan>>);

    impl PublishSpan {
        /// Begins it. The message that is given back names this span as its parent, where the span is
        /// sampled; else its headers are the stored ones.
        pub(in crate::relay) fn begin(message: Arc<Message>, target: &str) -> (Arc<Message>, Self) {
            let Some(sender) = trace_context::read(message.headers()) else {
                return (message, Self(None));
            };
            let tracer = global::tracer("sendoff");
            let span = tracer
                .span_builder(format!("publish {}", message.topic()))
                .with_kind(SpanKind::Producer)
                .with_attributes([
                    KeyValue::new("messaging.operation.name", "publish"),
                    KeyValue::new("messaging.operation.type", "send"),
                    KeyValue::new("messaging.destination.name", message.topic().to_owned()),
                    KeyValue::new("messaging.message.id", message.dedup_id()),
                    KeyValue::new("sendoff.target", target.to_owned()),
                ])
                .start_with_context(
                    &tracer,
                    &Context::new().with_remote_span_context(sender.clone()),
                );
            let context = span.span_context();
            // Without a tracer the span is the sender's own context again.
            if !context.is_sampled() || context.span_id() == sender.span_id() {
                return (message, Self(None));
            }
            let mut headers = message.headers().clone();
            trace_context::write(&mut headers, context);
            (Arc::new(message.with_headers(headers)), Self(Some(Box::new(span))))
        }

        /// Ends it with what became of the publish; `None` where the message was not sent.
        pub(in crate::relay) fn end(self, result: Option<&Result<(), PublishError>>) {
            let Some(mut span) = self.0 else { return };
            match result {
                Some(Ok(())) => {}
                Some(Err(error)) => span.set_status(Status::error(error.detail().to_owned())),
                None => span.set_status(Status::error("not sent: the lease had ended")),
            }
            span.end();
        }
    }
}
