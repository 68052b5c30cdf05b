//! `registry.json`: which schema belongs to which URN, and whose it is.
//!
//! ```json
//! {"schemas": [{"urn": "urn:babel:orders:created", "schema": "orders/created.json",
//!               "owner": "orders", "status": "active"}]}
//! ```

use std::path::Path;

use sendoff_core::{Error, ErrorKind, Result};

use super::payload::{Schema, Schemas};
use crate::json::Json;

/// One line of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the message is.
    pub urn: String,
    /// The schema's file, relative to the registry's.
    pub schema: String,
    /// Who answers for it; empty where it is not said.
    pub owner: String,
    /// Its state, in the registry's own words; empty where it is not said.
    pub status: String,
}

/// A registry with the schemas that it names.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    entries: Vec<Entry>,
    schemas: Schemas,
}

const DOING: &str = "reading the registry of schemas";

impl Registry {
    /// Reads a registry and every schema that it names. It blocks: it is for the start of a program.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] and [`ErrorKind::Denied`] for a file that cannot be read,
    /// [`ErrorKind::Invalid`] where one is no registry or no schema, or where a URN stands twice.
    pub fn load(path: &Path) -> Result<Self> {
        let entries =
            Self::read_entries(&read(path)?).map_err(|error| error.subject(name(path)))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut schemas = Schemas::new();
        for entry in &entries {
            let file = folder.join(&entry.schema);
            let schema = Schema::parse(&read(&file)?)
                .map_err(|error| Error::invalid(DOING, error.to_string()).subject(name(&file)))?;
            if schemas.set(entry.urn.as_str(), schema).is_some() {
                let detail = format!("{:?} stands twice; one schema is for one URN", entry.urn);
                return Err(Error::invalid(DOING, detail).subject(name(path)));
            }
        }
        Ok(Self { entries, schemas })
    }

    /// Reads the text of a registry, without the schemas.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where it is none.
    pub fn read_entries(text: &[u8]) -> Result<Vec<Entry>> {
        let invalid = |detail: &str| Error::invalid(DOING, detail);
        let json = Json::parse(text).map_err(|error| invalid(&error.to_string()))?;
        let list = json.as_object().and_then(|registry| registry.get("schemas"));
        let list =
            list.and_then(Json::as_array).ok_or_else(|| invalid("there is no list `schemas`"))?;
        let mut entries = Vec::with_capacity(list.len());
        for (index, item) in list.iter().enumerate() {
            let text = |key: &str| {
                let value = item.as_object().and_then(|item| item.get(key)).and_then(Json::as_str);
                value.unwrap_or_default().to_owned()
            };
            let entry = Entry {
                urn: text("urn"),
                schema: text("schema"),
                owner: text("owner"),
                status: text("status"),
            };
            if entry.urn.trim().is_empty() || entry.schema.is_empty() {
                return Err(invalid(&format!("schemas[{index}] has no `urn` or no `schema`")));
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The lines, in the file's order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The schemas.
    #[must_use]
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            _ => ErrorKind::Unexpected,
        };
        Error::new(kind, DOING).subject(name(path)).caused_by(error)
    })
}
