//! Near misses: which members an unknown name may have meant, by bounded work.

use std::collections::{HashMap, HashSet};

use super::{Header, Members};
use crate::barrier::name::MemberName;
use crate::barrier::near::near_forms;
use crate::barrier::refusal::{Refusal, RefusalCode};
use crate::error::Result;

/// How many members are looked through for near names, in one call.
const SCANNED_MAX: u32 = 20_000;
/// How many of them are read at once.
const SCAN_PAGE: u32 = 1_000;
/// How many near names a refusal has.
const NEAR_MAX: usize = 5;

/// An acknowledgement whose name is not on the list.
pub(super) struct Unknown<'a> {
    pub(super) index: usize,
    pub(super) name: &'a MemberName,
}

/// The refusals of unknown names, with the members that they may have meant.
pub(super) async fn refusals<M: Members>(
    m: &mut M,
    header: &Header,
    unknown: &[Unknown<'_>],
) -> Result<Vec<(usize, Refusal)>, M::Error> {
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    let near = near_of(m, header.no, unknown).await?;
    Ok(unknown
        .iter()
        .zip(near)
        .map(|(unknown, near)| {
            let detail = format!("the barrier {} has no member {:?}", header.id, unknown.name);
            (unknown.index, Refusal::new(RefusalCode::UnknownMember, detail).with_near(near))
        })
        .collect())
}

async fn near_of<M: Members>(
    m: &mut M,
    no: i64,
    unknown: &[Unknown<'_>],
) -> Result<Vec<Vec<MemberName>>, M::Error> {
    let mut near: Vec<Vec<MemberName>> = vec![Vec::new(); unknown.len()];
    // The cheap ones first: a name that is itself the plain form of what came.
    let mut wanted: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (index, unknown) in unknown.iter().enumerate() {
        for form in near_forms(unknown.name.as_bytes()) {
            wanted.entry(form).or_default().push(index);
        }
    }
    let plain: Vec<MemberName> =
        wanted.keys().filter_map(|form| MemberName::new(form).ok()).collect();
    let found = m.find(no, &plain).await?;
    for (name, _) in plain.iter().zip(found).filter(|(_, found)| found.is_some()) {
        for index in wanted.get(name.as_bytes()).into_iter().flatten() {
            near[*index].push(name.clone());
        }
    }
    if near.iter().all(|near| !near.is_empty()) {
        return Ok(near);
    }
    let (mut after, mut scanned) = (None, 0);
    while scanned < SCANNED_MAX {
        let names = m.names(no, false, after.as_ref(), SCAN_PAGE).await?;
        for name in &names {
            let forms = near_forms(name.as_bytes());
            let meant: HashSet<usize> =
                forms.iter().filter_map(|form| wanted.get(form)).flatten().copied().collect();
            for index in meant {
                if near[index].len() < NEAR_MAX && !near[index].contains(name) {
                    near[index].push(name.clone());
                }
            }
        }
        scanned += SCAN_PAGE;
        after = names.last().cloned();
        if u32::try_from(names.len()).unwrap_or(SCAN_PAGE) < SCAN_PAGE {
            break;
        }
    }
    Ok(near)
}
