//! What the algorithm asks of a store, on maps.

use std::ops::Bound;

use super::books::{Kept, Row, Session};
use crate::barrier::plain::{Found, GroupTally, Header, Headers, Members, Resolution, Tallies};
use crate::barrier::{BarrierId, Json, Member, MemberName, Outcome, Page, Which};
use crate::error::{Error, Result};
use crate::memory::state::Pair;
use crate::memory::transaction::MemoryTransaction;
use crate::message::Message;
use crate::outbox::Transaction;
use crate::time::Timestamp;

/// A transaction while it is about barriers.
pub(super) struct Ledger<'a> {
    pub(super) transaction: &'a mut MemoryTransaction,
    pub(super) session: Session,
}

impl Ledger<'_> {
    fn kept(&self, no: i64) -> Option<&Kept> {
        self.session.books().barriers.get(&no)
    }

    /// Gives rows another state, and keeps the counts right; says for each row whether it was changed.
    fn change(
        &mut self,
        no: i64,
        names: &[MemberName],
        mut change: impl FnMut(usize, &Row) -> Option<Row>,
    ) -> Vec<bool> {
        let Some(mut tallies) = self.kept(no).map(|kept| kept.tallies.clone()) else {
            return vec![false; names.len()];
        };
        let mut changed = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let before = self.kept(no).and_then(|kept| kept.members.get(name));
            let Some((before, after)) =
                before.and_then(|row| Some((row.clone(), change(index, row)?)))
            else {
                changed.push(false);
                continue;
            };
            let group = tallies.groups.entry(after.group.clone()).or_default();
            let out = count(group, &before.found);
            *out = out.saturating_sub(1);
            *count(group, &after.found) += 1;
            if let Some((_, at, _)) = &after.found.resolved {
                tallies.last_ack_at = tallies.last_ack_at.max(Some(*at));
            }
            self.session.set_member(no, name, Some(after));
            changed.push(true);
        }
        self.session.set_tallies(no, tallies);
        changed
    }
}

fn count<'a>(group: &'a mut GroupTally, found: &Found) -> &'a mut u64 {
    match &found.resolved {
        Some((outcome, _, _)) if outcome.is_ok() => &mut group.ok,
        Some(_) => &mut group.failed,
        None if found.missing => &mut group.missing,
        None => &mut group.pending,
    }
}

fn all(changed: &[bool]) -> u64 {
    changed.iter().filter(|changed| **changed).count() as u64
}

impl Headers for Ledger<'_> {
    type Error = Error;

    async fn now(&mut self) -> Result<Timestamp> {
        Ok(self.transaction.shared.now())
    }

    async fn header(&mut self, id: &BarrierId) -> Result<Option<Header>> {
        Ok(self.session.books().last(id).map(|kept| kept.header.clone()))
    }

    async fn insert(&mut self, header: &Header, state: Option<&Json>) -> Result<i64> {
        Ok(self.session.insert(header, state))
    }

    async fn update(&mut self, header: &Header) -> Result<()> {
        self.session.update(header);
        Ok(())
    }

    async fn state_value(&mut self, no: i64) -> Result<Option<Json>> {
        Ok(self.kept(no).and_then(|kept| kept.state.clone()))
    }

    async fn send(&mut self, message: &Message) -> Result<()> {
        self.transaction.append(std::slice::from_ref(message)).await
    }

    async fn stands(&mut self, source: &str, id: &str) -> Result<bool> {
        let state = self.transaction.shared.lock();
        let pair = state.pairs.get(&(id.to_owned(), source.to_owned()));
        Ok(match pair {
            Some(Pair::Claimed(by)) => *by == self.transaction.token,
            Some(Pair::Kept { seq, .. }) => seq.is_some(),
            None => false,
        })
    }

    fn unexpected(error: Error) -> Error {
        error
    }
}

