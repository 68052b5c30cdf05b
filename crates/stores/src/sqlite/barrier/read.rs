//! Pages of members, evidence, lists.

use sendoff_core::Result;
use sendoff_core::barrier::plain;
use sendoff_core::barrier::{
    BarrierId, Evidence, EvidenceKind, MemberOutcome, Outcome, Outcomes, Page, Status, Which,
};

use super::header::decode;
use super::ledger::{Ledger, from};
use super::statements::{Fields, Statements, Value, odd};
use crate::sqlite::sql::barrier as on;

/// The most members of a page, and barriers of a list.
const PAGE_MAX: u32 = 1_000;

pub(super) async fn outcomes<S: Statements>(
    ledger: &mut Ledger<S>,
    page: &Page,
) -> Result<Option<Outcomes>, S::Error> {
    let Some(header) = plain::readable(ledger, &page.id).await? else { return Ok(None) };
    let (sql, name) = match (&page.only, page.which) {
        (Some(name), _) => (on::PAGE_ONLY, Some(name)),
        (None, Which::Resolved) => (on::PAGE_RESOLVED, page.after.as_ref()),
        (None, Which::Failed) => (on::PAGE_FAILED, page.after.as_ref()),
        (None, Which::Missing) => (on::PAGE_MISSING, page.after.as_ref()),
        (None, Which::Pending) => (on::PAGE_PENDING, page.after.as_ref()),
    };
    let limit = page.limit.clamp(1, PAGE_MAX);
    let values = vec![Value::Integer(header.no), from(name), Value::Integer(i64::from(limit))];
    let rows = ledger.0.query(sql, values).await?.into_iter();
    let members: Vec<MemberOutcome> =
        rows.map(|mut row| member(&mut row)).collect::<Result<_>>().map_err(S::unexpected)?;
    let is_full =
        page.only.is_none() && u32::try_from(members.len()).is_ok_and(|count| count >= limit);
    let next_after = is_full.then(|| members.last().map(|last| last.member.clone())).flatten();
    Ok(Some(Outcomes { members, next_after }))
}

fn member(row: &mut Fields) -> Result<MemberOutcome> {
    Ok(MemberOutcome {
        member: row.name()?,
        at: row.maybe_time()?,
        outcome: row.maybe_text()?.map(|outcome| Outcome::decode(&outcome)),
        channel: row.maybe_text()?.unwrap_or_default(),
    })
}

pub(super) async fn evidence<S: Statements>(
    ledger: &mut Ledger<S>,
    id: &BarrierId,
) -> Result<Vec<Evidence>, S::Error> {
    let values = vec![Value::text(id.tenant()), Value::text(id.id())];
    let rows = ledger.0.query(on::EVIDENCE, values).await?.into_iter();
    rows.map(|mut row| {
        Ok(Evidence {
            at: row.time()?,
            kind: match row.text()?.as_str() {
                UNKNOWN => EvidenceKind::Unknown,
                LATE => EvidenceKind::Late,
                _ => return Err(odd("the kind of an evidence is none")),
            },
            member: row.name()?,
            near: decode("evidence", &row.text()?)?,
            ok: row.bool()?,
            channel: row.text()?,
        })
    })
    .collect::<Result<_>>()
    .map_err(S::unexpected)
}

const UNKNOWN: &str = "unknown";
const LATE: &str = "late";

pub(super) fn word(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Unknown => UNKNOWN,
        EvidenceKind::Late => LATE,
    }
}

pub(super) async fn list<S: Statements>(
    ledger: &mut Ledger<S>,
    tenant: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Status>, S::Error> {
    let limit = Value::Integer(i64::from(limit.min(PAGE_MAX)));
    let values = vec![Value::text(tenant), Value::text(after.unwrap_or_default()), limit];
    let mut list = Vec::new();
    for mut row in ledger.0.query(on::LIST, values).await? {
        let id = row.text().and_then(|id| BarrierId::of_tenant(tenant, id));
        list.extend(plain::status(ledger, &id.map_err(S::unexpected)?).await?);
    }
    Ok(list)
}
