//! Outlets: what the relay knows of each of its targets, and of the store as the runner of errands.
//!
//! Every target has its own breaker, bounds and share of the window, so that one which is down or slow
//! holds up nobody else's messages. What finds no room any more is parked: the rows leave the looks,
//! use up no attempts, and come back in order as there is room (see `tend`). A target has room for
//!
//! - its share of the window (rows and bytes, divided by the number of targets) while it takes
//!   messages; a share that has been full for a second belongs to a slow target, and before that looks
//!   wait for it, since a fast one has room again at once;
//! - a few rows to try it with, once it has been down for a second.
//!
//! A relay with one target has nobody to shield from it: there nothing is parked for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use super::publish::To;
use crate::message::Message;
use crate::relay::breaker::{Allows, Breaker};
use crate::relay::policy::Policy;
use crate::store::TargetRoom;

/// So long a target may be down, or its share full, before its rows make room for others'.
const PATIENCE: Duration = Duration::from_secs(1);

/// So many rows of a target that is down stay in memory, to try it with.
const TRIES: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Outlet {
    pub(super) breaker: Breaker,
    /// The publisher is discarding its connection.
    pub(super) resetting: bool,
    /// How many publishes the target has confirmed.
    pub(super) confirmed: u64,
    /// Since when it takes nothing.
    pub(super) down_since: Option<Instant>,
    /// Since when its share of the window is full, or has been and is not nearly empty again.
    full_since: Option<Instant>,
    /// What was queued as it was given up has been parked.
    emptied: bool,
}

impl Outlet {
    pub(super) fn begin_next_round(&mut self) {
        self.confirmed = 0;
        self.resetting = false;
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.full_since.is_some_and(|since| now >= since + PATIENCE)
    }

    fn is_given_up(&self, now: Instant) -> bool {
        self.down_since.is_some_and(|since| now >= since + PATIENCE)
    }
}

impl Engine {
    /// The outlet of the store's own errands, which go to no target.
    pub(super) fn errands(&self) -> usize {
        self.outlets.len() - 1
    }

    /// Who takes an outlet's messages.
    pub(super) fn to(&self, outlet: usize) -> To {
        match self.parts.routes.list().get(outlet) {
            Some(target) => To::Target(Arc::clone(&target.publisher)),
            None => To::Store(Arc::clone(&self.parts.store)),
        }
    }

    /// What is done about the message where it fails.
    pub(super) fn policy_of(&self, message: &Message) -> &Policy {
        self.parts.policies.policy_of(message.topic())
    }

    /// The address of what an outlet leads to.
    pub(super) fn address_of(&self, outlet: usize) -> &str {
        match self.parts.routes.list().get(outlet) {
            Some(target) => target.publisher.address(),
            None => self.parts.store.address(),
        }
    }

    /// How many targets take nothing now.
    pub(super) fn targets_down(&self) -> u64 {
        let down = self.outlets.iter().filter(|outlet| outlet.breaker.is_open());
        u64::try_from(down.count()).unwrap_or(u64::MAX)
    }

    /// How many targets there are.
    pub(super) fn targets(&self) -> usize {
        self.outlets.len() - 1
    }

    /// What a target may have of the window's rows and bytes.
    fn share(&self) -> (usize, usize) {
        let settings = &self.parts.settings;
        let each = |whole: usize| (whole / self.targets().max(1)).max(1);
        (each(settings.window_rows), each(settings.window_bytes))
    }

    /// Whether this much of the target's share is taken, in quarters.
    fn takes(&self, target: usize, quarters: usize) -> bool {
        let (rows, bytes) = self.share();
        let part = |whole: usize| (whole / 4 * quarters + whole % 4 * quarters / 4).max(1);
        self.window.rows_of(target) >= part(rows) || self.window.bytes_of(target) >= part(bytes)
    }

