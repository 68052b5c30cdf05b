//! The file's part of the configuration: `sendoff.toml`. A key that is no setting is refused.

use std::path::Path;

use sendoff::{Error, ErrorKind, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::routes::{Reader, RouteTable};
use super::table::{self, SETTINGS};
use super::{Origin, Value};

const DOING: &str = "reading the configuration";

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) values: Vec<Value>,
    pub(super) routes: RouteTable,
}

/// Reads a file; `None` where it is not there and nobody named it.
///
/// # Errors
/// A file that was named and is not there, one that cannot be read, is no TOML, or has a key that
/// is no setting. The error names the file and the line.
pub(super) fn read(path: &Path, named: bool) -> Result<Option<Contents>> {
    let subject = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => return Ok(None),
        Err(error) => {
            return Err(Error::new(ErrorKind::Invalid, DOING)
                .subject(subject)
                .caused_by(error)
                .advice("name a file that can be read with --config"));
        }
    };
    parse(path, &text).map(Some)
}

fn parse(path: &Path, text: &str) -> Result<Contents> {
    let root = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        // The parser's own Display quotes the line, which may hold a password.
        Error::invalid(DOING, format!("it is not TOML: {}", error.message()))
            .subject(format!("{}:{line}", path.display()))
    })?;
    let mut walk = Walk { reader: Reader { path, text }, contents: Contents::default() };
    walk.table("", root.get_ref())?;
    walk.contents.routes.check()?;
    Ok(walk.contents)
}

struct Walk<'a> {
    reader: Reader<'a>,
    contents: Contents,
}

impl Walk<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<()> {
        for (name, value) in table {
            let key = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{}", name.get_ref())
            };
            let line = line_of(self.reader.text, name.span().start);
            if key == "target" {
                self.contents.routes.targets = self.reader.targets(value)?;
                continue;
            }
            if key == "route" {
                self.contents.routes.routes = self.reader.routes(value)?;
                continue;
            }
            if let (DeValue::Table(inner), true) = (value.get_ref(), is_table(&key)) {
                self.table(&key, inner)?;
            } else {
                self.value(&key, value, line)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>, line: usize) -> Result<()> {
        let refuse = |detail: String, advice: String| {
            Err(Error::invalid(DOING, detail)
                .subject(format!("{}:{line}", self.reader.path.display()))
                .advice(advice))
        };
        let Some(setting) = table::find(key) else {
            let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
            return refuse(
                format!("`{key}` is not a setting"),
                format!("the settings are {}, [target.NAME] and [[route]]", known.join(", ")),
            );
        };
        let text = self.reader.text(key, value)?;
        let origin = Origin::File(self.reader.path.to_path_buf(), line);
        self.contents.values.push(Value { key: setting.key, text, origin });
        Ok(())
    }
}

/// Whether a key is a table that holds settings.
fn is_table(key: &str) -> bool {
    SETTINGS
        .iter()
        .any(|setting| setting.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

pub(super) fn line_of(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Value>> {
        parse(Path::new("sendoff.toml"), text).map(|contents| contents.values)
    }

    #[test]
    fn keys_are_read_with_their_lines() {
        let values = read_text("store = 'sqlite:a.db'\n\n[relay]\nin_flight = 1_000\n").unwrap();
        let seen: Vec<_> =
            values.iter().map(|v| (v.key, v.text.as_str(), v.origin.to_string())).collect();
        assert!(seen.contains(&("store", "sqlite:a.db", "sendoff.toml:1".into())), "{seen:?}");
        assert!(seen.contains(&("relay.in_flight", "1000", "sendoff.toml:4".into())), "{seen:?}");
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        for (text, line) in [
            ("\nstroe = 'x'\n", 2),
            ("[relay]\nleese = '1s'\n", 2),
            ("[store]\nurl = 'x'\n", 1),
            ("[other]\nx = 1\n", 1),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.contains(&format!("sendoff.toml:{line}")), "{error}");
        }
    }

    #[test]
    fn a_syntax_error_names_the_line_and_quotes_no_value() {
        let error =
            read_text("to = 'x'\nstore = 'postgres://u:secret@h/d\n").unwrap_err().to_string();
        assert!(error.contains("sendoff.toml:2"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let error = read_text("source = ['a']\n").unwrap_err().to_string();
        assert!(error.contains("of type array"), "{error}");
    }
}
