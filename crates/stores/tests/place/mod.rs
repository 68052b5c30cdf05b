//! Where the suites' stores live, and how they are come to.

use async_trait::async_trait;
use sendoff_conformance::servers::pooled;
use sendoff_stores::postgres::{Pooler, PostgresOptions, SchemaName};

/// A way to have an outbox.
#[async_trait]
pub(crate) trait Place: Send + Sync + 'static {
    /// The schema's name.
    const SCHEMA: &'static str = "sendoff";

    fn schema() -> SchemaName {
        SchemaName::new(Self::SCHEMA).expect("a name")
    }

    fn options() -> PostgresOptions {
        PostgresOptions { schema: Self::schema(), ..PostgresOptions::default() }
    }

    /// The URL by which the product comes to a database.
    async fn through(url: &str) -> String {
        url.to_owned()
    }

    /// A statement of a test's own, written for `sendoff`.
    fn sql(text: &str) -> String {
        text.replace("sendoff.", &format!("{}.", Self::schema().quoted()))
    }
}

/// As it is mostly used.
pub(crate) struct Usual;

impl Place for Usual {}

/// In a schema whose name needs every kind of care.
pub(crate) struct Named;

impl Place for Named {
    const SCHEMA: &'static str = "Übel \"x\"";
}

/// Through a pooler in transaction mode.
pub(crate) struct Pooled;

#[async_trait]
impl Place for Pooled {
    fn options() -> PostgresOptions {
        PostgresOptions { pooler: Pooler::Transaction, ..PostgresOptions::default() }
    }

    async fn through(url: &str) -> String {
        let url = url.to_owned();
        tokio::task::spawn_blocking(move || pooled(&url))
            .await
            .expect("the task ends")
            .expect("a pooler")
    }
}
