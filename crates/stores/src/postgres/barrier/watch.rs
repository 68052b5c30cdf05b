//! What the relay's sweep does for barriers: deletes those whose time is over, and looks for those that
//! nobody would ever complete.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use sendoff_core::Result;
use sendoff_core::barrier::{BarrierId, Errand, ErrandAct};
use serde::Deserialize;

use super::desk::Counter;
use super::{Asks, Call, Param, close};
use crate::postgres::PostgresStore;
use crate::postgres::sql;

const DOING: &str = "sweeping barriers";

/// So many open barriers are looked at by one sweep; the next one goes on behind them.
const LOOKED_AT: i32 = 50;
/// So many findings are remembered, so that each is alarmed about once.
const REMEMBERED: usize = 1_000;

/// Where the rounds have got to, and what was alarmed about.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Rounds(Mutex<Rounded>);

#[derive(Debug, Default)]
struct Rounded {
    after: i64,
    alarmed: HashSet<(i64, u32, String)>,
}

#[derive(Debug, Deserialize)]
struct Found {
    no: i64,
    tenant: String,
    id: String,
    incarnation: String,
    epoch: u32,
    finding: Option<String>,
}

impl Rounds {
    /// A sweep. Answers how many rows were deleted.
    pub(in crate::postgres) async fn sweep(&self, store: &PostgresStore, rows: u32) -> Result<u64> {
        let mut counter = Counter { store, doing: DOING };
        let rows = i32::try_from(rows).unwrap_or(i32::MAX);
        let params = vec![Param::Int(Some(rows))];
        let gone: u64 = counter.ask(Call { text: sql::BARRIER_SWEEP, params }).await?;
        let after = self.0.lock().unwrap_or_else(PoisonError::into_inner).after;
        let params = vec![Param::Long(after), Param::Int(Some(LOOKED_AT))];
        let found: Vec<Found> = counter.ask(Call { text: sql::BARRIER_FINDINGS, params }).await?;
        let full = found.len() >= usize::try_from(LOOKED_AT).unwrap_or(0);
        let next = found.last().filter(|_| full).map_or(0, |last| last.no);
        for one in found {
            if let Some(finding) = one.finding.clone() {
                self.alarm(&one, &finding);
                mend(store, &mut counter, &one, &finding).await?;
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).after = next;
        Ok(gone)
    }

    fn alarm(&self, found: &Found, finding: &str) {
        let mut rounded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rounded.alarmed.len() >= REMEMBERED {
            rounded.alarmed.clear();
        }
        if rounded.alarmed.insert((found.no, found.epoch, finding.to_owned())) {
            let Found { tenant, id, epoch, .. } = found;
            tracing::error!(
                barrier = %id, %tenant, epoch, finding,
                "a barrier stood still and is set going again"
            );
        }
    }
}

async fn mend(
    store: &PostgresStore,
    counter: &mut Counter<'_>,
    found: &Found,
    finding: &str,
) -> Result<()> {
    let act = match finding {
        "deadline" | "closing" => ErrandAct::Deadline,
        "first_failure" => ErrandAct::FirstFailure,
        _ => {
            let params = vec![Param::Long(found.no)];
            let _: String = counter.ask(Call { text: sql::BARRIER_MEND, params }).await?;
            return Ok(());
        }
    };
    let id = BarrierId::of_tenant(found.tenant.as_str(), found.id.as_str())?;
    let errand = Errand {
        tenant: id.tenant().to_owned(),
        barrier: id.id().to_owned(),
        incarnation: found.incarnation.clone(),
        epoch: found.epoch,
        act,
    };
    close::run(store, &errand).await.map(drop)
}