    /// Whether a row finds room at its target. One that came by its time may be one to try it with.
    pub(super) fn has_place(&self, target: usize, waiting: bool, now: Instant) -> bool {
        if self.targets() == 1 {
            return true;
        }
        let outlet = &self.outlets[target];
        if outlet.is_given_up(now) {
            return waiting && self.window.rows_of(target) < TRIES;
        }
        !self.is_passed_over(target, now) || !self.takes(target, 4)
    }

    /// Whether looks go on though the target's share is full.
    fn is_passed_over(&self, target: usize, now: Instant) -> bool {
        let outlet = &self.outlets[target];
        outlet.down_since.is_some() || outlet.is_slow(now)
    }

    /// Whether less than this much is taken of the share of every target that looks wait for.
    pub(super) fn shares_have_room(&self, quarters: usize, now: Instant) -> bool {
        self.targets() == 1
            || (0..self.targets())
                .all(|target| self.is_passed_over(target, now) || !self.takes(target, quarters))
    }

    /// How many rows a look may bring, so that no share that looks wait for is overrun by far.
    pub(super) fn rows_that_shares_allow(&self, now: Instant) -> usize {
        if self.targets() == 1 {
            return usize::MAX;
        }
        let (rows, _) = self.share();
        let waited_for = (0..self.targets()).filter(|target| !self.is_passed_over(*target, now));
        waited_for
            .map(|target| rows.saturating_sub(self.window.rows_of(target)))
            .min()
            .unwrap_or(usize::MAX)
    }

    /// Notes whose share is full, and parks what is queued for targets that are given up.
    pub(super) fn watch_shares(&mut self, now: Instant) {
        if self.targets() == 1 {
            return;
        }
        for target in 0..self.targets() {
            let (full, low) = (self.takes(target, 3), !self.takes(target, 1));
            let outlet = &mut self.outlets[target];
            if low || (!full && !outlet.is_slow(now)) {
                outlet.full_since = None;
            } else if full {
                outlet.full_since.get_or_insert(now);
            }
            let given_up = outlet.is_given_up(now);
            let parks = given_up && !outlet.emptied && self.stop_by.is_none();
            outlet.emptied = given_up && (outlet.emptied || parks);
            if parks {
                let mark = self.parts.routes.list()[target].mark.clone();
                let queued = self.window.queued_of(|outlet, _| outlet == target);
                for seq in queued {
                    self.park_queued(seq, mark.clone());
                }
            }
        }
    }

    /// When a target's patience ends, or a wait for it.
    pub(super) fn outlets_deadline(&self, now: Instant) -> Option<Instant> {
        let waits = self.outlets.iter().filter_map(|outlet| match outlet.breaker.allows(now) {
            Allows::NoneBefore(until) => Some(until),
            Allows::All | Allows::One => None,
        });
        let patience = self.outlets.iter().filter(|_| self.targets() > 1).flat_map(|outlet| {
            let full = outlet.full_since.filter(|_| !outlet.is_slow(now));
            [full, outlet.down_since.filter(|_| !outlet.is_given_up(now))]
        });
        waits.chain(patience.flatten().map(|since| since + PATIENCE)).min()
    }

    /// What targets take of what is parked for them. With one target nothing is, so what an earlier
    /// configuration has left there comes back.
    pub(super) fn rooms(&self, now: Instant) -> Vec<TargetRoom> {
        if self.targets() == 1 {
            return Vec::new();
        }
        let (share, _) = self.share();
        (0..self.targets())
            .map(|target| {
                let outlet = &self.outlets[target];
                let rows_max = match &outlet.down_since {
                    Some(_) if outlet.is_given_up(now) => TRIES,
                    Some(_) => 0,
                    None if self.takes(target, 2) => 0,
                    None => share / 2,
                };
                let mark = self.parts.routes.list()[target].mark.as_ref().to_owned();
                let rows_max = rows_max.saturating_sub(self.window.rows_of(target));
                TargetRoom { mark, rows_max }
            })
            .collect()
    }
}
