//! The schema that an outbox lives in, and how SQL that is written for `sendoff` is put into another.
//!
//! All SQL of this store, migrations included, is written for the schema `sendoff`. For another one the
//! word is replaced by the quoted name, once where a statement is prepared or sent: see [`SchemaName::sql`].
//! So a statement reads as it runs for nearly everybody, and migrations have one checksum everywhere.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use sendoff_core::{Error, Result};

use super::within::Within;

/// The schema where nobody names one, and the word that stands for it in all SQL.
const DEFAULT: &str = "sendoff";
/// PostgreSQL cuts a name off behind 63 bytes, and the channel of wake-ups has seven more than its schema.
const BYTES_MAX: usize = 56;
/// What a word has to be given to, to be a name inside a string: other strings are values.
const TAKE_NAMES: [&str; 4] = ["to_regclass(", "to_regnamespace(", "to_regrole(", "nextval("];

/// The name of the schema that an outbox lives in; `sendoff` unless another one is chosen.
///
/// Several outboxes in one database share nothing: each has its own tables, lanes, functions and
/// wake-ups.
///
/// ```
/// use sendoff_stores::postgres::SchemaName;
/// assert_eq!(SchemaName::default().as_str(), "sendoff");
/// assert_eq!(SchemaName::new("Shop 2").unwrap().as_str(), "Shop 2");
/// assert!(SchemaName::new("pg_mine").is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaName(Option<Arc<Name>>);

/// The schema `sendoff`.
pub(super) static USUAL: SchemaName = SchemaName(None);

#[derive(Debug, PartialEq, Eq)]
struct Name {
    plain: String,
    quoted: String,
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl SchemaName {
    /// A name as it stands in the catalog: capitals, spaces and quotation marks are taken as they are.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] where it is empty, has more than 56 bytes, begins with
    /// `pg_`, or has a control character or one of `'`, `\`, `$` and `%`.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let quoted = quoted_name("reading the name of a schema", &name, BYTES_MAX)?;
        if name == DEFAULT {
            return Ok(Self::default());
        }
        Ok(Self(Some(Arc::new(Name { plain: name, quoted }))))
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or(DEFAULT, |name| &name.plain)
    }

    /// The name as it stands in SQL.
    #[must_use]
    pub fn quoted(&self) -> &str {
        self.0.as_ref().map_or(DEFAULT, |name| &name.quoted)
    }

    /// A transaction whose sends and barriers are those of this schema.
    ///
    /// It is the transaction still: what the driver offers on it can be called on it.
    ///
    /// ```no_run
    /// use sendoff_core::Outbox;
    /// use sendoff_stores::postgres::SchemaName;
    /// # async fn place(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let (outbox, schema) = (Outbox::new("shop"), SchemaName::new("shop_outbox")?);
    /// let message = outbox.message("orders.placed").body("a tent").build()?;
    ///
    /// let mut transaction = schema.on(client.transaction().await?);
    /// transaction.execute("INSERT INTO orders VALUES ('a tent')", &[]).await?;
    /// outbox.send(&mut transaction, &message).await?;
    /// transaction.into_inner().commit().await?;
    /// # Ok(()) }
    /// ```
    pub fn on<T>(&self, transaction: T) -> Within<T> {
        Within::new(transaction, self.clone())
    }

    /// A statement that is written for `sendoff`, for this schema.
    pub(super) fn sql(&self, template: &'static str) -> Cow<'static, str> {
        match &self.0 {
            None => Cow::Borrowed(template),
            Some(name) => Cow::Owned(put(template, &[(DEFAULT, &name.quoted)])),
        }
    }

    /// The same for a statement that was put together.
    pub(super) fn sql_of(&self, template: String) -> String {
        match &self.0 {
            None => template,
            Some(name) => put(&template, &[(DEFAULT, &name.quoted)]),
        }
    }

    /// The channel of wake-ups, as it stands in SQL.
    pub(super) fn channel(&self) -> String {
        quoted(&format!("{}_outbox", self.as_str()))
    }

    /// The key of an advisory lock: two schemas do not wait for each other.
    pub(super) fn lock(&self, key: i64) -> i64 {
        // FNV-1a: it has to stay the same over versions of this program.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        match &self.0 {
            None => key,
            Some(name) => {
                let hash = name.plain.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
                key ^ i64::from_ne_bytes(hash.to_ne_bytes())
            }
        }
    }
}

