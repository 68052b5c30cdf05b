//! Roles with no more rights in an outbox than their work needs.
//!
//! What does not belong here: who is a member of a role, and passwords. They are the database's
//! administrator's.

use sendoff_core::{Error, ErrorKind, Result};

use super::schema_name::{SchemaName, put, quoted_name};
use super::sql;
use super::statement::Whole;
use super::store::PostgresStore;

const DOING: &str = "granting rights to roles";
/// PostgreSQL cuts a name off behind so many bytes.
const BYTES_MAX: usize = 63;

/// What a role is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// Sends messages, by INSERT or by `send`, and reads nothing.
    Writer,
    /// Acknowledges members of barriers and asks how a barrier stands; nothing else.
    Acker,
    /// Creates and changes barriers, acknowledges, and reads outcomes.
    Coordinator,
    /// Runs a relay: reads, marks and deletes messages, and can change none of them.
    Relay,
    /// Counts, finds, requeues and discards, and does whatever can be done with barriers.
    Operator,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Writer, Self::Acker, Self::Coordinator, Self::Relay, Self::Operator];

    /// The word that the grants have for it, which is the usual name too.
    #[must_use]
    pub fn usual_name(self) -> &'static str {
        match self {
            Self::Writer => "sendoff_writer",
            Self::Acker => "sendoff_acker",
            Self::Coordinator => "sendoff_coordinator",
            Self::Relay => "sendoff_relay",
            Self::Operator => "sendoff_operator",
        }
    }

    fn grants(self) -> &'static str {
        match self {
            Self::Writer => sql::WRITER,
            Self::Acker => sql::ACKER,
            Self::Coordinator => sql::COORDINATOR,
            Self::Relay => sql::RELAY,
            Self::Operator => sql::OPERATOR,
        }
    }
}

/// Roles by what they are for, with the names that they have in the database.
///
/// ```
/// use sendoff_stores::postgres::{Role, Roles, SchemaName};
/// let roles = Roles::none().with(Role::Writer, "Shop service").unwrap();
/// let grants = roles.grants(&SchemaName::default());
/// assert!(grants.contains(r#"GRANT USAGE ON SCHEMA sendoff TO "Shop service";"#));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles(Vec<Named>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    role: Role,
    plain: String,
    quoted: String,
}

impl Roles {
    /// No role.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Every role under its usual name: `sendoff_writer` and so on.
    ///
    /// # Errors
    /// None of these names is refused.
    pub fn usual() -> Result<Self> {
        let mut roles = Role::ALL.into_iter();
        roles.try_fold(Self::none(), |roles, role| roles.with(role, role.usual_name()))
    }

    /// One more, under a name of its own. One name can be given for several roles: it then has the
    /// rights of all of them.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the name is empty, has more than 63 bytes, begins with `pg_`, or has
    /// a control character or one of `'`, `\`, `$` and `%`.
    pub fn with(mut self, role: Role, name: impl Into<String>) -> Result<Self> {
        let plain = name.into();
        let quoted = quoted_name("reading the name of a role", &plain, BYTES_MAX)?;
        self.0.push(Named { role, plain, quoted });
        Ok(self)
    }

    /// Whether no role is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The roles' names, as they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|named| named.plain.as_str())
    }

    /// The statements, for `psql`: they make the roles that are not there (without a login), take from
    /// each what it has in the schema, and give it what it needs. They may run again at any time.
    #[must_use]
    pub fn grants(&self, schema: &SchemaName) -> String {
        format!("{};\n{}{};\n", sql::BEGIN, self.statements(schema), sql::COMMIT)
    }

    fn statements(&self, schema: &SchemaName) -> String {
        let text = |template: &str, word: &str, named: &Named| {
            put(template, &[("sendoff", schema.quoted()), (word, &named.quoted)])
        };
        let made = self.0.iter().map(|named| text(sql::ROLE_MADE, "sendoff_role", named));
        let granted =
            self.0.iter().map(|named| text(named.role.grants(), named.role.usual_name(), named));
        // First all are taken away, since one name can stand for several roles.
        made.chain(granted).collect()
    }
}

impl PostgresStore {
    /// Makes the roles that are not there and gives each exactly the rights that it needs in this
    /// store's schema.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] where the connection's user owns the schema neither himself nor by a role,
    /// or may not make the roles that are missing; [`ErrorKind::SchemaMissing`] where the schema has not
    /// this program's version; [`ErrorKind::Invalid`] where a role owns the schema or is a superuser.
    /// Nothing is changed then.
    pub async fn grant(&self, roles: &Roles) -> Result<()> {
        self.desk.bounded(DOING, self.grant_now(roles)).await
    }

    async fn grant_now(&self, roles: &Roles) -> Result<()> {
        let schema = self.connector.schema();
        let mut checkout = self.desk.checkout(DOING).await?;
        let rights = Whole::new(schema.sql(sql::ROLES_RIGHTS));
        let statements = roles.statements(schema);
        let names: Vec<&str> = roles.0.iter().map(|named| named.plain.as_str()).collect();
        let granted = async {
            let transaction = checkout.transaction().await?;
            let rows = rights.query(transaction.client(), &[&names]).await?;
            let row = rows.first();
            if let Err(refused) = row.map_or_else(|| Err(no_schema(schema)), may_grant) {
                return Ok(Err(refused.subject(self.connector.address())));
            }
            transaction.batch_execute(&statements).await?;
            transaction.commit().await.map(Ok)
        };
        match granted.await {
            Ok(Ok(())) => {
                checkout.keep();
                Ok(())
            }
            Ok(Err(refused)) => Err(refused),
            Err(error) => Err(checkout.failed(error)),
        }
    }
}

fn no_schema(schema: &SchemaName) -> Error {
    Error::new(ErrorKind::SchemaMissing, DOING)
        .detail(format!("there is no outbox in the schema {}", schema.quoted()))
        .advice("migrate first")
}

/// Whether who asks can grant, by what [`sql::ROLES_RIGHTS`] answers.
fn may_grant(row: &tokio_postgres::Row) -> Result<()> {
    let (owner, makes_roles): (Option<&str>, bool) = (row.get(0), row.get(1));
    let user: &str = row.get(2);
    let (missing, above): (Vec<&str>, Vec<&str>) = (row.get(3), row.get(4));
    if let Some(owner) = owner {
        return Err(Error::new(ErrorKind::Denied, DOING)
            .detail(format!("the schema belongs to {owner}, and this is {user}"))
            .advice(format!("run it as {owner}, or have a superuser run what --print prints")));
    }
    if !above.is_empty() {
        let above = above.join(", ");
        return Err(Error::invalid(
            DOING,
            format!("{above}: the schema's owner and superusers have every right already"),
        )
        .advice("name a role of its own for each"));
    }
    if !missing.is_empty() && !makes_roles {
        let missing = missing.join(", ");
        return Err(Error::new(ErrorKind::Denied, DOING)
            .detail(format!("not there: {missing}; and {user} may make no roles (CREATEROLE)"))
            .advice("have them made first, without a right, or name roles that are there"));
    }
    Ok(())
}
