//! The gate of a relay: held while there is work in hand, given back when somebody wants it.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::Instant;

use super::Engine;
use crate::error::Result;
use crate::relay::gate::{Gate, GateHold, ask};
use crate::relay::report::Report;

/// How the relay stands to its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It holds it, or there is none: everything may begin.
    Open,
    /// Somebody wants it: nothing new begins, what is in hand is brought to its end.
    Closing,
    /// It does not hold it: nothing begins at all.
    Shut,
}

/// What came of waiting at the gate.
pub(super) enum Turn {
    Admitted(Result<GateHold>),
    Wanted,
}

type Wait = Pin<Box<dyn Future<Output = Turn> + Send>>;

/// The relay's hold of the gate, and what it waits for there.
pub(super) struct Keeper {
    gate: Option<Arc<dyn Gate>>,
    hold: Option<GateHold>,
    wait: Option<Wait>,
}

impl Keeper {
    pub(super) fn new(gate: Option<Arc<dyn Gate>>) -> Self {
        let mut keeper = Self { gate, hold: None, wait: None };
        keeper.ask_at(Instant::now());
        keeper
    }

    fn ask_at(&mut self, at: Instant) {
        self.wait = self.gate.clone().map(|gate| -> Wait {
            Box::pin(async move {
                tokio::time::sleep_until(at).await;
                Turn::Admitted(ask(gate.as_ref()).await)
            })
        });
    }

    fn watch(&mut self) {
        self.wait = self.gate.clone().map(|gate| -> Wait {
            Box::pin(async move {
                gate.wanted().await;
                Turn::Wanted
            })
        });
    }

    /// Waits for the next turn. May be dropped and called again.
    pub(super) async fn turn(&mut self) -> Turn {
        let turn = match &mut self.wait {
            Some(wait) => wait.await,
            None => pending().await,
        };
        self.wait = None;
        turn
    }
}

impl Engine {
    pub(super) fn standing_at(gate: Option<&Arc<dyn Gate>>) -> Standing {
        if gate.is_some() { Standing::Shut } else { Standing::Open }
    }

    pub(super) fn on_turn(&mut self, keeper: &mut Keeper, turn: Turn, now: Instant) {
        match turn {
            Turn::Admitted(Ok(hold)) => {
                keeper.hold = Some(hold);
                keeper.watch();
                self.standing = Standing::Open;
                self.looks.want();
            }
            Turn::Admitted(Err(error)) => {
                self.report(&Report::GateFailed(error));
                self.fail_drain();
                keeper.ask_at(now + self.parts.settings.poll);
            }
            Turn::Wanted => {
                self.standing = Standing::Closing;
                self.forget_queued(true, |_| true);
            }
        }
    }

    /// Gives the hold back once nothing is claimed, in flight or unsettled, and asks for it anew.
    pub(super) fn give_back_when_at_rest(&mut self, keeper: &mut Keeper, now: Instant) {
        if self.standing != Standing::Closing {
            return;
        }
        // A look that was under way may have brought rows.
        self.forget_queued(true, |_| true);
        let at_rest = self.tasks.is_empty()
            && self.begun.is_empty()
            && self.window.in_flight() == 0
            && self.verdicts.is_empty();
        if at_rest {
            self.standing = Standing::Shut;
            keeper.hold = None;
            keeper.ask_at(now);
        }
    }
}
