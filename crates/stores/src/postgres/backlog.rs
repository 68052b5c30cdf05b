//! How much there is and how old it is, at a cost that has a bound.

use std::time::Duration;

use sendoff_core::Result;
use sendoff_core::store::Backlog;

use super::pool::Pool;
use super::sql;

pub(super) const DOING: &str = "counting the backlog";

pub(super) async fn backlog(pool: &Pool, count_max: u32) -> Result<Backlog> {
    let mut checkout = pool.checkout(DOING).await?;
    let rows = checkout.query(sql::BACKLOG, &[&i64::from(count_max)]).await?;
    checkout.keep();
    let Some(row) = rows.first() else { return Ok(Backlog::default()) };
    let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let oldest: Option<i64> = row.get(0);
    Ok(Backlog {
        oldest_due: oldest.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))),
        due: count(1),
        held: count(2),
        quarantined: count(3),
    })
}
