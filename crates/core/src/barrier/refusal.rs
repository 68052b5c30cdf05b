//! Why an operation of a barrier was refused, with nothing changed.

use std::fmt;

use serde::Serialize;

use super::name::{BarrierId, MemberName};

/// Why, as a stable word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalCode {
    /// The name is not on the list.
    UnknownMember,
    /// The barrier is within an hour of its end, or past it.
    Expired,
    /// The barrier was cancelled.
    Cancelled,
    /// The barrier is there and is not what the caller takes it for: closed before this
    /// acknowledgement came, sealed, not reopenable, or created with other members.
    Conflict,
    /// Over a limit.
    TooLarge,
    /// A name stands twice.
    DuplicateName,
    /// There is no such barrier.
    NotFound,
    /// Not acceptable as input.
    Invalid,
    /// Another transaction holds what this one needs, for longer than it may wait. Run it again.
    Busy,
}

impl RefusalCode {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownMember => "unknown_member",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Conflict => "conflict",
            Self::TooLarge => "too_large",
            Self::DuplicateName => "duplicate_name",
            Self::NotFound => "not_found",
            Self::Invalid => "invalid",
            Self::Busy => "busy",
        }
    }

    /// The code for a word, where there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::UnknownMember,
            Self::Expired,
            Self::Cancelled,
            Self::Conflict,
            Self::TooLarge,
            Self::DuplicateName,
            Self::NotFound,
            Self::Invalid,
            Self::Busy,
        ]
        .into_iter()
        .find(|code| code.as_str() == word)
    }
}

/// A refusal: nothing was changed, and the caller's transaction can go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    code: RefusalCode,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    near: Vec<MemberName>,
}

impl Refusal {
    /// A refusal with what happened and what to do next, in words.
    #[must_use]
    pub fn new(code: RefusalCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), near: Vec::new() }
    }

    /// There is no such barrier.
    #[must_use]
    pub fn not_found(id: &BarrierId) -> Self {
        Self::new(
            RefusalCode::NotFound,
            format!("there is no barrier {id}: it was never created, or its week is over"),
        )
    }

    /// Names members that an unknown name may have meant.
    #[must_use]
    pub fn with_near(mut self, near: Vec<MemberName>) -> Self {
        self.near = near;
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> RefusalCode {
        self.code
    }

    /// What happened and what to do next.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Members that differ from an unknown name in case, surrounding space or URL encoding only.
    #[must_use]
    pub fn near(&self) -> &[MemberName] {
        &self.near
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match self.near.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "; did you mean {one:?}?"),
            many => write!(f, "; did you mean one of {many:?}?"),
        }
    }
}

impl std::error::Error for Refusal {}
