//! Where a row that was read goes: to which outlet, or why to none now.

use std::sync::Arc;

use tokio::time::Instant;

use super::Engine;
use super::judge::{Refusal, Trouble};
use crate::message::Message;
use crate::publisher::PublishError;
use crate::store::QuarantineReason;

impl Engine {
    /// The outlet of a message, or what is in its way. `waiting` says that its row came by its time.
    pub(super) fn destination(
        &self,
        message: &Arc<Message>,
        waiting: bool,
    ) -> Result<usize, Trouble> {
        if message.is_reserved() {
            return Ok(self.errands());
        }
        let target = self.parts.routes.place_of(message.topic());
        if let Some(mark) = self.paused(message, target) {
            return Err(Trouble::Parked(mark));
        }
        let refused = |refusal| Err(Trouble::Refused(refusal, Box::new(message.as_ref().clone())));
        let Some(target) = target else {
            let error = format!("no route takes the topic {}", message.topic());
            let error = PublishError::permanent(error);
            return refused(Refusal::Never(QuarantineReason::NoRoute, error));
        };
        if let Some(refusal) = self.refusal(target, message) {
            return refused(refusal);
        }
        if self.targets() > 1 && !self.has_place(target, waiting, Instant::now()) {
            return Err(Trouble::Parked(self.parts.routes.list()[target].mark.clone()));
        }
        Ok(target)
    }
}
