//! What goes once its week is over, and what cannot be.

use crate::barrier::{BarrierId, BarrierState, plain};
use crate::error::Result;
use crate::memory::state::Pair;
use crate::memory::store::{MemoryStore, Shared};

impl MemoryStore {
    /// Removes at most `rows_max` members of barriers whose week is over, and headers that have none
    /// left; looks after the open ones. A transaction that holds the barriers is not waited for.
    /// Answers how many members went.
    pub(in crate::memory) async fn sweep_barriers(&self, rows_max: u32) -> Result<u64> {
        let (swept, stuck) = self.shared.sweep_barriers(rows_max);
        for id in stuck {
            let mut transaction = self.begin();
            let mut ledger = transaction.ledger().await?;
            let marks = ledger.marks();
            let done = plain::mend(&mut ledger, &id).await;
            ledger.end(marks, done)?;
            transaction.commit().await?;
        }
        Ok(swept)
    }
}

impl Shared {
    fn sweep_barriers(&self, rows_max: u32) -> (u64, Vec<BarrierId>) {
        let Ok(mut books) = self.barriers.try_lock() else { return (0, Vec::new()) };
        let (now, state) = (self.now(), self.lock());
        let books = &mut *books;
        let (mut swept, mut empty, mut stuck) = (0, Vec::new(), Vec::new());
        for (no, kept) in &mut books.barriers {
            let header = &kept.header;
            let stands = header.continuation_id.as_ref().is_some_and(|id| {
                let pair = (id.clone(), crate::barrier::Continuation::SOURCE.to_owned());
                matches!(state.pairs.get(&pair), Some(Pair::Kept { seq: Some(_), .. }))
            });
            let is_last = books.ids.get(&header.id) == Some(no);
            if !is_last || (header.expires_at <= now && !stands) {
                while swept < u64::from(rows_max) && kept.members.pop_first().is_some() {
                    swept += 1;
                }
                if kept.members.is_empty() {
                    empty.push(*no);
                }
            } else if header.state == BarrierState::Open && header.sealed && kept.pending.is_empty()
            {
                stuck.push(header.id.clone());
            }
        }
        for no in empty {
            if let Some(kept) = books.barriers.remove(&no)
                && books.ids.get(&kept.header.id) == Some(&no)
            {
                books.ids.remove(&kept.header.id);
            }
        }
        (swept, stuck)
    }
}
