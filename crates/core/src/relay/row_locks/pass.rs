//! Passes: batch after batch until no row is left or a failure ends the pass.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::Parts;
use super::stop::Stop;
use crate::error::Error;
use crate::publisher::{PublishClass, PublishError};
use crate::relay::deliver::{self, Delivered, Delivery, End};
use crate::relay::gate;
use crate::relay::policy::Hold;
use crate::relay::report::{Report, Tally};
use crate::store::{ClaimRequest, Claimed, ClaimedRow, Mark, clean_error};

/// What a failure holds back: the pass ends with it, and the next one begins at it.
const HOLDS: Hold = Hold::All;

const MARKING: &str = "marking what was published";

/// A claim reads from this far behind the last row that it has seen: transactions that commit late are
/// found at once where they are not later than that, and what has gone is not walked over again.
const BEHIND: i64 = 8_192;
/// And from the beginning this often, more seldom where that takes long.
const FULL_EVERY: Duration = Duration::from_secs(1);
const FULL_SHARE: u32 = 20;

/// Between two sweeps, and for how many rows at once.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_ROWS: u32 = 5_000;
const SWEEP_TIMEOUT: Duration = Duration::from_secs(5);
/// The final message to the store takes no longer than this.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// A target that asks for a longer wait is asked again after this one.
const ASKED_MAX: Duration = Duration::from_secs(3_600);

/// Why a pass ended.
enum PassEnd {
    /// Nothing was left.
    Empty,
    /// Something failed. With how long the target asks to be left alone.
    Failed(Option<Duration>),
    /// The stop, or the end of the drain, came first.
    Stopped,
}

/// What became of one batch.
enum BatchEnd {
    Marked,
    Ended(PassEnd),
}

struct Passes {
    parts: Parts,
    delivery: Delivery,
    /// The last row that was dealt with.
    position: i64,
    next_full: Instant,
    next_sweep: Instant,
}

/// Runs passes until `stop` is done, and the last one where there is a drain.
pub(super) async fn run(parts: Parts, stop: impl Future<Output = ()> + Send) -> Tally {
    let receiving = parts.readiness.receiving();
    let mut stop = Stop::new(stop, parts.settings.cancel_after);
    let now = Instant::now();
    let next_sweep = now + SWEEP_EVERY / 6;
    let delivery = parts.delivery();
    let mut passes = Passes { parts, delivery, position: 0, next_full: now, next_sweep };
    while !stop.is_asked() {
        let end = passes.pass(&mut stop).await;
        if !stop.is_asked() {
            passes.sweep(&mut stop).await;
            passes.wait(&end, &mut stop).await;
        }
    }
    let drain = passes.parts.settings.drain;
    if drain > Duration::ZERO {
        stop.drain(drain);
        passes.next_full = Instant::now();
        passes.pass(&mut stop).await;
    }
    passes.leave().await;
    drop(receiving);
    passes.parts.progress.tally()
}

impl Passes {
    async fn pass(&mut self, stop: &mut Stop<'_>) -> PassEnd {
        loop {
            match self.batch(stop).await {
                BatchEnd::Marked => {}
                BatchEnd::Ended(end) => return end,
            }
        }
    }

    /// Claims a batch, publishes it and marks it, with the gate held from before to after.
    async fn batch(&mut self, stop: &mut Stop<'_>) -> BatchEnd {
        let hold = match self.parts.gate.clone() {
            None => None,
            Some(gate) => match stop.while_claiming(gate::ask(gate.as_ref())).await {
                None => return BatchEnd::Ended(PassEnd::Stopped),
                Some(Ok(hold)) => Some(hold),
                Some(Err(error)) => {
                    self.report(&Report::GateFailed(error));
                    return BatchEnd::Ended(PassEnd::Failed(None));
                }
            },
        };
        let end = self.claim_and_publish(stop).await;
        drop(hold);
        end
    }