/// A name in quotation marks, if it can stand wherever names stand: in a statement, in a string within
/// one, in the body of a function, and in a format of RAISE.
pub(super) fn quoted_name(doing: &'static str, name: &str, bytes_max: usize) -> Result<String> {
    let refuse = |what: String| {
        let subject = format!("`{}`", name.escape_debug());
        Err(Error::invalid(doing, what).subject(subject).advice("choose another name"))
    };
    if name.is_empty() {
        return refuse("it is empty".to_owned());
    }
    if name.len() > bytes_max {
        return refuse(format!("it has {} bytes, the limit is {bytes_max}", name.len()));
    }
    if name.starts_with("pg_") {
        return refuse("names that begin with pg_ are PostgreSQL's own".to_owned());
    }
    if name.chars().any(|c| c.is_control() || "'\\$%".contains(c)) {
        return refuse("a control character, ', \\, $ and % cannot be part of it".to_owned());
    }
    Ok(quoted(name))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Replaces words of a statement, each of which begins with `sendoff`, by quoted names.
///
/// A word is a name wherever it stands by itself, but not as a part of another word, of a topic
/// (`$sendoff.barrier`), or at the beginning of a string that is a value (`'sendoff.barrier'`).
pub(super) fn put(template: &str, names: &[(&str, &str)]) -> String {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    let of_other = |c: char| of_word(c) || "$-\"".contains(c);
    let mut put = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some(at) = rest.find(DEFAULT) {
        put.push_str(&rest[..at]);
        rest = &rest[at..];
        let (word, after) = rest.split_at(rest.find(|c| !of_word(c)).unwrap_or(rest.len()));
        let is_part = put.chars().next_back().is_some_and(of_other) || after.starts_with(of_other);
        let is_value = put
            .strip_suffix('\'')
            .is_some_and(|before| !TAKE_NAMES.iter().any(|taker| before.ends_with(taker)));
        let name = names.iter().find(|(name, _)| *name == word);
        match name {
            Some((_, name)) if !is_part && !is_value => put.push_str(name),
            _ => put.push_str(word),
        }
        rest = after;
    }
    put.push_str(rest);
    put
}

#[cfg(test)]
mod tests {
    use super::{SchemaName, put};

    #[test]
    fn the_word_is_replaced_where_it_is_a_name_and_nowhere_else() {
        for (template, expected) in [
            ("SELECT sendoff.f(o) FROM sendoff.outbox o", "SELECT \"x\".f(o) FROM \"x\".outbox o"),
            ("DECLARE b sendoff.barrier;", "DECLARE b \"x\".barrier;"),
            ("CREATE SCHEMA sendoff;", "CREATE SCHEMA \"x\";"),
            ("to_regclass('sendoff.lane')", "to_regclass('\"x\".lane')"),
            ("to_regnamespace('sendoff')", "to_regnamespace('\"x\"')"),
            ("nextval('sendoff.s')", "nextval('\"x\".s')"),
            ("k.source = 'sendoff.barrier'", "k.source = 'sendoff.barrier'"),
            ("'sendoff-barrier', sendoff_outbox", "'sendoff-barrier', sendoff_outbox"),
            ("starts_with(t, '$sendoff.')", "starts_with(t, '$sendoff.')"),
            ("no name at all", "no name at all"),
        ] {
            assert_eq!(put(template, &[("sendoff", "\"x\"")]), expected);
        }
    }

    #[test]
    fn a_name_that_has_another_word_in_it_is_put_as_it_is() {
        let names = [("sendoff", "\"a sendoff_relay\""), ("sendoff_relay", "\"sendoff\"")];
        let put = put("GRANT USAGE ON SCHEMA sendoff TO sendoff_relay", &names);
        assert_eq!(put, "GRANT USAGE ON SCHEMA \"a sendoff_relay\" TO \"sendoff\"");
    }

    #[test]
    fn names_that_could_leave_their_place_are_refused() {
        let long = "x".repeat(57);
        for name in ["", "pg_x", "a'b", "a\\b", "a$$b", "100%", "a\nb", "a\0b", long.as_str()] {
            let error = SchemaName::new(name).unwrap_err();
            assert_eq!(error.kind(), sendoff_core::ErrorKind::Invalid, "{name:?}");
        }
        for name in ["sendoff", "Übel \"x\"", "a.b", "select", "--", ";"] {
            assert_eq!(SchemaName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn the_usual_schema_is_what_it_always_was() {
        let usual = SchemaName::new("sendoff").unwrap();
        assert_eq!(usual, SchemaName::default());
        assert_eq!(usual.channel(), "\"sendoff_outbox\"");
        assert_eq!(usual.lock(7), 7);
        assert_eq!(usual.sql("SELECT sendoff.f()"), "SELECT sendoff.f()");
        let other = SchemaName::new("Übel \"x\"").unwrap();
        assert_eq!(other.channel(), "\"Übel \"\"x\"\"_outbox\"");
        assert_eq!(other.quoted(), "\"Übel \"\"x\"\"\"");
        assert_ne!(other.lock(7), SchemaName::new("y").unwrap().lock(7));
    }
}
