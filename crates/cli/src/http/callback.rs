//! `POST /v1/callbacks/{id}/{member}?token=`: a partner's acknowledgement.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use sendoff::barrier::{Ack, AckBatch, BarrierId, MemberName, Outcome};
use serde_json::json;

use super::body::CALLBACK_BYTES_MAX;
use super::{Api, Problem, barrier, tokens};
use crate::address;
use crate::callback::Claim;

const CHANNEL: &str = "callback";

/// Acknowledges the member that the token names. An empty body says that it went well.
///
/// Whatever is wrong with a token is answered in the same words.
pub(super) async fn ack(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let (id, member, claim) = claim(&api, &head.uri)?;
    let held = api.0.bodies.read(&head.headers, body, CALLBACK_BYTES_MAX).await?;
    let outcome = if held.bytes.is_empty() {
        Outcome::ok()
    } else {
        held.json(r#"{"ok":true}, with error and result if any"#).await?
    };
    outcome.encode()?;
    let status = api.0.desk.barrier_status(&id).await?;
    if !status.is_some_and(|status| claim.fits(&status)) {
        return Err(unfit());
    }
    let batch = AckBatch::new(id, vec![Ack { member, outcome }]).by(CHANNEL).at_epoch(claim.epoch);
    let refused = |refusal| Problem::from(refusal).without_near();
    let acked = api.0.desk.ack_members(&batch).await?.map_err(refused)?.only().map_err(refused)?;
    api.0.wake.wake();
    // How the rest of the barrier stands is not the partner's business.
    let answer = json!({ "duplicate": acked.duplicate, "conflict": acked.conflict });
    Ok(([(header::CACHE_CONTROL, "no-store")], Answer(answer)).into_response())
}

/// What the token says, before anything is read or asked of the store.
fn claim(api: &Api, uri: &Uri) -> Result<(BarrierId, MemberName, Claim), Problem> {
    let signer = tokens::signer(api)
        .map_err(|_| Problem::new("callbacks_off", "callbacks are not set up here"))?;
    let parameters = address::parameters(uri.query().unwrap_or_default());
    let Some((_, Some(token))) = parameters.into_iter().find(|(name, _)| name == "token") else {
        return Err(Problem::new("unauthorized", "the URL has no token"));
    };
    let id = barrier(uri.path()).map_err(|_| unfit())?;
    let member = address::segments(uri.path()).into_iter().nth(3).unwrap_or_default();
    let member = MemberName::new(member).map_err(|_| unfit())?;
    let claim = signer.claim(&token, &id, &member, api.0.clock.now()).ok_or_else(unfit)?;
    Ok((id, member, claim))
}

fn unfit() -> Problem {
    Problem::new("forbidden", "the token is not good for this")
}
