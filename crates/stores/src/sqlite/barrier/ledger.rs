//! What the algorithm asks of a store, as statements.

use std::collections::{BTreeMap, HashMap};

use sendoff_core::barrier::plain::{
    Found, GroupTally, Header, Headers, Members, Resolution, Tallies,
};
use sendoff_core::barrier::{BarrierId, Json, Member, MemberName, Outcome};
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, Message, Result};

use super::header;
use super::statements::{Fields, Statements, Value, odd};
use crate::sqlite::sql::{self, barrier as on};

/// How many names, and about how many bytes, go into one statement.
const CHUNK_NAMES: usize = 1_000;
const CHUNK_BYTES: usize = 1 << 20;

/// A transaction's connection, while it is about barriers.
pub(super) struct Ledger<S>(pub(super) S);

/// By how much a group's counts change.
#[derive(Default)]
struct Delta {
    pending: i64,
    ok: i64,
    failed: i64,
    missing: i64,
}

impl<S: Statements> Ledger<S> {
    async fn query(
        &mut self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<Fields>, S::Error> {
        self.0.query(sql, values).await
    }

    async fn one(
        &mut self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Option<Fields>, S::Error> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    async fn is(&mut self, sql: &'static str, values: Vec<Value>) -> Result<bool, S::Error> {
        match self.one(sql, values).await? {
            Some(mut row) => row.bool().map_err(S::unexpected),
            None => Ok(false),
        }
    }

    async fn count(
        &mut self,
        no: i64,
        groups: BTreeMap<String, Delta>,
        ack_at: Option<Timestamp>,
    ) -> Result<(), S::Error> {
        for (group, delta) in groups {
            let values = vec![
                Value::Integer(no),
                Value::Text(group),
                Value::Integer(delta.pending),
                Value::Integer(delta.ok),
                Value::Integer(delta.failed),
                Value::Integer(delta.missing),
                Value::maybe_time(ack_at),
            ];
            self.0.execute(on::COUNT, values).await?;
        }
        Ok(())
    }

    /// The rows with these names; those that are there.
    async fn rows(
        &mut self,
        no: i64,
        names: &[MemberName],
    ) -> Result<HashMap<MemberName, (String, Found)>, S::Error> {
        let mut rows = HashMap::with_capacity(names.len());
        for chunk in names.chunks(CHUNK_NAMES) {
            let values = vec![Value::Integer(no), Value::Text(hex_list(chunk.iter()))];
            for mut row in self.query(on::FIND, values).await? {
                let (name, group, found) = found(&mut row).map_err(S::unexpected)?;
                rows.insert(name, (group, found));
            }
        }
        Ok(rows)
    }

    async fn resolve_chunk(
        &mut self,
        no: i64,
        resolutions: &[Resolution<'_>],
        at: Timestamp,
        channel: &str,
    ) -> Result<Vec<Fields>, S::Error> {
        if let [one] = resolutions {
            let values = vec![
                Value::Integer(no),
                Value::Blob(one.member.as_bytes().to_vec()),
                Value::time(at),
                Value::text(channel),
                Value::bool(one.ok),
                Value::text(one.encoded),
            ];
            return self.query(on::RESOLVE_ONE, values).await;
        }
        let list: Vec<(String, u8, &str)> = resolutions
            .iter()
            .map(|one| (hex(one.member.as_bytes()), u8::from(one.ok), one.encoded))
            .collect();
        let list = header::encode("batch", &list).map_err(S::unexpected)?;
        let values =
            vec![Value::Integer(no), Value::Text(list), Value::time(at), Value::text(channel)];
        self.query(on::RESOLVE, values).await
    }
}

impl<S: Statements> Headers for Ledger<S> {
    type Error = S::Error;

    async fn now(&mut self) -> Result<Timestamp, S::Error> {
        match self.one(sql::NOW, Vec::new()).await? {
            Some(mut row) => row.time().map_err(S::unexpected),
            None => Err(S::unexpected(odd("the clock says nothing"))),
        }
    }

    async fn header(&mut self, id: &BarrierId) -> Result<Option<Header>, S::Error> {
        let values = vec![Value::text(id.tenant()), Value::text(id.id())];
        let row = self.one(on::HEADER, values).await?;
        row.map(|mut row| header::read(&mut row)).transpose().map_err(S::unexpected)
    }

    async fn insert(&mut self, header: &Header, state: Option<&Json>) -> Result<i64, S::Error> {
        let values = vec![Value::text(header.id.tenant()), Value::text(header.id.id())];
        self.0.execute(on::STEP_ASIDE, values).await?;
        let values = header::values(header, state).map_err(S::unexpected)?;
        match self.one(on::INSERT, values).await? {
            Some(mut row) => row.integer().map_err(S::unexpected),
            None => Err(S::unexpected(odd("the header was not written"))),
        }
    }

    async fn update(&mut self, header: &Header) -> Result<(), S::Error> {
        self.0.execute(on::UPDATE, header::changes(header)).await.map(drop)
    }

    async fn state_value(&mut self, no: i64) -> Result<Option<Json>, S::Error> {
        let Some(mut row) = self.one(on::STATE_VALUE, vec![Value::Integer(no)]).await? else {
            return Ok(None);
        };
        row.maybe_text().and_then(|text| text.map(Json::parse).transpose()).map_err(S::unexpected)
    }

    async fn send(&mut self, message: &Message) -> Result<(), S::Error> {
        let values = vec![
            Value::text(message.id()),
            Value::text(message.source()),
            Value::text(message.topic()),
            Value::maybe(message.key()),
            Value::Text(message.headers().to_json()),
            Value::Blob(message.body().to_vec()),
            Value::maybe_time(message.due_at()),
        ];
        self.0.execute(sql::INSERT_SQL, values).await.map(drop)
    }

    async fn stands(&mut self, source: &str, id: &str) -> Result<bool, S::Error> {
        self.is(on::STANDS, vec![Value::text(source), Value::text(id)]).await
    }

    fn unexpected(error: Error) -> S::Error {
        S::unexpected(error)
    }
}

impl<S: Statements> Members for Ledger<S> {
    async fn tallies(&mut self, no: i64) -> Result<Tallies, S::Error> {
        let mut tallies = Tallies::default();
        for mut row in self.query(on::TALLIES, vec![Value::Integer(no)]).await? {
            let mut read = || -> Result<()> {
                let group = row.text()?;
                let tally = GroupTally {
                    pending: row.count()?,
                    ok: row.count()?,
                    failed: row.count()?,
                    missing: row.count()?,
                };
                tallies.groups.insert(group, tally);
                tallies.last_ack_at = tallies.last_ack_at.max(row.maybe_time()?);
                Ok(())
            };
            read().map_err(S::unexpected)?;
        }
        Ok(tallies)
    }

    async fn add(&mut self, no: i64, members: &[Member]) -> Result<u64, S::Error> {
        let mut groups: BTreeMap<&str, Vec<&MemberName>> = BTreeMap::new();
        for member in members {
            groups.entry(&member.group).or_default().push(&member.name);
        }
        let (mut all, mut deltas) = (0, BTreeMap::new());
        for (group, mut names) in groups {
            // In order: the rows then come to stand side by side.
            names.sort_unstable();
            let mut added = 0;
            for chunk in names.chunks(CHUNK_NAMES) {
                let list = Value::Text(hex_list(chunk.iter().copied()));
                let values = vec![Value::Integer(no), list, Value::text(group)];
                added += self.0.execute(on::ADD, values).await?;
            }
            let delta = Delta { pending: signed(added), ..Delta::default() };
            deltas.insert(group.to_owned(), delta);
            all += added;
        }
        self.count(no, deltas, None).await?;
        Ok(all)
    }

    async fn find(
        &mut self,
        no: i64,
        names: &[MemberName],
    ) -> Result<Vec<Option<Found>>, S::Error> {
        let mut rows = self.rows(no, names).await?;
        Ok(names.iter().map(|name| rows.remove(name).map(|(_, found)| found)).collect())
    }

    async fn resolve(
        &mut self,
        no: i64,
        resolutions: &[Resolution<'_>],
        at: Timestamp,
        channel: &str,
    ) -> Result<Vec<bool>, S::Error> {
        let mut resolved: HashMap<MemberName, ()> = HashMap::with_capacity(resolutions.len());
        let mut deltas: BTreeMap<String, Delta> = BTreeMap::new();
        let mut rest = resolutions;
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at(chunk_end(rest));
            rest = behind;
            for mut row in self.resolve_chunk(no, chunk, at, channel).await? {
                let mut read = || -> Result<()> {
                    resolved.insert(row.name()?, ());
                    let delta = deltas.entry(row.text()?).or_default();
                    delta.pending -= 1;
                    *(if row.bool()? { &mut delta.ok } else { &mut delta.failed }) += 1;
                    Ok(())
                };
                read().map_err(S::unexpected)?;
            }
        }
        self.count(no, deltas, Some(at)).await?;
        Ok(resolutions.iter().map(|one| resolved.contains_key(one.member)).collect())
    }

    async fn give_up(&mut self, no: i64) -> Result<u64, S::Error> {
        self.0.execute(on::COUNT_GIVEN_UP, vec![Value::Integer(no)]).await?;
        self.0.execute(on::GIVE_UP, vec![Value::Integer(no)]).await
    }

    async fn reopen(&mut self, no: i64, names: Option<&[MemberName]>) -> Result<u64, S::Error> {
        let Some(names) = names else {
            self.0.execute(on::COUNT_REOPENED, vec![Value::Integer(no)]).await?;
            return self.0.execute(on::REOPEN_ALL, vec![Value::Integer(no)]).await;
        };
        let mut deltas: BTreeMap<String, Delta> = BTreeMap::new();
        for (group, found) in self.rows(no, names).await?.into_values() {
            let delta = deltas.entry(group).or_default();
            match &found.resolved {
                Some((outcome, ..)) if outcome.is_ok() => continue,
                Some(_) => delta.failed -= 1,
                None if found.missing => delta.missing -= 1,
                None => continue,
            }
            delta.pending += 1;
        }
        self.count(no, deltas, None).await?;
        let mut reopened = 0;
        for chunk in names.chunks(CHUNK_NAMES) {
            let values = vec![Value::Integer(no), Value::Text(hex_list(chunk.iter()))];
            reopened += self.0.execute(on::REOPEN, values).await?;
        }
        Ok(reopened)
    }

    async fn any_pending(&mut self, no: i64) -> Result<bool, S::Error> {
        self.is(on::ANY_PENDING, vec![Value::Integer(no)]).await
    }

    async fn names(
        &mut self,
        no: i64,
        pending: bool,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Vec<MemberName>, S::Error> {
        let sql = if pending { on::NAMES_PENDING } else { on::NAMES };
        let values = vec![Value::Integer(no), from(after), Value::Integer(i64::from(limit))];
        let rows = self.query(sql, values).await?.into_iter();
        rows.map(|mut row| row.name()).collect::<Result<_>>().map_err(S::unexpected)
    }

    async fn resolved_since(&mut self, no: i64, after: Timestamp) -> Result<u64, S::Error> {
        let row =
            self.one(on::RESOLVED_SINCE, vec![Value::Integer(no), Value::time(after)]).await?;
        row.map_or(Ok(0), |mut row| row.count()).map_err(S::unexpected)
    }
}

/// Where a page begins: no name is empty, so all of them come after the empty one.
pub(super) fn from(after: Option<&MemberName>) -> Value {
    Value::Blob(after.map(|name| name.as_bytes().to_vec()).unwrap_or_default())
}

fn found(row: &mut Fields) -> Result<(MemberName, String, Found)> {
    let (name, group, at) = (row.name()?, row.text()?, row.maybe_time()?);
    let (outcome, channel) = (row.maybe_text()?, row.maybe_text()?);
    let resolved = at
        .map(|at| (Outcome::decode(&outcome.unwrap_or_default()), at, channel.unwrap_or_default()));
    Ok((name, group, Found { resolved, missing: row.bool()? }))
}

/// How many of these go into one statement; one at least.
fn chunk_end(resolutions: &[Resolution<'_>]) -> usize {
    let mut bytes = 0;
    let fits = resolutions.iter().take(CHUNK_NAMES).take_while(|one| {
        bytes += one.encoded.len() + 2 * one.member.as_bytes().len();
        bytes <= CHUNK_BYTES
    });
    fits.count().max(1)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(&mut text, bytes);
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn hex_list<'a>(names: impl Iterator<Item = &'a MemberName>) -> String {
    let mut list = String::from("[");
    for name in names {
        list.push_str(if list.len() == 1 { "\"" } else { ",\"" });
        push_hex(&mut list, name.as_bytes());
        list.push('"');
    }
    list.push(']');
    list
}
