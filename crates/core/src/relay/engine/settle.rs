//! Settling behind: verdicts are gathered for a moment and written together, one settlement at a
//! time. A settlement that failed is written again until it is done; that is harmless.

use std::time::Duration;

use tokio::time::Instant;

use super::judge::{Judged, Told, releases};
use super::{Engine, Event, STORE_WAITS};
use crate::error::{Result, Retry};
use crate::relay::report::Report;
use crate::store::{Outcome, Settled, Verdict};

/// Verdicts wait for company this long at most. What waits here is delivered again after a crash.
const GATHER: Duration = Duration::from_millis(3);

/// So often a conflict is tried again at once.
const CONFLICTS_AT_ONCE: u32 = 5;

pub(super) struct Settles {
    pub(super) running: bool,
    /// The running settlement lets held rows go, and pulls floors down for them.
    pub(super) releasing: bool,
    pub(super) failures: u32,
    not_before: Instant,
    first_judged: Option<Instant>,
}

impl Settles {
    pub(super) fn new(now: Instant) -> Self {
        Self { running: false, releasing: false, failures: 0, not_before: now, first_judged: None }
    }

    pub(super) fn judged(&mut self) {
        self.first_judged.get_or_insert_with(Instant::now);
    }

    pub(super) fn deadline(&self, any: bool) -> Option<Instant> {
        let due = self.first_judged.filter(|_| any && !self.running)? + GATHER;
        Some(due.max(self.not_before))
    }
}

impl Engine {
    pub(super) fn begin_settle(&mut self, now: Instant) {
        if self.settles.running || self.verdicts.is_empty() || now < self.settles.not_before {
            return;
        }
        let rows_max = self.parts.settings.settle_rows_max;
        let gathered = self.settles.first_judged.is_none_or(|first| now >= first + GATHER);
        if self.verdicts.len() < rows_max && !gathered && self.stop_by.is_none() {
            return;
        }
        let count = rows_max.min(self.verdicts.len());
        let releasing = self.verdicts.iter().take(count).any(|one| releases(&one.verdict));
        if releasing && self.leases.running {
            // A renewal that is under way carries the floors as they were before.
            self.settles.first_judged = Some(now);
            return;
        }
        let (verdicts, told): (Vec<Verdict>, Vec<Told>) =
            self.verdicts.drain(..count).map(|one| (one.verdict, one.report)).unzip();
        self.settles.running = true;
        self.settles.releasing = releasing;
        self.settles.first_judged = (!self.verdicts.is_empty()).then_some(now);
        let store = self.parts.store.clone();
        let relay = self.parts.id.clone();
        self.parts.progress.settlements(1);
        self.tasks.spawn(async move {
            let result = store.settle(&relay, &verdicts).await;
            Event::Settled(verdicts, told, result)
        });
    }

    pub(super) fn on_settled(
        &mut self,
        verdicts: Vec<Verdict>,
        told: Vec<Told>,
        result: Result<Settled>,
        now: Instant,
    ) {
        let batch = verdicts.into_iter().zip(told);
        let batch = batch.map(|(verdict, report)| Judged { verdict, report });
        self.settles.running = false;
        self.settles.releasing = false;
        match result {
            Err(error) => {
                self.settles.failures += 1;
                let at_once =
                    error.retry() == Retry::Now && self.settles.failures <= CONFLICTS_AT_ONCE;
                if !at_once {
                    self.settles.not_before =
                        now + STORE_WAITS.wait_with_jitter(self.settles.failures);
                    self.store_failed(error);
                }
                // It may have been written all the same: what it lets go then stands below the floors
                // that the next renewal would send, and the next owner would read from.
                let batch: Vec<Judged> = batch.collect();
                let verdicts = batch.iter().map(|judged| &judged.verdict);
                for verdict in verdicts.filter(|verdict| releases(verdict)) {
                    self.lanes.let_go_above(verdict.lane, verdict.seq, self.looks.begun);
                }
                // In the same order, before what was judged since.
                for judged in batch.into_iter().rev() {
                    self.verdicts.push_front(judged);
                }
                self.settles.first_judged = Some(now);
            }
            Ok(settled) => {
                self.settles.failures = 0;
                self.store_answered();
                self.record(batch, &settled, now);
                self.window.looks_ended(self.looks.ended());
            }
        }
    }

    fn record(&mut self, batch: impl Iterator<Item = Judged>, settled: &Settled, now: Instant) {
        let begun = self.looks.begun;
        for Judged { verdict, report } in batch {
            let fenced = !settled.fenced.is_empty() && settled.fenced.contains(&verdict.seq);
            match &verdict.outcome {
                Outcome::Published { releases } => {
                    self.parts.progress.settled(1);
                    // However many were let go now: an earlier try, whose answer was lost, may have
                    // let them go.
                    if *releases {
                        self.lanes.let_go_above(verdict.lane, verdict.seq, begun);
                        self.looks.want();
                        self.looks.waiting_in(now, Duration::ZERO);
                    }
                }
                // The row is ready for its next owner, which may be this relay again.
                _ if fenced => self.lanes.forgot_of_key(verdict.lane, begun),
                Outcome::Retry { after, .. } => self.looks.waiting_in(now, *after),
                Outcome::Quarantined { .. } => self.parts.progress.quarantined(1),
                Outcome::Parked { .. } => self.parts.progress.parked(1),
                Outcome::Held => {
                    self.parts.progress.held(1);
                    // Where its blocker had gone meanwhile it is still ready.
                    self.lanes.forgot_of_key(verdict.lane, begun);
                }
            }
            if fenced || verdict.outcome == Outcome::Held {
                self.window.dismissed(verdict.seq, begun);
            } else {
                self.window.settled(verdict.seq, begun);
            }
            if let Some(report) = report.filter(|_| !fenced) {
                self.report(&report);
            }
        }
        // A key that was held back until now may have rows that were refused.
        self.looks.want_if_refused();
        if !settled.fenced.is_empty() {
            self.parts.progress.fenced(settled.fenced.len() as u64);
            self.report(&Report::Fenced { seqs: settled.fenced.clone() });
        }
    }
}