    async fn claim_and_publish(&mut self, stop: &mut Stop<'_>) -> BatchEnd {
        let begun = Instant::now();
        let is_full = begun >= self.next_full;
        let request = self.request(is_full);
        let store = self.parts.store.clone();
        let claimed = match stop.while_claiming(store.claim(&request)).await {
            None => return BatchEnd::Ended(PassEnd::Stopped),
            Some(Err(error)) => return self.store_failed(error, stop.is_asked()),
            Some(Ok(claimed)) => claimed,
        };
        self.parts.progress.looks(1);
        if is_full {
            self.next_full = Instant::now() + FULL_EVERY.max(begun.elapsed() * FULL_SHARE);
        }
        let Some(claimed) = claimed else {
            self.store_answered();
            if stop.is_draining() && !is_full {
                // The last pass leaves nothing behind that it could have found.
                self.next_full = Instant::now();
                return BatchEnd::Marked;
            }
            return BatchEnd::Ended(PassEnd::Empty);
        };
        self.parts.progress.read(claimed.rows().len() as u64);
        let ends_at = begun + request.lasts;
        let (delivered, complete) = self.publish(claimed.rows(), begun, stop).await;
        if Instant::now() >= ends_at {
            return self.give_back(claimed, delivered.into_iter().next_back()).await;
        }
        let end = self.mark(claimed, delivered, ends_at, stop.is_asked()).await;
        if complete { end } else { BatchEnd::Ended(PassEnd::Stopped) }
    }

    fn request(&self, is_full: bool) -> ClaimRequest {
        ClaimRequest {
            relay: self.parts.id.clone(),
            target: Some(clean_error(self.parts.publisher.address())),
            after: if is_full { 0 } else { (self.position - BEHIND).max(0) },
            rows_max: self.parts.settings.batch,
            bytes_max: self.parts.settings.batch_bytes,
            lasts: self.parts.settings.publish_timeout * 2,
        }
    }

    /// Publishes rows one after the other, as long as the claim leaves time for the next one and nothing
    /// fails that holds the rest back. Answers whether the stop did not cancel it.
    async fn publish(
        &self,
        rows: &[ClaimedRow],
        begun: Instant,
        stop: &mut Stop<'_>,
    ) -> (Vec<Delivered>, bool) {
        let timeout = self.parts.settings.publish_timeout;
        let mut delivered = Vec::with_capacity(rows.len());
        for row in rows {
            // So that what is begun last has its whole time, and the mark a quarter of the claim's.
            if !delivered.is_empty() && begun.elapsed() > timeout / 2 {
                break;
            }
            self.parts.progress.begun(1);
            let Some(one) = stop.unless_cancelled(self.delivery.deliver(row, timeout)).await else {
                self.parts.progress.unknown(1);
                self.delivery.reset().await;
                return (delivered, false);
            };
            let failed = matches!(one.end, End::Failed { .. });
            delivered.push(one);
            if failed {
                break;
            }
        }
        (delivered, true)
    }

    /// A handler that ignored its deadline: the claim's time was over when it returned.
    async fn give_back(
        &mut self,
        claimed: Box<dyn Claimed + '_>,
        last: Option<Delivered>,
    ) -> BatchEnd {
        let message = last.and_then(|last| {
            let row = claimed.rows().iter().find(|row| row.seq == last.seq)?;
            match &row.content {
                crate::store::Content::Message(message) => Some((row.seq, (**message).clone())),
                _ => None,
            }
        });
        if let Err(error) = claimed.give_back().await {
            tracing::debug!(%error, "giving rows back failed; they are free all the same");
        }
        self.parts.progress.unknown(1);
        if let Some((seq, message)) = message {
            let detail = "its time was over when it ended; whether it arrived is unknown";
            let error = PublishError::new(PublishClass::TimedOut, detail);
            self.report(&Report::PublishFailed { seq, message, error, holds: HOLDS });
        }
        BatchEnd::Ended(PassEnd::Failed(None))
    }

