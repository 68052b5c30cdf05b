//! A header as a row.

use sendoff_core::Result;
use sendoff_core::barrier::plain::Header;
use sendoff_core::barrier::{
    BarrierId, BarrierState, Json, OnDeadline, Parent, Policy, Probe, Reason,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::statements::{Fields, Value, odd};

pub(super) fn read(row: &mut Fields) -> Result<Header> {
    Ok(Header {
        no: row.integer()?,
        id: BarrierId::of_tenant(row.text()?, row.text()?)?,
        incarnation: row.text()?,
        epoch: u32::try_from(row.integer()?).map_err(|_| odd("the epoch is none"))?,
        state: BarrierState::from_word(&row.text()?).ok_or_else(|| odd("the state is none"))?,
        reason: row.maybe_text()?.as_deref().and_then(Reason::from_word),
        sealed: row.bool()?,
        digest: row.text()?,
        continue_with: row.maybe_text()?,
        policy: decode::<Policy>("policy", &row.text()?)?,
        deadline_at: row.maybe_time()?,
        on_deadline: match row.text()?.as_str() {
            CONTINUE => OnDeadline::Continue,
            _ => OnDeadline::Mark,
        },
        parent: parent(row.maybe_text()?, row)?,
        probe: row.maybe_text()?.map(|probe| decode::<Probe>("probe", &probe)).transpose()?,
        created_at: row.time()?,
        completed_at: row.maybe_time()?,
        expires_at: row.time()?,
        continuation_id: row.maybe_text()?,
    })
}

const CONTINUE: &str = "continue";
const MARK: &str = "mark";

fn parent(id: Option<String>, row: &mut Fields) -> Result<Option<Parent>> {
    let member = row.maybe_name()?;
    Ok(id.zip(member).map(|(id, member)| Parent { id, member }))
}

/// The values of the statement that inserts it.
pub(super) fn values(header: &Header, state: Option<&Json>) -> Result<Vec<Value>> {
    let parent = header.parent.as_ref();
    Ok(vec![
        Value::text(header.id.tenant()),
        Value::text(header.id.id()),
        Value::text(&header.incarnation),
        Value::Integer(i64::from(header.epoch)),
        Value::text(header.state.as_str()),
        Value::maybe(header.reason.map(Reason::as_str)),
        Value::bool(header.sealed),
        Value::text(&header.digest),
        Value::maybe(header.continue_with.as_deref()),
        Value::Text(encode("policy", &header.policy)?),
        Value::maybe_time(header.deadline_at),
        Value::text(if header.on_deadline == OnDeadline::Continue { CONTINUE } else { MARK }),
        Value::maybe(parent.map(|parent| parent.id.as_str())),
        parent.map_or(Value::Null, |parent| Value::Blob(parent.member.as_bytes().to_vec())),
        match &header.probe {
            Some(probe) => Value::Text(encode("probe", probe)?),
            None => Value::Null,
        },
        Value::time(header.created_at),
        Value::maybe_time(header.completed_at),
        Value::time(header.expires_at),
        Value::maybe(header.continuation_id.as_deref()),
        Value::maybe(state.map(Json::as_str)),
    ])
}

/// The values of the statement that updates it.
pub(super) fn changes(header: &Header) -> Vec<Value> {
    vec![
        Value::Integer(header.no),
        Value::Integer(i64::from(header.epoch)),
        Value::text(header.state.as_str()),
        Value::maybe(header.reason.map(Reason::as_str)),
        Value::bool(header.sealed),
        Value::maybe_time(header.deadline_at),
        Value::maybe_time(header.completed_at),
        Value::time(header.expires_at),
        Value::maybe(header.continuation_id.as_deref()),
    ]
}

pub(super) fn decode<T: DeserializeOwned>(what: &str, json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| odd(format!("the {what} does not decode: {error}")))
}

pub(super) fn encode(what: &str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| odd(format!("the {what} does not encode: {error}")))
}
