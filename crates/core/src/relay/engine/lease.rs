//! Leases: asking for lanes, keeping them, giving them back, and noticing that they have lapsed.

use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Event, STORE_WAITS};
use crate::error::Result;
use crate::lane::Lane;
use crate::relay::policy::Hold;
use crate::relay::report::Report;
use crate::store::{Ask, LaneLease, LeaseGrant, LeaseRequest};

/// The final message to the store takes no longer than this.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two sweeps, and for how many rows at once.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_ROWS: u32 = 5_000;

/// After so many calls without a lane a relay does not expect one soon: more than a lease has passed,
/// after which the others would have given back its share.
const SHARE_COMES_IN: u32 = 5;

pub(super) struct Leases {
    pub(super) running: bool,
    pub(super) failures: u32,
    next: Instant,
    /// On the boot clock, counted from before the renewal was sent.
    pub(super) valid_until: Duration,
    /// Lanes that are being given back by the running call.
    releasing: Vec<Lane>,
    sweeping: bool,
    next_sweep: Instant,
    /// Every lane is this relay's, and to stay so.
    pub(super) whole: bool,
    /// So many grants in a row had no lane.
    without: u32,
}

impl Leases {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            running: false,
            failures: 0,
            next: now,
            valid_until: Duration::ZERO,
            releasing: Vec::new(),
            sweeping: false,
            next_sweep: now + SWEEP_EVERY / 6,
            whole: false,
            without: 0,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.running).then_some(self.next)
    }
}

impl Engine {
    pub(super) fn begin_lease(&mut self, now: Instant) {
        self.begin_sweep(now);
        if self.leases.running || self.settles.releasing {
            return;
        }
        let drained: Vec<LaneLease> = self.drained_lanes();
        if drained.is_empty() && now < self.leases.next {
            return;
        }
        self.leases.releasing = drained.iter().map(|lease| lease.lane).collect();
        let keep = self
            .lanes
            .leases()
            .into_iter()
            .filter(|lease| !self.leases.releasing.contains(&lease.lane))
            .collect();
        let request = LeaseRequest {
            relay: self.parts.id.clone(),
            target: Some(self.parts.routes.shown_all()),
            ttl: self.parts.settings.lease,
            keep,
            release: drained,
            ask: match self.parts.settings.hold {
                _ if self.stop_by.is_some() => Ask::Nothing,
                Hold::All => Ask::All,
                Hold::Key | Hold::None => Ask::Share,
            },
        };
        self.leases.running = true;
        self.leases.next = now + self.parts.settings.lease / 3;
        let store = self.parts.store.clone();
        let asked_at = self.parts.clock.since_boot();
        self.tasks.spawn(async move { Event::Leased(asked_at, store.lease(&request).await) });
    }

    /// Lanes to give back of which nothing is in flight, on the way to the store or unknown.
    fn drained_lanes(&self) -> Vec<LaneLease> {
        self.lanes
            .iter()
            .filter(|(lane, owned)| owned.vacating && !self.window.busy(*lane))
            .map(|(lane, owned)| LaneLease { lane, epoch: owned.epoch, floor: owned.floor })
            .collect()
    }

    pub(super) fn on_leased(
        &mut self,
        asked_at: Duration,
        result: Result<LeaseGrant>,
        now: Instant,
    ) {
        self.leases.running = false;
        for lane in std::mem::take(&mut self.leases.releasing) {
            // Given back, or unknown: either way nothing more of it is begun here.
            self.lanes.remove(lane);
            self.parts.progress.lanes_left(1);
        }
        let grant = match result {
            Ok(grant) => grant,
            Err(error) => {
                self.leases.failures += 1;
                self.leases.next = now + STORE_WAITS.wait_with_jitter(self.leases.failures);
                self.store_failed(error);
                return;
            }
        };
        self.leases.failures = 0;
        self.leases.valid_until = asked_at + self.parts.settings.lease;
        self.store_answered();
        let (gained, lost) = self.lanes.granted(&grant.lanes);
        self.parts.progress.lanes_taken(gained.len() as u64);
        self.parts.progress.lanes_left(lost.len() as u64);
        if !lost.is_empty() {
            self.forget_queued(false, |lane| lost.contains(&lane));
        }
        if !gained.is_empty() {
            self.looks.want();
        }
        if self.stop_by.is_none() {
            self.tell_standing_by(&grant);
            if self.is_strict() {
                self.keep_all_or_none(&grant);
            } else {
                self.vacate_beyond(grant.share);
            }
        }
    }

