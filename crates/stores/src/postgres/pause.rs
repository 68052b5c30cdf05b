//! Pauses, and bringing parked rows back.

use async_trait::async_trait;
use futures_util::future::join;
use sendoff_core::Result;
use sendoff_core::store::{
    PAUSE_REASON_CHARS_MAX, Pause, PauseDesk, PauseScope, PauseStanding, Tend, Tended,
};
use sendoff_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::pool::Pool;
use super::sql;
use super::store::PostgresStore;
use super::wire::Time;

pub(super) const TENDING: &str = "tending parked messages";

/// Two statements in one round trip. Between the two a pause may begin or end; the next call sees it.
pub(super) async fn tend(pool: &Pool, tend: &Tend) -> Result<Tended> {
    let mut checkout = pool.checkout(TENDING).await?;
    let recall = checkout.statement(sql::TEND).await?;
    let pauses = checkout.statement(sql::PAUSES).await?;
    let marks: Vec<&str> = tend.targets.iter().map(|room| room.mark.as_str()).collect();
    let number = |rows: usize| i64::try_from(rows).unwrap_or(i64::MAX);
    let rooms: Vec<i64> = tend.targets.iter().map(|room| number(room.rows_max)).collect();
    let (relay, rows_max) = (tend.relay.as_str(), number(tend.rows_max));
    let params: [&(dyn ToSql + Sync); 4] = [&relay, &marks, &rooms, &rows_max];
    let client = checkout.client();
    let asked = async {
        let (recalled, pauses) =
            join(recall.query(client, &params), pauses.query(client, &[])).await;
        Ok((recalled?, pauses?))
    };
    let (recalled, pauses) = checkout.alone(asked).await.map_err(|error| checkout.failed(error))?;
    let recalled: i64 = recalled.first().map_or(0, |row| row.get(0));
    checkout.keep();
    Ok(Tended {
        pauses: pauses.iter().filter_map(pause).collect(),
        recalled: u64::try_from(recalled).unwrap_or(0),
    })
}

/// What a newer program has written and this one does not know is none of its pauses.
fn pause(row: &Row) -> Option<Pause> {
    let scope = PauseScope::parse(row.get(0), row.get(1))?;
    let paused_at = row.get::<_, Option<Time>>(3).map_or(Timestamp::UNIX_EPOCH, |Time(time)| time);
    Some(Pause { scope, reason: row.get(2), paused_at })
}

fn standing(row: &Row) -> Option<PauseStanding> {
    let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Some(PauseStanding::new(pause(row)?, count(4), count(5)))
}

#[async_trait]
impl PauseDesk for PostgresStore {
    async fn pause(&self, scope: &PauseScope, reason: &str) -> Result<bool> {
        // A NUL cannot be stored in a text.
        let kept = |c: &char| !c.is_control();
        let reason: String = reason.chars().filter(kept).take(PAUSE_REASON_CHARS_MAX).collect();
        let params: [&(dyn ToSql + Sync); 3] = [&scope.kind(), &scope.name(), &reason];
        let rows = self.read("pausing messages", sql::PAUSE, &params).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    async fn resume(&self, scope: Option<&PauseScope>) -> Result<u64> {
        const DOING: &str = "resuming messages";
        let resumed = async {
            let mut checkout = self.desk.checkout(DOING).await?;
            let statement = checkout.statement(sql::RESUME).await?;
            let (kind, name) = (scope.map(PauseScope::kind), scope.map(PauseScope::name));
            let params: [&(dyn ToSql + Sync); 2] = [&kind, &name];
            let ended = checkout.alone(statement.execute(checkout.client(), &params)).await;
            let ended = ended.map_err(|error| checkout.failed(error))?;
            checkout.keep();
            Ok(ended)
        };
        self.desk.bounded(DOING, resumed).await
    }

    async fn pauses(&self) -> Result<Vec<PauseStanding>> {
        let rows = self.read("reading the pauses", sql::PAUSE_STANDINGS, &[]).await?;
        Ok(rows.iter().filter_map(standing).collect())
    }
}
