//! A barrier's status with the state that it hands to its continuation.

use sendoff::barrier::{Json, Status};
use serde::Serialize;

/// The status of one barrier, as it is answered.
#[derive(Debug, Serialize)]
pub(crate) struct StatusWithState {
    #[serde(flatten)]
    status: Status,
    state_value: Option<Json>,
}

impl From<Status> for StatusWithState {
    fn from(status: Status) -> Self {
        Self { state_value: status.state_value.clone(), status }
    }
}