impl Members for Ledger<'_> {
    async fn tallies(&mut self, no: i64) -> Result<Tallies> {
        Ok(self.kept(no).map(|kept| kept.tallies.clone()).unwrap_or_default())
    }

    async fn add(&mut self, no: i64, members: &[Member]) -> Result<u64> {
        let mut tallies = self.tallies(no).await?;
        let mut added = 0;
        for member in members {
            if self.kept(no).is_none_or(|kept| kept.members.contains_key(&member.name)) {
                continue;
            }
            tallies.groups.entry(member.group.clone()).or_default().pending += 1;
            let row = Row {
                group: member.group.clone(),
                found: Found { resolved: None, missing: false },
            };
            self.session.set_member(no, &member.name, Some(row));
            added += 1;
        }
        self.session.set_tallies(no, tallies);
        Ok(added)
    }

    async fn find(&mut self, no: i64, names: &[MemberName]) -> Result<Vec<Option<Found>>> {
        let found = |name| self.kept(no)?.members.get(name).map(|row| row.found.clone());
        Ok(names.iter().map(found).collect())
    }

    async fn resolve(
        &mut self,
        no: i64,
        resolutions: &[Resolution<'_>],
        at: Timestamp,
        channel: &str,
    ) -> Result<Vec<bool>> {
        let names: Vec<MemberName> =
            resolutions.iter().map(|resolution| resolution.member.clone()).collect();
        Ok(self.change(no, &names, |index, row| {
            let is_pending = row.found.resolved.is_none() && !row.found.missing;
            is_pending.then(|| {
                let outcome = Outcome::decode(resolutions[index].encoded);
                let resolved = Some((outcome, at, channel.to_owned()));
                Row { found: Found { resolved, missing: false }, ..row.clone() }
            })
        }))
    }

    async fn give_up(&mut self, no: i64) -> Result<u64> {
        let pending: Option<Vec<_>> =
            self.kept(no).map(|kept| kept.pending.iter().cloned().collect());
        let given_up = self.change(no, &pending.unwrap_or_default(), |_, row| {
            Some(Row { found: Found { resolved: None, missing: true }, ..row.clone() })
        });
        Ok(all(&given_up))
    }

    async fn reopen(&mut self, no: i64, names: Option<&[MemberName]>) -> Result<u64> {
        let names = match names {
            Some(names) => names.to_vec(),
            None => {
                self.kept(no).map(|kept| kept.members.keys().cloned().collect()).unwrap_or_default()
            }
        };
        let reopened = self.change(no, &names, |_, row| {
            let failed = row.found.resolved.as_ref().is_some_and(|(outcome, ..)| !outcome.is_ok());
            (failed || row.found.missing)
                .then(|| Row { found: Found { resolved: None, missing: false }, ..row.clone() })
        });
        Ok(all(&reopened))
    }

    async fn any_pending(&mut self, no: i64) -> Result<bool> {
        Ok(self.kept(no).is_some_and(|kept| !kept.pending.is_empty()))
    }

    async fn names(
        &mut self,
        no: i64,
        pending: bool,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Vec<MemberName>> {
        let Some(kept) = self.kept(no) else { return Ok(Vec::new()) };
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(if pending {
            kept.pending.range::<MemberName, _>(from).take(limit).cloned().collect()
        } else {
            kept.members
                .range::<MemberName, _>(from)
                .take(limit)
                .map(|(name, _)| name.clone())
                .collect()
        })
    }

    async fn resolved_since(&mut self, no: i64, after: Timestamp) -> Result<u64> {
        let Some(kept) = self.kept(no) else { return Ok(0) };
        let since = |row: &&Row| row.found.resolved.as_ref().is_some_and(|(_, at, _)| *at > after);
        Ok(kept.members.values().filter(since).collect::<Vec<_>>().len() as u64)
    }
}

/// Members of one kind in the order of their names.
pub(super) fn page(kept: &Kept, page: &Page, limit: usize) -> Vec<(MemberName, Found)> {
    if let Some(name) = &page.only {
        let row = kept.members.get(name);
        return row.map(|row| (name.clone(), row.found.clone())).into_iter().collect();
    }
    let from = (page.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
    if page.which == Which::Pending {
        let names = kept.pending.range::<MemberName, _>(from).take(limit);
        let found = Found { resolved: None, missing: false };
        return names.map(|name| (name.clone(), found.clone())).collect();
    }
    let is_meant = |found: &Found| match page.which {
        Which::Resolved => found.resolved.is_some(),
        Which::Failed => found.resolved.as_ref().is_some_and(|(outcome, ..)| !outcome.is_ok()),
        Which::Missing => found.missing,
        Which::Pending => false,
    };
    kept.members
        .range::<MemberName, _>(from)
        .filter(|(_, row)| is_meant(&row.found))
        .take(limit)
        .map(|(name, row)| (name.clone(), row.found.clone()))
        .collect()
}
