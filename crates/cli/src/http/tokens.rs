//! `POST /v1/barriers/{id}/tokens`: callback tokens for partners.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use sendoff::barrier::{BarrierId, LIVES, MemberName, Refusal};
use serde::{Deserialize, Serialize};

use super::body::ACKS_BYTES_MAX;
use super::{Api, Problem, barrier};
use crate::callback::{self, Signer, Token};

/// The most tokens of one answer.
pub(super) const TOKENS_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    members: Vec<MemberName>,
    #[serde(default = "a_week")]
    expires_s: u64,
}

fn a_week() -> u64 {
    LIVES.as_secs()
}

#[derive(Debug, Serialize)]
struct Made {
    id: String,
    epoch: u32,
    tokens: Vec<Token>,
}

/// Makes tokens.
pub(super) async fn make(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let id = barrier(head.uri.path())?;
    signer(&api)?;
    let held = api.0.bodies.read(&head.headers, body, ACKS_BYTES_MAX).await?;
    let asked: Asked = held.json(r#"{"members":["a.xml"],"expires_s":86400}"#).await?;
    if asked.members.len() > TOKENS_MAX {
        return Err(Problem::new(
            "too_large",
            format!("{} tokens are over the limit of {TOKENS_MAX} a request", asked.members.len()),
        ));
    }
    let (epoch, tokens) = made(&api, &id, &asked.members, asked.expires_s).await?;
    let made = Made { id: id.id().to_owned(), epoch, tokens };
    Ok(([(header::CACHE_CONTROL, "no-store")], Answer(made)).into_response())
}

/// Who signs.
pub(super) fn signer(api: &Api) -> Result<&Signer, Problem> {
    api.0.signer.as_ref().ok_or_else(|| {
        Problem::new(
            "callbacks_off",
            "there is no callback secret; set SENDOFF_SERVE_CALLBACK_SECRET where the server starts",
        )
    })
}

/// Tokens for members of a barrier at its present epoch.
pub(super) async fn made(
    api: &Api,
    id: &BarrierId,
    members: &[MemberName],
    for_s: u64,
) -> Result<(u32, Vec<Token>), Problem> {
    let signer = signer(api)?;
    let status = api.0.desk.barrier_status(id).await?.ok_or_else(|| Refusal::not_found(id))?;
    let tokens = callback::answers(signer, id, &status, members, for_s, &api.0.clock);
    Ok((status.epoch, tokens))
}
