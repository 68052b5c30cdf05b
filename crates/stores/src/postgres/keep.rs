//! What is kept of published messages: retention, pages, and sending again.

use async_trait::async_trait;
use sendoff_core::Result;
use sendoff_core::store::{KeptDesk, KeptLook, KeptMark, KeptMessage, Resent, Retention};
use sendoff_core::time::{Timestamp, whole_micros};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::desk::{count, time};
use super::pool::Checkout;
use super::sql;
use super::store::PostgresStore;
use super::wire::Time;

#[async_trait]
impl KeptDesk for PostgresStore {
    async fn retention(&self) -> Result<Retention> {
        let rows = self.read("reading the retention", sql::RETENTION, &[]).await?;
        Ok(rows.first().map(retention).unwrap_or_default())
    }

    async fn set_retention(&self, retention: Retention) -> Result<()> {
        const DOING: &str = "setting the retention";
        retention.check()?;
        let keep_for = match retention {
            Retention::DeleteBehind => None,
            Retention::KeepFor(time) => i64::try_from(whole_micros(time)).ok(),
        };
        let set = async {
            let mut checkout = self.desk.checkout(DOING).await?;
            checkout.query(sql::RETENTION_WRITE, &[&retention.keeps(), &keep_for]).await?;
            // The first partitions, before the first settlement wants one.
            checkout.query(sql::KEEP_TURN, &[]).await?;
            checkout.keep();
            Ok(())
        };
        self.desk.bounded(DOING, set).await
    }

    async fn kept(&self, look: &KeptLook) -> Result<Vec<KeptMessage>> {
        let (from, until) = (look.from.map(Time), look.until.map(Time));
        let at = look.after.map(|mark| Time(mark.published_at));
        let (n, seq) = (look.after.map(|mark| mark.n), look.after.map(|mark| mark.seq));
        let rows_max = i64::from(look.rows_max);
        let params: [&(dyn ToSql + Sync); 7] = [&from, &until, &look.id, &at, &n, &seq, &rows_max];
        let rows = self.read("reading what is kept", sql::KEPT, &params).await?;
        Ok(rows.iter().map(kept).collect())
    }

    async fn resend(&self, marks: &[KeptMark]) -> Result<Resent> {
        const DOING: &str = "sending kept messages again";
        let mut marks = marks.to_vec();
        marks.sort_unstable();
        marks.dedup();
        let published: Vec<Time> = marks.iter().map(|mark| Time(mark.published_at)).collect();
        let seqs: Vec<i64> = marks.iter().map(|mark| mark.seq).collect();
        let resent = async {
            let mut checkout = self.desk.checkout(DOING).await?;
            let rows = checkout.query(sql::RESEND, &[&published, &seqs]).await?;
            // After the commit, as a send does. It is a hint.
            let notify = sql::notify(checkout.schema());
            if self.connector.options().listen
                && let Err(error) = checkout.client().batch_execute(&notify).await
            {
                tracing::debug!(%error, "a wake-up was not sent; polling goes on");
            }
            checkout.keep();
            let first = rows.first();
            Ok(first.map_or(Resent::default(), |row| Resent {
                sent: count(row, 0),
                waiting: count(row, 1),
                gone: count(row, 2),
            }))
        };
        self.desk.bounded(DOING, resent).await
    }
}

/// Drops partitions whose time is over and makes the next ones; forgets marks of what has gone.
pub(super) async fn sweep(checkout: &mut Checkout<'_>, rows_max: u32) -> Result<()> {
    checkout.query(sql::KEEP_TURN, &[]).await?;
    checkout.query(sql::SWEEP_RESENT, &[&i64::from(rows_max)]).await?;
    Ok(())
}

fn retention(row: &Row) -> Retention {
    if row.get::<_, bool>(0) {
        Retention::KeepFor(Duration::from_micros(count(row, 1)))
    } else {
        Retention::DeleteBehind
    }
}

fn kept(row: &Row) -> KeptMessage {
    let published_at = time(row, 0).unwrap_or(Timestamp::UNIX_EPOCH);
    KeptMessage {
        mark: KeptMark { published_at, n: row.get(1), seq: row.get(2) },
        published_at,
        id: row.get(3),
        source: row.get(4),
        topic: row.get(5),
        key: row.get(6),
        body_bytes: count(row, 7),
        sent_at: time(row, 8).unwrap_or(Timestamp::UNIX_EPOCH),
        attempts: u32::try_from(row.get::<_, i32>(9)).unwrap_or(0),
        target: row.get(10),
    }
}