    async fn mark(
        &mut self,
        claimed: Box<dyn Claimed + '_>,
        delivered: Vec<Delivered>,
        ends_at: Instant,
        is_stopping: bool,
    ) -> BatchEnd {
        let marks: Vec<Mark> = delivered.iter().map(Delivered::mark).collect();
        let address = self.parts.store.address().to_owned();
        let marked = deliver::until(ends_at, MARKING, &address, claimed.mark(&marks)).await;
        let marked = match marked {
            Ok(marked) => marked,
            Err(error) => return self.store_failed(error, is_stopping),
        };
        self.store_answered();
        self.parts.progress.settlements(1);
        self.parts.progress.settled(marked.published);
        if !marked.fenced.is_empty() {
            self.parts.progress.fenced(marked.fenced.len() as u64);
            self.report(&Report::Fenced { seqs: marked.fenced.clone() });
        }
        let mut end = None;
        for one in delivered {
            match &one.end {
                End::Published => self.parts.progress.confirmed(1),
                End::Quarantined { .. } => self.parts.progress.quarantined(1),
                End::Failed { error, .. } => {
                    self.parts.progress.failed(1);
                    let wait = match error.class() {
                        PublishClass::Throttled { wait } => Some(wait.min(ASKED_MAX)),
                        _ => None,
                    };
                    end = Some(PassEnd::Failed(wait));
                }
            }
            self.position = one.seq;
            let fenced = marked.fenced.contains(&one.seq);
            if let Some(report) = one.report(HOLDS).filter(|_| !fenced) {
                self.report(&report);
            }
        }
        end.map_or(BatchEnd::Marked, BatchEnd::Ended)
    }

    fn store_failed(&self, error: Error, is_stopping: bool) -> BatchEnd {
        // What fails after a stop says nothing of a relay that goes on.
        if !is_stopping {
            self.parts.readiness.set(false);
        }
        self.report(&Report::StoreFailed(error));
        BatchEnd::Ended(PassEnd::Failed(None))
    }

    fn store_answered(&self) {
        self.parts.readiness.set(true);
    }

    /// Waits for the next pass: for the poll, or for somebody to wake it where nothing was left.
    async fn wait(&self, end: &PassEnd, stop: &mut Stop<'_>) {
        let poll = self.parts.settings.poll;
        let wait = match end {
            PassEnd::Failed(Some(asked)) => poll.max(*asked),
            _ => poll,
        };
        let woken = async {
            if !matches!(end, PassEnd::Empty) {
                return std::future::pending().await;
            }
            tokio::select! {
                () = self.parts.wake.woken() => {}
                news = self.parts.store.news() => if news.is_err() {
                    // The poll finds what a lost hint does not.
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.asked() => {}
            () = woken => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Tells the store that nothing more is claimed, unless somebody holds the gate: no transaction runs
    /// beside him, and what the store keeps of the relay lapses.
    async fn leave(&self) {
        let gate = self.parts.gate.clone();
        let hold = gate.as_ref().map(|gate| gate::ask(gate.as_ref()).now_or_never());
        if let Some(None | Some(Err(_))) = hold {
            return;
        }
        let left = self.parts.store.leave(&self.parts.id);
        if !matches!(tokio::time::timeout(LEAVE_TIMEOUT, left).await, Ok(Ok(()))) {
            tracing::warn!("telling the store that the relay has ended failed; its claims lapse");
        }
    }

    async fn sweep(&mut self, stop: &mut Stop<'_>) {
        let now = Instant::now();
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_EVERY;
        let gate = self.parts.gate.clone();
        let hold = match &gate {
            None => None,
            Some(gate) => match stop.while_claiming(gate::ask(gate.as_ref())).await {
                Some(Ok(hold)) => Some(hold),
                // The next pass tells what is wrong with the gate.
                Some(Err(_)) | None => return,
            },
        };
        let store = self.parts.store.clone();
        let sweep = tokio::time::timeout(SWEEP_TIMEOUT, store.sweep(SWEEP_ROWS));
        match stop.while_claiming(sweep).await {
            // More may be there: keep pace with what is sent.
            Some(Ok(Ok(swept))) if swept >= u64::from(SWEEP_ROWS) => self.next_sweep = now,
            Some(Ok(Err(error))) => {
                tracing::warn!(%error, "sweeping the outbox failed; it is tried again");
            }
            Some(_) | None => {}
        }
        drop(hold);
    }

    /// Tells the owner, who may panic over it.
    fn report(&self, report: &Report) {
        if catch_unwind(AssertUnwindSafe(|| (self.parts.report)(report))).is_err() {
            tracing::error!("the report hook panicked; the relay goes on");
        }
    }
}
