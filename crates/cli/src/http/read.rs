//! `GET /v1/barriers/{id}` and `GET /v1/barriers/{id}/results`.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use sendoff::barrier::{MemberName, MemberOutcome, Page, Refusal, RefusalCode, Which};
use serde::Serialize;

use super::{Api, Problem, barrier};
use crate::address;
use crate::state::StatusWithState;

/// The most members of a page.
const PAGE_MAX: u32 = 1_000;

/// How a barrier stands.
pub(super) async fn status(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let id = barrier(request.uri().path())?;
    let status = api.0.desk.barrier_status(&id).await?.ok_or_else(|| Refusal::not_found(&id))?;
    Ok(Answer(StatusWithState::from(status)).into_response())
}

/// A page of outcomes.
#[derive(Debug, Serialize)]
struct Results {
    id: String,
    members: Vec<MemberOutcome>,
    next_after: Option<MemberName>,
    /// The request for the next page.
    next: Option<String>,
}

/// A page of members with their outcomes.
pub(super) async fn results(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let uri = request.uri();
    let page = page(uri.path(), uri.query().unwrap_or_default())?;
    let outcomes =
        api.0.desk.barrier_outcomes(&page).await?.ok_or_else(|| Refusal::not_found(&page.id))?;
    if let (Some(name), true) = (&page.only, outcomes.members.is_empty()) {
        let detail = format!("the barrier {} has no member {name:?}", page.id);
        return Err(Refusal::new(RefusalCode::UnknownMember, detail).into());
    }
    let next = outcomes.next_after.as_ref().map(|after| {
        let which = match page.which {
            Which::Resolved => "",
            Which::Failed => "failures&",
            Which::Missing => "missing&",
            Which::Pending => "pending&",
        };
        format!(
            "/v1/barriers/{}/results?{which}limit={}&after={}",
            address::encoded(page.id.id().as_bytes()),
            page.limit,
            address::encoded(after.as_bytes())
        )
    });
    let (members, next_after) = (outcomes.members, outcomes.next_after);
    Ok(Answer(Results { id: page.id.id().to_owned(), members, next_after, next }).into_response())
}

fn page(path: &str, query: &str) -> Result<Page, Problem> {
    let invalid = |detail: String| Problem::new("invalid", detail);
    let mut page = Page {
        id: barrier(path)?,
        which: Which::Resolved,
        after: None,
        limit: PAGE_MAX,
        only: None,
    };
    for (name, value) in address::parameters(query) {
        let which = match name.as_str() {
            "failures" => Some(Which::Failed),
            "missing" => Some(Which::Missing),
            "pending" => Some(Which::Pending),
            _ => None,
        };
        match (name.as_str(), which) {
            (_, Some(which)) => match value.as_deref() {
                Some(b"false") => {}
                None | Some(b"" | b"true") => page.which = which,
                Some(_) => return Err(invalid(format!("{name} is neither true nor false"))),
            },
            // An empty one is what a client sends that begins with the first page.
            ("after", None) => {
                page.after = value
                    .filter(|value| !value.is_empty())
                    .map(MemberName::new)
                    .transpose()
                    .map_err(Problem::from)?;
            }
            ("member", None) => {
                let name = value.unwrap_or_default();
                page.only = Some(MemberName::new(name).map_err(Problem::from)?);
            }
            ("limit", None) => {
                page.limit = value
                    .and_then(|value| String::from_utf8(value).ok()?.parse::<u32>().ok())
                    .filter(|limit| (1..=PAGE_MAX).contains(limit))
                    .ok_or_else(|| {
                        invalid(format!("limit is not a number from 1 to {PAGE_MAX}"))
                    })?;
            }
            _ => {
                return Err(invalid(
                    "the parameters are failures, missing, pending, after, limit and member"
                        .to_owned(),
                ));
            }
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_its_query_says() {
        let read = |query: &str| page("/v1/barriers/b/results", query);
        assert_eq!(read("").unwrap().limit, PAGE_MAX);
        let asked = read("failures&after=a%20b%FF&limit=7").unwrap();
        assert_eq!((asked.which, asked.limit), (Which::Failed, 7));
        assert_eq!(asked.after.unwrap().as_bytes(), b"a b\xff");
        assert_eq!(read("failures=false&after=").unwrap().which, Which::Resolved);
        assert_eq!(read("member=a%20b%FF").unwrap().only.unwrap().as_bytes(), b"a b\xff");
        for bad in [
            "member",
            "member=",
            "limit=0",
            "limit=1001",
            "limit=x",
            "limit",
            "failure",
            "failures=2",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
