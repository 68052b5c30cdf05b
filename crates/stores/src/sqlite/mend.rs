//! Requeue and discard: quarantined messages, a page in each transaction.
//!
//! What does not belong here: what is shown of the quarantine. See `desk.rs`.

use std::collections::BTreeSet;

use rusqlite::Connection;
use sendoff_core::store::{Mended, Which};

use super::error::Failure;
use super::settle::HeldKey;
use super::sql;
use super::worker::Session;

/// How many messages one transaction mends, so that it stays short.
const PAGE_ROWS: usize = 1_000;

/// What to do with the messages that were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mend {
    Requeue,
    Discard,
}

/// Mends a page of messages above `after`; gives where the next page begins, if there may be one.
pub(super) fn page(
    session: &Session<'_>,
    which: &Which,
    mend: Mend,
    after: i64,
) -> Result<(Mended, Option<i64>), Failure> {
    session.write(|tx| {
        let now = Session::now(tx)?;
        let chosen = choose(tx, which, after)?;
        let mut mended = Mended::default();
        let mut keys = BTreeSet::new();
        for (seq, key) in &chosen {
            let rows = match mend {
                Mend::Requeue => tx.prepare_cached(sql::REQUEUE)?.execute((seq, now))?,
                Mend::Discard => tx.prepare_cached(sql::DISCARD)?.execute([seq])?,
            };
            mended.messages += u64::try_from(rows).unwrap_or(0);
            keys.extend(key.as_deref());
        }
        // A requeued message still is what its key waits for.
        if mend == Mend::Discard {
            for key in keys {
                let held = HeldKey::of(tx, key)?;
                mended.released += held.stuck(tx)?;
                held.promote(tx, now)?;
            }
        }
        let next =
            (chosen.len() == PAGE_ROWS).then(|| chosen.last().map(|(seq, _)| *seq)).flatten();
        Ok((mended, next))
    })
}

/// A row's seq and key. A key is bytes here: another program can have stored text that is not UTF-8.
type Chosen = (i64, Option<Vec<u8>>);

fn choose(tx: &Connection, which: &Which, after: i64) -> Result<Vec<Chosen>, Failure> {
    let (sql, third, fourth) = match which {
        Which::All => (sql::CHOSEN_ALL, None, None),
        Which::Reason(reason) => (sql::CHOSEN_BY_REASON, Some(reason.as_str()), None),
        Which::Id { id, source } => (sql::CHOSEN_BY_ID, Some(id.as_str()), source.as_deref()),
    };
    let mut chosen = tx.prepare_cached(sql)?;
    let chosen = chosen
        .query_map((after, PAGE_ROWS, third, fourth), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(chosen)
}
