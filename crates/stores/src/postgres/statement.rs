//! Statements as a connection runs them: prepared under a name, or sent whole each time.
//!
//! Behind a pooler in transaction mode a name that was given on one connection of the server is not
//! known on the next, so there every run sends the text. The types of a statement's parameters are read
//! from its casts (`$1::bigint[]`): a statement whose parameters have none does not run at all.

use std::borrow::Cow;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

/// A statement that can be run.
#[derive(Debug, Clone)]
pub(super) enum Prepared {
    Named(Statement),
    Whole(Whole),
}

/// A statement's text with the types of its parameters.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    pub(super) text: Cow<'static, str>,
    pub(super) types: Vec<Type>,
}

impl Whole {
    pub(super) fn new(text: Cow<'static, str>) -> Self {
        let types = types_of(&text);
        Self { text, types }
    }

    /// Runs it without a name and without a round trip to prepare it.
    pub(super) async fn query(
        &self,
        client: &Client,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        client.query_typed(&self.text, &self.typed(params)).await
    }

    fn typed<'a>(&self, params: &[&'a (dyn ToSql + Sync)]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
        params.iter().copied().zip(self.types.iter().cloned()).collect()
    }
}

impl Prepared {
    pub(super) async fn query(
        &self,
        client: &Client,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Named(statement) => client.query(statement, params).await,
            Self::Whole(whole) => whole.query(client, params).await,
        }
    }

    /// Runs it, and answers how many rows it changed.
    pub(super) async fn execute(
        &self,
        client: &Client,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error> {
        match self {
            Self::Named(statement) => client.execute(statement, params).await,
            Self::Whole(whole) => client.execute_typed(&whole.text, &whole.typed(params)).await,
        }
    }
}

/// The types of a statement's parameters, by the first cast of each. One without a cast is `unknown`,
/// for which no value is taken.
pub(super) fn types_of(text: &str) -> Vec<Type> {
    let mut types: Vec<Type> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        rest = &rest[at + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Some(place) = rest[..digits].parse::<usize>().ok().and_then(|n| n.checked_sub(1))
        else {
            continue;
        };
        rest = &rest[digits..];
        if place >= types.len() {
            types.resize(place + 1, Type::UNKNOWN);
        }
        if types[place] == Type::UNKNOWN
            && let Some(ty) = rest.strip_prefix("::").and_then(type_of)
        {
            types[place] = ty;
        }
    }
    types
}

fn type_of(cast: &str) -> Option<Type> {
    let end = cast.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(cast.len());
    let (name, rest) = cast.split_at(end);
    let is_array = rest.starts_with("[]");
    Some(match (name, is_array) {
        ("bigint", false) => Type::INT8,
        ("bigint", true) => Type::INT8_ARRAY,
        ("boolean", false) => Type::BOOL,
        ("boolean", true) => Type::BOOL_ARRAY,
        ("bytea", false) => Type::BYTEA,
        ("bytea", true) => Type::BYTEA_ARRAY,
        ("integer", false) => Type::INT4,
        ("integer", true) => Type::INT4_ARRAY,
        ("jsonb", false) => Type::JSONB,
        ("jsonb", true) => Type::JSONB_ARRAY,
        ("smallint", false) => Type::INT2,
        ("smallint", true) => Type::INT2_ARRAY,
        ("text", false) => Type::TEXT,
        ("text", true) => Type::TEXT_ARRAY,
        ("timestamptz", false) => Type::TIMESTAMPTZ,
        ("timestamptz", true) => Type::TIMESTAMPTZ_ARRAY,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::types_of;
    use tokio_postgres::types::Type;

    #[test]
    fn types_are_read_from_casts_wherever_the_first_one_stands() {
        let text = "SELECT $2, $1::bigint[], $2::text, '$', $3::timestamptz FROM f($10::boolean)";
        let types = types_of(text);
        assert_eq!(types.len(), 10);
        assert_eq!(types[..3], [Type::INT8_ARRAY, Type::TEXT, Type::TIMESTAMPTZ]);
        assert_eq!(types[3], Type::UNKNOWN);
        assert_eq!(types[9], Type::BOOL);
        assert!(types_of("SELECT 1").is_empty());
    }
}
