//! The load: orders of its own at a steady rate, as long as the shop keeps up.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use super::figures::Figures;
use crate::shop::NewOrder;
use crate::stop::Stop;

/// The shortest time between two ticks; at higher rates a tick places several orders.
const TICK_MIN: Duration = Duration::from_millis(2);
/// Orders that wait for their commit at once.
const WAITING_MAX: usize = 64;

/// Places `rate` orders a second until a stop is asked for, and waits for the last ones.
pub(super) async fn run(rate: u32, figures: Arc<Figures>, stop: Stop) {
    if rate == 0 {
        return;
    }
    let each = Duration::from_secs(1) / rate;
    let mut ticks = interval(each.max(TICK_MIN));
    // A shop that fell behind is not flooded with what was missed.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    let mut owed = 0.0;
    while !stop.is_asked() {
        tokio::select! {
            () = stop.asked() => break,
            _ = ticks.tick() => {}
        }
        owed += f64::from(rate) * each.max(TICK_MIN).as_secs_f64();
        while owed >= 0.999 {
            owed -= 1.0;
            let Ok(permit) = waiting.clone().acquire_owned().await else {
                return;
            };
            let figures = figures.clone();
            tokio::spawn(async move {
                if let Err(error) = figures.place(NewOrder::of_the_load()).await {
                    tracing::warn!(kind = error.kind().as_str(), %error, "an order was not recorded");
                }
                drop(permit);
            });
        }
    }
    let all = u32::try_from(WAITING_MAX).unwrap_or(u32::MAX);
    // The semaphore is never closed.
    let _ = waiting.acquire_many(all).await;
}
