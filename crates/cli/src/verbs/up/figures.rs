//! The figures: what this run did, what the store says, shown every second.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sendoff::Result;
use sendoff::barrier::{BarrierDesk, BarrierId, Status};
use sendoff::sqlite::SqliteStore;
use sendoff::store::{OutboxDesk, Standing, Stats};
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::callback::Signer;
use crate::configuration::duration_text;
use crate::exit::Failure;
use crate::output::{Form, grouped};
use crate::shop::{Batch, Close, NewBatch, NewOrder, Order, SOURCE, Shop};
use crate::terminal;

/// The shop, the store and the counters of this run.
#[derive(Debug)]
pub(super) struct Figures {
    shop: Shop,
    store: Arc<SqliteStore>,
    signer: Signer,
    committed_before: u64,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    failed: AtomicU64,
}

/// The figures at one moment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Reading {
    /// Orders in the database, of all runs.
    pub(super) committed: u64,
    /// Of these, in this run.
    pub(super) committed_now: u64,
    /// Transactions of this run that rolled back on purpose, after their message was written.
    pub(super) rolled_back_now: u64,
    /// Orders of this run that could not be recorded.
    pub(super) failed_now: u64,
    /// Messages that the file has confirmed, of all runs.
    pub(super) delivered: u64,
    /// Messages that are to be published.
    pub(super) pending: u64,
    /// Messages behind an earlier one of their customer.
    pub(super) held: u64,
    /// Messages that were set aside.
    pub(super) quarantined: u64,
    /// The age of the oldest message that is due, in milliseconds.
    pub(super) lag_ms: u64,
}

impl Figures {
    /// Begins to count.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn begin(shop: Shop, store: Arc<SqliteStore>, signer: Signer) -> Result<Self> {
        Ok(Self {
            committed_before: shop.count().await?,
            shop,
            store,
            signer,
            committed: AtomicU64::new(0),
            rolled_back: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// Places an order and counts how it ended.
    ///
    /// # Errors
    /// Those of [`Shop::place`].
    pub(super) async fn place(&self, order: NewOrder) -> Result<Close> {
        let close = self.shop.place(order).await;
        let counter = match &close {
            Ok(Close::Committed(_)) => &self.committed,
            Ok(Close::RolledBack(_)) => &self.rolled_back,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        close
    }

    /// Sends a batch of documents and waits for the partner's answers.
    ///
    /// # Errors
    /// Those of [`Shop::send_batch`].
    pub(super) async fn send_batch(&self, batch: NewBatch) -> Result<Batch> {
        self.shop.send_batch(batch, self.signer.clone()).await
    }

    /// How a batch stands: the status of its barrier.
    ///
    /// # Errors
    /// Those of the database, and an id that is none.
    pub(super) async fn batch(&self, id: &str) -> Result<Option<Status>> {
        self.store.barrier_status(&BarrierId::new(id)?).await
    }

    /// An order, and where its message is.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn find(&self, id: String) -> Result<Option<(Order, Vec<Standing>)>> {
        let Some(order) = self.shop.find(id).await? else {
            return Ok(None);
        };
        let standings = self.store.find(&order.id, Some(SOURCE)).await?;
        Ok(Some((order, standings)))
    }

    /// The store's own counts.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn stats(&self) -> Result<Stats> {
        self.store.stats().await
    }

    /// The figures now.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn read(&self) -> Result<Reading> {
        let stats = self.store.stats().await?;
        let committed_now = self.committed.load(Ordering::Relaxed);
        Ok(Reading {
            committed: self.committed_before + committed_now,
            committed_now,
            rolled_back_now: self.rolled_back.load(Ordering::Relaxed),
            failed_now: self.failed.load(Ordering::Relaxed),
            delivered: stats.published,
            pending: stats.pending,
            held: stats.held,
            quarantined: stats.quarantined,
            lag_ms: stats.oldest_due_ms.unwrap_or(0),
        })
    }
}

/// Shows the figures every second until `stop` is done: one line drawn again and again on a
/// terminal, else one line after the other.
///
/// # Errors
/// Nobody reads standard output any more.
pub(super) async fn show(
    figures: &Figures,
    form: Form,
    stop: impl Future<Output = ()>,
) -> std::result::Result<(), Failure> {
    let on_terminal = form == Form::Text && terminal::is_there();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<(Instant, Reading)> = None;
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = ticks.tick() => {}
        }
        let reading = match figures.read().await {
            Ok(reading) => reading,
            Err(error) => {
                tracing::error!(kind = error.kind().as_str(), %error, "no figures");
                continue;
            }
        };
        let now = Instant::now();
        if let Some((then, earlier)) = &before {
            let seconds = now.duration_since(*then).as_secs_f64();
            let text = line(&reading, earlier, seconds);
            if on_terminal {
                terminal::draw(&text);
            } else {
                let value = serde_json::json!({ "event": "figures", "figures": reading });
                form.answer(&value, &text)?;
            }
        }
        before = Some((now, reading));
    }
    terminal::clear();
    Ok(())
}

fn line(now: &Reading, before: &Reading, seconds: f64) -> String {
    let rate = |now: u64, before: u64| {
        let done = u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
        f64::from(done) / seconds.max(0.001)
    };
    let mut text = format!(
        "orders {} ({:.0}/s)  delivered {} ({:.0}/s)  pending {}  lag {}  rolled back {}",
        grouped(now.committed),
        rate(now.committed, before.committed),
        grouped(now.delivered),
        rate(now.delivered, before.delivered),
        grouped(now.pending),
        duration_text(Duration::from_millis(now.lag_ms)),
        grouped(now.rolled_back_now),
    );
    for (name, count) in
        [("held", now.held), ("QUARANTINED", now.quarantined), ("not recorded", now.failed_now)]
    {
        if count > 0 {
            text.push_str(&format!("  {name} {}", grouped(count)));
        }
    }
    text
}
