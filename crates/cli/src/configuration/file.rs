//! The file's part of the configuration: `sendoff.toml`. A key that is no setting is refused.

use std::path::Path;

use sendoff::{Error, ErrorKind, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::list::Item;
use super::routes::{Reader, RouteTable};
use super::table::{self, LISTS, List, SETTINGS};
use super::{Origin, Value};

const DOING: &str = "reading the configuration";

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Values of settings.
    pub(super) values: Vec<Value>,
    /// Tables of lists, in their order.
    pub(super) items: Vec<Item>,
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
            } else if key == "route" {
                self.contents.routes.routes = self.reader.routes(value)?;
            } else if let Some(list) = LISTS.iter().find(|list| list.key == key) {
                self.list(list, value, line)?;
            } else if let (DeValue::Table(inner), true) = (value.get_ref(), is_table(&key)) {
                self.table(&key, inner)?;
            } else {
                self.value(&key, value, line)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>, line: usize) -> Result<()> {
        let Some(setting) = table::find(key) else {
            let mut known: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
            known.extend(LISTS.iter().map(|list| list.key));
            known.extend(["[target.NAME]", "[[route]]"]);
            return Err(self.unknown(line, key, &known));
        };
        let value = self.read(setting.key, value, line)?;
        self.contents.values.push(value);
        Ok(())
    }

    /// Reads the tables of a list.
    fn list(
        &mut self,
        list: &'static List,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> Result<()> {
        let tables = value.get_ref().as_array().map(|array| array.iter()).unwrap_or_default();
        let is_list = value.get_ref().is_array();
        for table in tables {
            let line = line_of(self.reader.text, table.span().start);
            let Some(inner) = table.get_ref().as_table() else {
                return Err(self.no_list(line, list));
            };
            let mut item = Item { list: list.key, origin: self.origin(line), values: Vec::new() };
            for (name, value) in inner {
                let line = line_of(self.reader.text, name.span().start);
                let key = format!("{}.{}", list.key, name.get_ref());
                let Some((key, _)) = list.entries.iter().find(|(entry, _)| *entry == key) else {
                    let known: Vec<&str> = list.entries.iter().map(|(entry, _)| *entry).collect();
                    return Err(self.unknown(line, &key, &known));
                };
                item.values.push(self.read(key, value, line)?);
            }
            self.contents.items.push(item);
        }
        if is_list { Ok(()) } else { Err(self.no_list(line, list)) }
    }

    fn read(&self, key: &'static str, value: &Spanned<DeValue<'_>>, line: usize) -> Result<Value> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().replace('_', ""),
            other => {
                return Err(self
                    .refused(line, format!("`{key}` is of type {}", other.type_str()))
                    .advice("write a text in quotes or a decimal number"));
            }
        };
        Ok(Value { key, text, origin: self.origin(line) })
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::File(self.reader.path.to_path_buf(), line)
    }

    fn refused(&self, line: usize, detail: String) -> Error {
        Error::invalid(DOING, detail).subject(format!("{}:{line}", self.reader.path.display()))
    }

    fn unknown(&self, line: usize, key: &str, known: &[&str]) -> Error {
        self.refused(line, format!("`{key}` is not a setting"))
            .advice(format!("the settings are {}", known.join(", ")))
    }

    fn no_list(&self, line: usize, list: &List) -> Error {
        self.refused(line, format!("`{}` is a list of tables", list.key))
            .advice(format!("write [[{}]], with two brackets, above each of them", list.key))
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

    fn read_text(text: &str) -> Result<Contents> {
        parse(Path::new("sendoff.toml"), text)
    }

    #[test]
    fn keys_are_read_with_their_lines() {
        let read = read_text("store = 'sqlite:a.db'\n\n[relay]\nin_flight = 1_000\n").unwrap();
        let seen: Vec<_> =
            read.values.iter().map(|v| (v.key, v.text.as_str(), v.origin.to_string())).collect();
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
            ("[[relay.override]]\ntopics = 'a'\n[[relay.override]]\ntopic = 'b'\n", 4),
            ("[relay]\n[relay.override]\ntopics = 'b'\n", 2),
            ("[relay]\noverride = [1]\n", 2),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.contains(&format!("sendoff.toml:{line}")), "{error}");
        }
    }

    #[test]
    fn the_tables_of_a_list_are_read_in_their_order_with_their_lines() {
        let read = read_text(
            "[relay]\nhold = 'none'\n\n[[relay.override]]\ntopics = 'a'\nattempts_max = 5\n\
             [[relay.override]]\ntopics = 'b'\n",
        )
        .unwrap();
        let seen: Vec<(String, Vec<&str>)> = read
            .items
            .iter()
            .map(|item| {
                let values = item.values.iter().map(|value| value.text.as_str());
                (item.origin.to_string(), values.collect())
            })
            .collect();
        let expected = [
            ("sendoff.toml:4".to_owned(), vec!["5", "a"]),
            ("sendoff.toml:7".to_owned(), vec!["b"]),
        ];
        let sorted: Vec<(String, Vec<&str>)> = seen
            .into_iter()
            .map(|(origin, mut values)| {
                values.sort_unstable();
                (origin, values)
            })
            .collect();
        assert_eq!(sorted, expected);
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
