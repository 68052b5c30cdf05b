//! The route on which the partner answers: `POST /answers/{key}` with an outcome as JSON.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Json, Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use sendoff::barrier::{Ack, AckBatch, Barriers, MemberAnswer, MemberName, Outcome};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Error, Service, answers};

/// No outcome is larger; one over the barrier's own limit is refused with a reason.
const BODY_BYTES_MAX: usize = 16 << 10;

/// Serves until `stop`; requests that are on their way are answered.
pub(crate) async fn serve(
    service: &Service,
    address: &str,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let routes = Router::new()
        .route("/answers/{key}", post(answer))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(service.clone());
    let listener = TcpListener::bind(address).await?;
    println!("listening at {address}");
    axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned()).await?;
    Ok(())
}

/// Says 200 for what is committed, also where it was before. 503 asks for another try.
async fn answer(
    State(service): State<Service>,
    Path(key): Path<String>,
    Json(outcome): Json<Outcome>,
) -> (StatusCode, String) {
    match record(&service, &key, outcome).await {
        Ok(Some(MemberAnswer::Resolved | MemberAnswer::Duplicate { .. })) => {
            (StatusCode::OK, String::new())
        }
        Ok(Some(MemberAnswer::Refused(refusal))) => (StatusCode::CONFLICT, format!("{refusal}\n")),
        Ok(None) => (StatusCode::NOT_FOUND, "no document is answered here\n".to_owned()),
        Err(error) => {
            eprintln!("recording an answer: {error}");
            (StatusCode::SERVICE_UNAVAILABLE, "try again\n".to_owned())
        }
    }
}

/// Nothing where the key is no document's.
async fn record(
    service: &Service,
    key: &str,
    outcome: Outcome,
) -> Result<Option<MemberAnswer>, Error> {
    let mut transaction = service.pool.begin().await?;
    let document: Option<(String, String)> =
        sqlx::query_as("SELECT batch, name FROM documents WHERE key = $1")
            .bind(key)
            .fetch_optional(&mut *transaction)
            .await?;
    let Some((batch, name)) = document else { return Ok(None) };
    let ack = Ack { member: MemberName::new(name)?, outcome };
    let batch = AckBatch::new(Barriers::new().id(batch)?, vec![ack]).by("http");
    let answers = answers::acknowledge(&mut transaction, &batch).await?;
    service.wake.commit(transaction).await?;
    Ok(answers.into_iter().next())
}
