//! `POST /v1/barriers`.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sendoff::barrier::{
    BarrierId, Created, Json, OnDeadline, Parent, Plan, Policy, Probe, Refusal,
};
use serde::{Deserialize, Serialize};

use super::body::CREATE_BYTES_MAX;
use super::tokens::{self, TOKENS_MAX};
use super::{Api, Problem};
use crate::address;
use crate::callback::Token;
use crate::members::Members;
use crate::secret;

const EXAMPLE: &str =
    r#"{"id":"batch-7","members":["a.xml","b.xml"],"continue_with":"batches.done"}"#;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Made where none is given.
    id: Option<String>,
    members: Option<Members>,
    continue_with: Option<String>,
    state: Option<Json>,
    deadline_s: Option<u64>,
    #[serde(default)]
    on_deadline: OnDeadline,
    policy: Option<Policy>,
    #[serde(default = "yes")]
    sealed: bool,
    #[serde(default)]
    strict: bool,
    parent: Option<Parent>,
    probe: Option<Probe>,
    /// Answer with a callback token for each member, good for so long.
    callbacks_expire_s: Option<u64>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize)]
struct Answered {
    #[serde(flatten)]
    created: Created,
    #[serde(skip_serializing_if = "Option::is_none")]
    callbacks: Option<Vec<Token>>,
}

impl Asked {
    fn plan(self) -> Result<Plan, Refusal> {
        let invalid =
            |detail: &str| Refusal::new(sendoff::barrier::RefusalCode::Invalid, detail.to_owned());
        let id = BarrierId::new(self.id.unwrap_or_default())
            .map_err(|error| invalid(&error.to_string()))?;
        let mut plan = Plan::builder(id).on_deadline(self.on_deadline);
        if let Some(members) = self.members {
            plan = members.add_to(plan);
        }
        if let Some(topic) = self.continue_with {
            plan = plan.continue_with(topic);
        }
        if let Some(state) = self.state {
            plan = plan.state(state);
        }
        if let Some(seconds) = self.deadline_s {
            plan = plan.deadline(Duration::from_secs(seconds));
        }
        if let Some(policy) = self.policy {
            plan = plan.policy(policy);
        }
        if !self.sealed {
            plan = plan.unsealed();
        }
        if self.strict {
            plan = plan.strict();
        }
        if let Some(parent) = self.parent {
            plan = plan.member_of(parent.id, parent.member);
        }
        // It runs with the relay's rights, which a client over HTTP has not.
        if self.probe.is_some() {
            return Err(invalid(
                "a probe is not taken over HTTP; create the barrier with `sendoff barrier create \
                 --probe-sql` or `--probe-keys`",
            ));
        }
        plan.build()
    }
}

/// Creates a barrier, or finds that it is there.
pub(super) async fn create(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let held = api.0.bodies.read(&head.headers, body, CREATE_BYTES_MAX).await?;
    let mut asked: Asked = held.json(EXAMPLE).await?;
    if asked.id.is_none() {
        asked.id = Some(secret::random_text()?);
    }
    let expire_s = asked.callbacks_expire_s;
    let plan = tokio::task::spawn_blocking(move || asked.plan())
        .await
        .map_err(|_| Problem::new("unavailable", "checking the members failed"))??;
    if expire_s.is_some() && plan.members().len() > TOKENS_MAX {
        return Err(Problem::new(
            "too_large",
            format!(
                "{} callback tokens are over the limit of {TOKENS_MAX} in one answer; create the \
                 barrier without them and ask POST /v1/barriers/ID/tokens",
                plan.members().len()
            ),
        ));
    }
    if expire_s.is_some() {
        tokens::signer(&api)?;
    }
    let created = api.0.desk.create_barrier(&plan).await??;
    if created.complete {
        api.0.wake.wake();
    }
    let callbacks = match expire_s {
        Some(for_s) if !created.differs => {
            let members: Vec<_> = plan.members().iter().map(|member| member.name.clone()).collect();
            Some(tokens::made(&api, plan.id(), &members, for_s).await?.1)
        }
        _ => None,
    };
    let status = if created.existing { StatusCode::OK } else { StatusCode::CREATED };
    let place = format!("/v1/barriers/{}", address::encoded(created.id.as_bytes()));
    let answer = Answer(Answered { created, callbacks });
    Ok((status, [(header::LOCATION, place)], answer).into_response())
}
