//! What is refused, as an RFC 9457 problem document with a stable code.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sendoff::barrier::{MemberName, Refusal, RefusalCode};
use sendoff::{Error, ErrorKind};
use serde_json::json;

/// Every code with its status and title. The OpenAPI description has the same ones.
#[rustfmt::skip]
pub(super) const CODES: &[(&str, u16, &str)] = &[
    ("invalid", 400, "The request is not acceptable"),
    ("unauthorized", 401, "A bearer token is needed"),
    ("forbidden", 403, "The token is not good for this"),
    ("not_found", 404, "There is no such barrier"),
    ("no_route", 404, "There is nothing here"),
    ("method_not_allowed", 405, "The URL does not take this method"),
    ("conflict", 409, "The barrier is not what the request takes it for"),
    ("cancelled", 409, "The barrier was cancelled"),
    ("expired", 410, "The barrier has expired"),
    ("too_large", 413, "Over a limit"),
    ("unknown_member", 422, "The name is not on the list"),
    ("duplicate_name", 422, "A name stands twice"),
    ("busy", 503, "Another transaction holds what this needs"),
    ("unavailable", 503, "The store cannot be used now"),
    ("timeout", 503, "It took too long"),
    ("callbacks_off", 503, "Callbacks are not set up"),
    ("disk_full", 507, "There is no space left"),
];

/// A problem document.
#[derive(Debug)]
pub(crate) struct Problem {
    code: &'static str,
    detail: String,
    near: Vec<MemberName>,
}

impl Problem {
    /// A problem with one of the codes.
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), near: Vec::new() }
    }

    /// Over a limit of bytes, which is named.
    pub(super) fn too_large(limit_bytes: usize) -> Self {
        Self::new("too_large", format!("the body is over the limit of {limit_bytes} bytes"))
    }

    /// The same without names that a stranger might have meant.
    pub(super) fn without_near(mut self) -> Self {
        self.near.clear();
        self
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.code() {
            RefusalCode::UnknownMember => "unknown_member",
            RefusalCode::Expired => "expired",
            RefusalCode::Cancelled => "cancelled",
            RefusalCode::Conflict => "conflict",
            RefusalCode::TooLarge => "too_large",
            RefusalCode::DuplicateName => "duplicate_name",
            RefusalCode::NotFound => "not_found",
            RefusalCode::Busy => "busy",
            _ => "invalid",
        };
        Self { code, detail: refusal.detail().to_owned(), near: refusal.near().to_vec() }
    }
}

impl From<Error> for Problem {
    /// What is wrong with the request is told; what is wrong with the store is logged, since it names
    /// addresses.
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Invalid => return Self::new("invalid", error.to_string()),
            ErrorKind::TooLarge => return Self::new("too_large", error.to_string()),
            ErrorKind::DiskFull => "disk_full",
            ErrorKind::Conflict => "busy",
            ErrorKind::Timeout => "timeout",
            _ => "unavailable",
        };
        tracing::error!(kind = error.kind().as_str(), code, %error, "a request failed");
        let detail = match code {
            "timeout" => {
                "the store did not answer in time: what became of it is not known; sent again, \
                          what was done already is answered as done"
            }
            "disk_full" => "the store takes no writes: there is no space left",
            _ => "the store cannot be used now; send it again",
        };
        Self::new(code, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (_, status, title) =
            CODES.iter().find(|(code, _, _)| *code == self.code).unwrap_or(&("", 500, "Failed"));
        let mut document = json!({
            "type": format!("urn:sendoff:problem:{}", self.code),
            "title": title,
            "status": status,
            "detail": self.detail,
            "code": self.code,
        });
        if !self.near.is_empty() {
            document["near"] = json!(self.near);
        }
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(document)).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if self.code == "unauthorized" {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_code_of_its_own_in_the_table() {
        for word in [
            "unknown_member",
            "expired",
            "cancelled",
            "conflict",
            "too_large",
            "duplicate_name",
            "not_found",
            "invalid",
            "busy",
        ] {
            let code = RefusalCode::from_word(word).unwrap();
            assert_eq!(Problem::from(Refusal::new(code, "why")).code, word);
            assert!(CODES.iter().any(|(known, _, _)| *known == word), "{word}");
        }
    }

    #[test]
    fn a_store_that_fails_is_not_described_to_a_client() {
        let error = Error::new(ErrorKind::Unreachable, "connecting").subject("db.internal:5432");
        let problem = Problem::from(error);
        assert_eq!(problem.code, "unavailable");
        assert!(!problem.detail.contains("db.internal"));
    }
}
