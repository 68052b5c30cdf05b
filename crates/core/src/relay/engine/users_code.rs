//! Calls of code that users write. It may panic, and must not take the relay with it.
//!
//! A panic of a publish is caught where it is polled, see `publish`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::time::Instant;

use super::Engine;
use super::judge::Refusal;
use crate::message::Message;
use crate::publisher::{PublishError, PublisherLimits};
use crate::relay::breaker::Allows;
use crate::relay::report::Report;
use crate::store::QuarantineReason;

impl Engine {
    /// Tells the owner, who may panic over it.
    pub(super) fn report(&self, report: &Report) {
        if catch_unwind(AssertUnwindSafe(|| (self.parts.report)(report))).is_err() {
            tracing::error!("the report hook panicked; the relay goes on");
        }
    }

    /// `None` where the publisher panicked. The store's errands have the bounds of the default.
    fn limits(&self, outlet: usize) -> Option<PublisherLimits> {
        let Some(target) = self.parts.routes.list().get(outlet) else {
            return Some(PublisherLimits::default());
        };
        catch_unwind(AssertUnwindSafe(|| target.publisher.limits())).ok()
    }

    /// How many publishes through the outlet may be in flight now. A target that cannot say it takes nothing, until it
    /// can.
    pub(super) fn in_flight_max(&mut self, outlet: usize, now: Instant) -> Option<usize> {
        let allows = self.outlets[outlet].breaker.allows(now);
        if let Allows::NoneBefore(_) = allows {
            return None;
        }
        let Some(limits) = self.limits(outlet) else {
            let error =
                PublishError::unreachable("the publisher panicked when asked for its limits");
            self.target_down(outlet, None, error);
            return None;
        };
        Some(match allows {
            Allows::All => self.parts.settings.in_flight_max.min(limits.in_flight_max).max(1),
            Allows::One | Allows::NoneBefore(_) => 1,
        })
    }

    /// Why the target does not take a message, as far as that can be told before it is sent.
    pub(super) fn refusal(&self, target: usize, message: &Message) -> Option<Refusal> {
        // Without an answer the publish, which waits for one, is the judge of the size.
        let max = self.limits(target).map_or(usize::MAX, |limits| limits.body_bytes_max);
        let size = message.body().len();
        if size > max {
            let error = format!("the body has {size} bytes, the target takes {max}");
            let error = PublishError::permanent(error);
            return Some(Refusal::Never(QuarantineReason::TooLarge, error));
        }
        let publisher = &self.parts.routes.list()[target].publisher;
        match catch_unwind(AssertUnwindSafe(|| publisher.check(message))) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Refusal::Never(QuarantineReason::Permanent, error)),
            Err(_) => Some(Refusal::NotNow(PublishError::failed(
                "the publisher panicked when asked whether it takes the message",
            ))),
        }
    }
}