    /// Says once that other relays leave this one nothing to do. A fair share comes with the next
    /// calls, since the others have to give it back; all lanes do not.
    fn tell_standing_by(&mut self, grant: &LeaseGrant) {
        if !grant.lanes.is_empty() {
            self.leases.without = 0;
            return;
        }
        self.leases.without = self.leases.without.saturating_add(1);
        if self.leases.without == if self.is_strict() { 1 } else { SHARE_COMES_IN } {
            self.report(&Report::StandingBy { lanes: grant.lanes_total });
        }
    }

    /// Messages leave in the order of all sends only from a relay that has every lane. One that has lost
    /// some, which takes a lease that lapsed, gives the rest back and stands by.
    fn keep_all_or_none(&mut self, grant: &LeaseGrant) {
        let to_stay = self.lanes.iter().all(|(_, owned)| !owned.vacating);
        let all = grant.lanes.len() == usize::from(grant.lanes_total);
        self.leases.whole = all && to_stay;
        if all {
            return;
        }
        for lease in &grant.lanes {
            self.lanes.vacate(lease.lane);
        }
        self.forget_queued(false, |_| true);
    }

    /// Begins to give back what is more than a fair share: the emptiest lanes first.
    fn vacate_beyond(&mut self, share: usize) {
        let mut staying: Vec<(usize, Lane)> = self
            .lanes
            .iter()
            .filter(|(_, owned)| !owned.vacating)
            .map(|(lane, _)| (self.window.queued_in(lane), lane))
            .collect();
        staying.sort_unstable();
        let excess = staying.len().saturating_sub(share);
        let leaving: Vec<Lane> = staying.into_iter().take(excess).map(|(_, lane)| lane).collect();
        for lane in &leaving {
            self.lanes.vacate(*lane);
        }
        if !leaving.is_empty() {
            self.forget_queued(true, |lane| leaving.contains(&lane));
        }
    }

    /// Whether the leases have lapsed, as far as this process can tell. What was read ahead is then
    /// dropped: somebody else may own it.
    pub(super) fn lapsed(&mut self) -> bool {
        if self.parts.clock.since_boot() < self.leases.valid_until {
            return false;
        }
        self.forget_queued(false, |_| true);
        true
    }

    fn begin_sweep(&mut self, now: Instant) {
        let has_first = self.lanes.get(Lane(0)).is_some_and(|owned| !owned.vacating);
        if self.leases.sweeping || now < self.leases.next_sweep || self.stop_by.is_some() {
            return;
        }
        self.leases.next_sweep = now + SWEEP_EVERY;
        // One relay sweeps for all: the owner of the first lane.
        if has_first {
            self.leases.sweeping = true;
            let store = self.parts.store.clone();
            self.tasks.spawn(async move { Event::Swept(store.sweep(SWEEP_ROWS).await) });
        }
    }

    pub(super) fn on_swept(&mut self, result: &Result<u64>, now: Instant) {
        self.leases.sweeping = false;
        match result {
            // More may be there: keep pace with what is sent.
            Ok(swept) if *swept >= u64::from(SWEEP_ROWS) => self.leases.next_sweep = now,
            Ok(_) => {}
            // Sweeping is housekeeping: it makes nobody unready, and is tried again.
            Err(error) => tracing::warn!(%error, "sweeping the outbox failed; it is tried again"),
        }
    }

    /// The end of a graceful stop: give back every lane of which nothing is unknown.
    pub(super) async fn leave(&mut self) {
        let (release, keep): (Vec<LaneLease>, Vec<LaneLease>) =
            self.lanes.leases().into_iter().partition(|lease| !self.window.busy(lease.lane));
        let request = LeaseRequest {
            relay: self.parts.id.clone(),
            target: Some(self.parts.routes.shown_all()),
            ttl: self.parts.settings.lease,
            keep,
            release,
            ask: Ask::Leave,
        };
        self.tasks.shutdown().await;
        let left = tokio::time::timeout(LEAVE_TIMEOUT, self.parts.store.lease(&request)).await;
        if !matches!(left, Ok(Ok(_))) {
            tracing::warn!("giving back the lanes failed; they are free when the lease lapses");
        }
    }
}
