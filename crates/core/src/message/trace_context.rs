//! W3C trace context in a message's headers: `traceparent` and `tracestate`.
//!
//! What does not belong here: spans, which the relay makes.

use std::str::FromStr;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

use super::Headers;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// Adds the current span's context, unless there is none or the sender has set one of his own.
pub(super) fn add_current(headers: &mut Headers) {
    let of_his_own = |name: &str| name.eq_ignore_ascii_case(PARENT);
    if headers.iter().any(|(name, _)| of_his_own(name)) {
        return;
    }
    Context::map_current(|context| {
        if context.has_active_span() {
            write(headers, context.span().span_context());
        }
    });
}

/// Writes a valid context.
pub(crate) fn write(headers: &mut Headers, context: &SpanContext) {
    if !context.is_valid() {
        return;
    }
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    let parent = format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id());
    headers.set(PARENT, parent);
    let state = context.trace_state().header();
    if !state.is_empty() {
        headers.set(STATE, state);
    }
}

/// The context that a message carries, where it is well formed. What another program wrote may be
/// anything: it is not an error.
pub(crate) fn read(headers: &Headers) -> Option<SpanContext> {
    let parent = headers.get(PARENT)?;
    let lower_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let mut parts = parent.split('-');
    let version = parts.next().filter(|part| lower_hex(part, 2) && *part != "ff")?;
    let trace = parts.next().filter(|part| lower_hex(part, 32))?;
    let span = parts.next().filter(|part| lower_hex(part, 16))?;
    let flags = parts.next().filter(|part| lower_hex(part, 2))?;
    // A later version may have more parts, this one has not.
    if version == "00" && parts.next().is_some() {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let state = headers.get(STATE).and_then(|state| TraceState::from_str(state).ok());
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        flags,
        true,
        state.unwrap_or_default(),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parent(value: &str) -> Option<SpanContext> {
        read(&[(PARENT, value)].into_iter().collect())
    }

    #[test]
    fn a_context_is_read_as_it_was_written() {
        for flags in ["00", "01"] {
            let value = format!("00-{TRACE}-{SPAN}-{flags}");
            let headers: Headers =
                [(PARENT, value.as_str()), (STATE, "a=1,b=2")].into_iter().collect();
            let context = read(&headers).unwrap();
            assert_eq!(context.is_sampled(), flags == "01");
            let mut written = Headers::new();
            write(&mut written, &context);
            assert_eq!(written, headers);
        }
    }

    #[test]
    fn what_is_not_well_formed_is_no_context() {
        let zeros = "0".repeat(32);
        for bad in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
        ] {
            assert!(parent(&bad).is_none(), "{bad}");
        }
        assert!(parent(&format!("01-{TRACE}-{SPAN}-01-more")).is_some(), "of a later version");
        assert!(read(&Headers::new()).is_none());
    }

    #[test]
    fn a_state_that_is_not_well_formed_leaves_the_parent() {
        let value = format!("00-{TRACE}-{SPAN}-01");
        let headers: Headers =
            [(PARENT, value.as_str()), (STATE, "nonsense")].into_iter().collect();
        assert_eq!(read(&headers).unwrap().trace_id().to_string(), TRACE);
    }
}
