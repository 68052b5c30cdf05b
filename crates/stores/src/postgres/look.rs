//! Looks: which statements are sent, and how their rows are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{OptionFuture, join, join3};
use sendoff_core::lane::Lane;
use sendoff_core::message::{Headers, StoredMessage};
use sendoff_core::store::{Age, AgeFrom, Content, Horizon, Look, Reading, Row, Sight};
use sendoff_core::{Message, Result};
use tokio_postgres::Row as Columns;
use tokio_postgres::types::ToSql;

use super::pool::{Checkout, Pool};
use super::sql;
use super::wire::{Json, Time};

pub(super) const DOING: &str = "reading the outbox";

/// Waiting rows are read from each lane, and nearly all of them given, when the lanes have about as
/// many. This many times the even share are read.
const WAITING_OVERSAMPLING: usize = 4;
/// And at least so many.
const WAITING_LANE_ROWS_MIN: usize = 256;

/// The line of all rows takes this many times the even share of each lane, and at least so many.
const LINE_OVERSAMPLING: usize = 2;
const LINE_LANE_ROWS_MIN: usize = 16;

/// What one look asks, as the statements take it.
struct Asked<'a> {
    lanes: Vec<i16>,
    afters: Vec<i64>,
    known: &'a [i64],
    /// One more than is given: whether it is there says whether something was left out.
    rows: i64,
    lane_rows: i64,
    waiting_rows: i64,
    waiting_lane_rows: i64,
    bytes: i64,
    /// What each of the rows may have of the bytes.
    share: i64,
}

impl<'a> Asked<'a> {
    fn new(look: &'a Look) -> Self {
        let share = look.rows_max.div_ceil(look.lanes.len().max(1));
        let waiting_lane_rows = share
            .saturating_mul(WAITING_OVERSAMPLING)
            .max(WAITING_LANE_ROWS_MIN)
            .min(look.rows_max);
        Self {
            lanes: look.lanes.iter().map(|l| lane_number(l.lane)).collect(),
            afters: look.lanes.iter().map(|l| l.after).collect(),
            known: &look.known,
            rows: number(look.rows_max.saturating_add(1)),
            lane_rows: number(look.lane_rows_max.saturating_add(1)),
            waiting_rows: number(look.rows_max),
            waiting_lane_rows: number(waiting_lane_rows),
            bytes: number(look.bytes_max),
            share: number(look.bytes_max / look.rows_max.max(1)),
        }
    }

    fn ready(&self, by_size: BySize) -> [&(dyn ToSql + Sync); 6] {
        let bytes = match by_size {
            BySize::EvenShares => &self.share,
            BySize::Sums => &self.bytes,
        };
        [&self.lanes, &self.afters, &self.known, &self.rows, &self.lane_rows, bytes]
    }

    fn waiting(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.lanes, &self.known, &self.waiting_rows, &self.waiting_lane_rows, &self.bytes]
    }
}

/// How ready rows are bounded in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BySize {
    /// No row may have more than an even share: told row by row, and good for a usual outbox.
    EvenShares,
    /// The sizes are added up: good for any, at twice the cost.
    Sums,
}

/// Whether the bodies at hand are larger than an even share of a look's bytes. Then the first
/// statement that would be tried is of no use, and is not tried.
#[derive(Debug, Default)]
pub(super) struct Bulk(AtomicBool);

impl Bulk {
    fn by_size(&self) -> BySize {
        if self.0.load(Ordering::Relaxed) { BySize::Sums } else { BySize::EvenShares }
    }

    /// Notes what a look with sums gave; one that gave nothing says nothing.
    fn note(&self, sight: &Sight, share: usize) {
        if !sight.rows.is_empty() {
            let large = sight.rows.iter().any(|row| weight_of(row) > share);
            self.0.store(large, Ordering::Relaxed);
        }
    }
}

pub(super) async fn look(pool: &Pool, bulk: &Bulk, look: &Look) -> Result<Sight> {
    if look.reading == Reading::Line {
        return look_along(pool, look).await;
    }
    let mut checkout = pool.checkout(DOING).await?;
    let asked = Asked::new(look);
    let mut by_size = bulk.by_size();
    let (mut last_seq, mut ready, mut waiting) = ask(&mut checkout, look, &asked, by_size).await?;
    let left_out = |rows: &Vec<Columns>| rows.iter().any(|row| state_of(row) == state::LEFT_OUT);
    if by_size == BySize::EvenShares && ready.as_ref().is_some_and(left_out) {
        // Seen with another snapshot, so with another horizon too: as a whole.
        by_size = BySize::Sums;
        (last_seq, ready, waiting) = ask(&mut checkout, look, &asked, by_size).await?;
    }
    let mut sight = Sight::default();
    let mut weight = 0;
    if let (Some(last_seq), Some(rows)) = (last_seq, ready) {
        weight = read_ready(&mut sight, look, &rows);
        sight.horizon = horizon(&last_seq, &rows);
    }
    if let Some(rows) = waiting {
        read_waiting(&mut sight, look, &rows, weight);
    }
    if look.ready && by_size == BySize::Sums {
        bulk.note(&sight, look.bytes_max / look.rows_max.max(1));
    }
    checkout.keep();
    Ok(sight)
}

