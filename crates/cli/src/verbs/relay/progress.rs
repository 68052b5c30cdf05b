//! The relay's line on a terminal: how far it is, four times a second.

use std::time::Duration;

use sendoff::relay::{Progress, Readiness, Tally};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::motion::Motion;
use crate::output::grouped;
use crate::terminal;

const EVERY: Duration = Duration::from_millis(250);

/// Draws until it is ended. Without a terminal it draws nothing.
#[derive(Debug)]
pub(super) struct Line(Option<JoinHandle<()>>);

impl Line {
    /// Begins to draw.
    pub(super) fn begin(relay: &Motion) -> Self {
        let running = relay.running();
        let (progress, readiness) = (running.progress, running.readiness);
        Self(terminal::is_there().then(|| tokio::spawn(draw(progress, readiness))))
    }

    /// Erases the line.
    pub(super) fn end(self) {
        if let Some(task) = self.0 {
            task.abort();
            terminal::clear();
        }
    }
}

async fn draw(progress: Progress, readiness: Readiness) {
    let mut ticks = tokio::time::interval(EVERY);
    let mut before = (Instant::now(), 0_u64);
    let mut rate = 0.0;
    loop {
        ticks.tick().await;
        let tally = progress.tally();
        let now = Instant::now();
        let seconds = now.duration_since(before.0).as_secs_f64();
        if seconds >= 1.0 {
            let done = u32::try_from(tally.settled.saturating_sub(before.1)).unwrap_or(u32::MAX);
            rate = f64::from(done) / seconds;
            before = (now, tally.settled);
        }
        terminal::draw(&line(&tally, rate, readiness.is_ready()));
    }
}

fn line(tally: &Tally, rate: f64, ready: bool) -> String {
    format!(
        "{}  published {}  {rate:.0}/s  in flight {}  in memory {}  failed {}  quarantined {}",
        if ready { "ready" } else { "NOT READY" },
        grouped(tally.settled),
        grouped(tally.in_flight),
        grouped(tally.window_rows),
        grouped(tally.failed),
        grouped(tally.quarantined),
    )
}
