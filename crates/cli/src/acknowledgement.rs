//! Acknowledgements as JSON: an object of member, ok, error and result, from lines and over HTTP.

use sendoff::barrier::{Ack, Json, MemberName, Outcome, Refusal};
use serde::Deserialize;

/// An acknowledgement that names its member.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acknowledgement {
    member: MemberName,
    #[serde(default = "well")]
    ok: bool,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    result: Option<Json>,
}

fn well() -> bool {
    true
}

impl Acknowledgement {
    /// The member, and its acknowledgement or why that is refused.
    pub(crate) fn checked(self) -> (MemberName, Result<Ack, Refusal>) {
        let mut outcome = if self.ok { Outcome::ok() } else { Outcome::failed() };
        if let Some(error) = self.error {
            outcome = outcome.with_error(error);
        }
        if let Some(result) = self.result {
            outcome = outcome.with_result(result);
        }
        let ack = outcome.encode().map(|_| Ack { member: self.member.clone(), outcome });
        (self.member, ack)
    }
}