/// The line of all rows.
async fn look_along(pool: &Pool, look: &Look) -> Result<Sight> {
    let mut checkout = pool.checkout(DOING).await?;
    let asked = Asked::new(look);
    let last_seq = checkout.statement(sql::LAST_SEQ).await?;
    let line = checkout.statement(sql::LOOK_LINE).await?;
    let even = look.rows_max.div_ceil(look.lanes.len().max(1));
    let lane_rows = number(even.saturating_mul(LINE_OVERSAMPLING).max(LINE_LANE_ROWS_MIN));
    let params: [&(dyn ToSql + Sync); 6] =
        [&asked.lanes, &asked.afters, &asked.known, &asked.waiting_rows, &asked.bytes, &lane_rows];
    let client = checkout.client();
    // Sent, and so run, in this order: see `ask`.
    let asked = async {
        let (last_seq, rows) = join(last_seq.query(client, &[]), line.query(client, &params)).await;
        Ok((last_seq?, rows?))
    };
    let (last_seq, rows) = checkout.alone(asked).await.map_err(|error| checkout.failed(error))?;
    let horizon = last_seq.first().and_then(|last_seq| horizon(last_seq, &rows));
    let mut sight = Sight { horizon, ..Sight::default() };
    let clock = Clock::of(&rows);
    for columns in &rows {
        let mark: Option<i64> = columns.get(2);
        match state_of(columns) {
            state::HEADER => {}
            state::LINE => {
                let (stopped, left) = (columns.get::<_, i64>(1) & 1, columns.get::<_, i64>(1) & 2);
                if stopped > 0 {
                    sight.horizon = None;
                }
                sight.truncated = left > 0;
                sight.next_due_in =
                    mark.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
            }
            state::LEFT_OUT => {
                sight.truncated = true;
                break;
            }
            state => sight.rows.push(read(columns, state, mark.is_some(), clock)),
        }
    }
    checkout.keep();
    Ok(sight)
}

/// Sends all statements at once and waits for all answers: one round trip. The futures are polled,
/// and so the statements are run, in this order: the last seq is read before the snapshot is taken
/// that it is compared with.
async fn ask(
    checkout: &mut Checkout<'_>,
    look: &Look,
    asked: &Asked<'_>,
    by_size: BySize,
) -> Result<(Option<Columns>, Option<Vec<Columns>>, Option<Vec<Columns>>)> {
    let mut last_seq = None;
    let mut ready = None;
    let mut waiting = None;
    if look.ready {
        last_seq = Some(checkout.statement(sql::LAST_SEQ).await?);
        let text = match by_size {
            BySize::EvenShares => sql::LOOK_READY_SMALL,
            BySize::Sums => sql::LOOK_READY,
        };
        ready = Some(checkout.statement(text).await?);
    }
    if look.waiting {
        waiting = Some(checkout.statement(sql::LOOK_WAITING).await?);
    }
    let client = checkout.client();
    let ready_params = asked.ready(by_size);
    let waiting_params = asked.waiting();
    let asked = async {
        let (last_seq, ready, waiting) = join3(
            OptionFuture::from(last_seq.as_ref().map(|s| s.query(client, &[]))),
            OptionFuture::from(ready.as_ref().map(|s| s.query(client, &ready_params))),
            OptionFuture::from(waiting.as_ref().map(|s| s.query(client, &waiting_params))),
        )
        .await;
        let last_seq = last_seq.transpose()?.and_then(|rows| rows.into_iter().next());
        Ok((last_seq, ready.transpose()?, waiting.transpose()?))
    };
    checkout.alone(asked).await.map_err(|error| checkout.failed(error))
}

/// What the states of a row say, as the statements give them.
mod state {
    pub(super) const HEADER: i16 = -1;
    /// The second header of [`super::sql::LOOK_LINE`].
    pub(super) const LINE: i16 = -2;
    pub(super) const BLOCKED: i16 = 1;
    pub(super) const LEFT_OUT: i16 = 2;
}

fn horizon(last_seq: &Columns, rows: &[Columns]) -> Option<Horizon> {
    let header = rows.first().filter(|row| state_of(row) == state::HEADER)?;
    let xid = |column: usize| {
        let xid: Option<i64> = header.get(column);
        u64::try_from(xid.unwrap_or(0)).unwrap_or(0)
    };
    Some(Horizon { seq: last_seq.get(0), oldest: xid(1), next: xid(2) })
}

/// Reads ready rows and answers what they weigh.
fn read_ready(sight: &mut Sight, look: &Look, rows: &[Columns]) -> usize {
    let mut weight = 0;
    let mut lane = None;
    let mut lane_rows = 0;
    sight.rows.reserve(rows.len());
    let clock = Clock::of(rows);
    for columns in rows {
        let state = state_of(columns);
        if state == state::HEADER {
            continue;
        }
        if state == state::LEFT_OUT || sight.rows.len() == look.rows_max {
            sight.truncated = true;
            break;
        }
        let row = read(columns, state, false, clock);
        if lane != Some(row.lane) {
            lane = Some(row.lane);
            lane_rows = 0;
        }
        if lane_rows == look.lane_rows_max {
            sight.truncated = true;
            continue;
        }
        lane_rows += 1;
        weight += weight_of(&row);
        sight.rows.push(row);
    }
    weight
}

/// Reads waiting rows; they share the bytes with the ready ones, who come first.
fn read_waiting(sight: &mut Sight, look: &Look, rows: &[Columns], mut weight: usize) {
    let ready = sight.rows.len();
    let clock = Clock::of(rows);
    for columns in rows {
        let state = state_of(columns);
        if state == state::HEADER {
            let left: Option<i64> = columns.get(1);
            let next_due: Option<i64> = columns.get(2);
            sight.next_due_in = if left.unwrap_or(0) > 0 {
                Some(Duration::ZERO)
            } else {
                next_due.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
            };
            continue;
        }
        let row = read(columns, state, true, clock);
        let row_weight = weight_of(&row);
        let too_heavy = weight + row_weight > look.bytes_max && !sight.rows.is_empty();
        if state == state::LEFT_OUT || too_heavy {
            sight.next_due_in = Some(Duration::ZERO);
            break;
        }
        // The two kinds are read by two statements: a row can have changed its kind in between.
        if sight.rows.iter().take(ready).any(|other| other.seq == row.seq) {
            continue;
        }
        weight += row_weight;
        sight.rows.push(row);
    }
}

/// What a row counts against the byte bound: body and headers.
fn weight_of(row: &Row) -> usize {
    match &row.content {
        Content::Message(message) => message.body().len() + message.headers().size_bytes(),
        Content::Undecodable(_) | Content::Blocked => 0,
    }
}

/// The server's time at a look, and what the rows' times are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    now: Option<Time>,
    from: AgeFrom,
}

impl Clock {
    pub(super) fn of(rows: &[Columns]) -> Self {
        let header = rows.first().filter(|row| state_of(row) == state::HEADER);
        let commits = header.and_then(|row| row.get::<_, Option<bool>>(5)).unwrap_or(false);
        Self {
            now: header.and_then(|row| row.get(13)),
            from: if commits { AgeFrom::Commit } else { AgeFrom::Creation },
        }
    }

    fn age(self, columns: &Columns) -> Age {
        let since: Option<Time> = columns.get(13);
        let micros = match (self.now, since) {
            (Some(now), Some(since)) => now.micros().saturating_sub(since.micros()),
            _ => 0,
        };
        let so_far = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        Age { so_far, from: self.from }
    }
}

fn state_of(columns: &Columns) -> i16 {
    columns.get(0)
}

pub(super) fn read(columns: &Columns, state: i16, waiting: bool, clock: Clock) -> Row {
    let lane: i16 = columns.get(3);
    let attempts: i32 = columns.get(4);
    // A database that is not UTF-8 can hold a key that is none.
    let key = columns.try_get::<_, Option<&str>>(6);
    let content = match (&key, state) {
        (_, state::BLOCKED) => Content::Blocked,
        (Err(_), _) => Content::Undecodable("the key is not UTF-8".to_owned()),
        (Ok(key), _) => match decode(columns, *key) {
            Ok(message) => Content::Message(Arc::new(message)),
            Err(reason) => Content::Undecodable(reason),
        },
    };
    Row {
        seq: columns.get(1),
        lane: Lane(u16::try_from(lane).unwrap_or(0)),
        key: key.ok().flatten().map(Arc::from),
        attempts: u32::try_from(attempts).unwrap_or(0),
        blocker: columns.get(5),
        waiting,
        age: clock.age(columns),
        content,
    }
}

/// The message, or the reason why it is none. The reason quotes no value.
fn decode(columns: &Columns, key: Option<&str>) -> std::result::Result<Message, String> {
    let text = |column: usize, what: &str| {
        columns.try_get::<_, &str>(column).map_err(|_| format!("the {what} is not UTF-8"))
    };
    let Json(headers): Json<&[u8]> =
        columns.try_get(10).map_err(|_| "the headers are not readable".to_owned())?;
    let body: &[u8] = columns.try_get(11).map_err(|_| "the body is not readable".to_owned())?;
    let due_at: Option<Time> =
        columns.try_get(12).map_err(|_| "the due time is not readable".to_owned())?;
    let stored = StoredMessage {
        id: text(7, "id")?,
        source: text(8, "source")?,
        topic: text(9, "topic")?,
        key,
        headers: Headers::from_json(headers).map_err(|error| error.to_string())?,
        body: Bytes::copy_from_slice(body),
        due_at: due_at.map(|Time(due_at)| due_at),
    };
    Message::restore(stored).map_err(|error| error.to_string())
}

pub(super) fn lane_number(lane: Lane) -> i16 {
    i16::try_from(lane.0).unwrap_or(i16::MAX)
}

pub(super) fn number(bound: usize) -> i64 {
    i64::try_from(bound).unwrap_or(i64::MAX)
}
