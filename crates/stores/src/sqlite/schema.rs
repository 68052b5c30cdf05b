//! The schema: what is there, what is needed, and the migrations.
//!
//! What does not belong here: the text of the migrations. See `migrations/`.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use sendoff_core::store::{Schema, SchemaState};
use sendoff_core::{Error, ErrorKind};

use super::error::Failure;
use super::file::DatabaseFile;
use super::sql;
use super::worker::Session;

/// The version that this program needs.
pub(super) const NEEDED: u32 = 3;
const _: () = assert!(sql::MIGRATIONS.len() == NEEDED as usize, "one migration each version");

/// What the file has, against what this program needs.
pub(super) fn schema(connection: &Connection) -> Result<Schema, Failure> {
    let mut there = connection.prepare(sql::OBJECTS)?;
    let there =
        there.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let (version, changed) = if there.iter().any(|name| name == "sendoff_schema_version") {
        (version(connection)?, changed(connection)?)
    } else {
        (0, Vec::new())
    };
    let missing: Vec<String> = sql::OBJECTS_NEEDED
        .iter()
        .filter(|needed| !there.iter().any(|name| name == *needed))
        .map(|needed| (*needed).to_owned())
        .collect();
    let state = if version > NEEDED {
        SchemaState::TooNew
    } else if !changed.is_empty() {
        SchemaState::Changed
    } else if version < NEEDED || !missing.is_empty() {
        SchemaState::Missing
    } else {
        SchemaState::Current
    };
    Ok(Schema { version, needed: NEEDED, state, missing, changed })
}

/// Brings the schema up. The check and the change are one transaction that holds the write lock, so
/// several processes at once do it one after the other, and all but the first find it done.
pub(super) fn migrate(session: &Session<'_>) -> Result<Schema, Failure> {
    refuse(&session.snapshot(schema)?, session.file)?;
    session.file.ensure_wal(session.connection)?;
    session.transaction(|tx| {
        let found = schema(tx)?;
        refuse(&found, session.file)?;
        if found.state == SchemaState::Current {
            return Ok(found);
        }
        tx.execute_batch(sql::VERSION_TABLE)?;
        // All of them, also those that ran before: something of them may have been dropped.
        for (version, migration) in (1_u32..).zip(sql::MIGRATIONS) {
            tx.execute_batch(migration)?;
            tx.execute(sql::VERSION_WRITE, (version, checksum(migration)))?;
        }
        schema(tx)
    })
}

/// Refuses what this program would not understand, before it does any harm. The table that is not
/// there is SQLite's own error.
pub(super) fn need(connection: &Connection, file: &DatabaseFile) -> Result<(), Failure> {
    const OPERATION: &str = "checking the schema";
    let version = version(connection)?;
    refuse_newer(version, file, OPERATION)?;
    if version < NEEDED {
        return Err(Error::new(ErrorKind::SchemaMissing, OPERATION)
            .subject(file.address.clone())
            .detail(format!("it has version {version}, {NEEDED} is needed"))
            .into());
    }
    Ok(())
}

/// Refuses to migrate what this program did not make and would not understand.
fn refuse(found: &Schema, file: &DatabaseFile) -> Result<(), Failure> {
    const OPERATION: &str = "migrating the schema";
    refuse_newer(found.version, file, OPERATION)?;
    if found.state == SchemaState::Changed {
        return Err(Error::new(ErrorKind::SchemaChanged, OPERATION)
            .subject(file.address.clone())
            .detail(format!("{}; nothing was changed", found.changed_words()))
            .into());
    }
    Ok(())
}

fn refuse_newer(version: u32, file: &DatabaseFile, operation: &'static str) -> Result<(), Failure> {
    if version > NEEDED {
        return Err(Error::new(ErrorKind::SchemaTooNew, operation)
            .subject(file.address.clone())
            .detail(format!("it has version {version}, this program knows {NEEDED}"))
            .into());
    }
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, Failure> {
    let version: Option<i64> =
        connection.prepare_cached(sql::VERSION)?.query_row([], |row| row.get(0)).optional()?;
    Ok(u32::try_from(version.unwrap_or(0)).unwrap_or(u32::MAX))
}

/// Versions that were applied with another text than this program has for them.
fn changed(connection: &Connection) -> Result<Vec<u32>, Failure> {
    let mut versions = connection.prepare(sql::VERSIONS)?;
    let applied = versions
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?
        .collect::<Result<HashMap<_, _>, _>>()?;
    let ours = (1_u32..).zip(sql::MIGRATIONS);
    let changed = ours.filter(|(version, text)| {
        applied.get(&i64::from(*version)).is_some_and(|found| *found != checksum(text))
    });
    Ok(changed.map(|(version, _)| version).collect())
}

/// The row that a migration wrote is not there.
pub(super) fn damaged(operation: &'static str, file: &DatabaseFile) -> Error {
    Error::new(ErrorKind::SchemaMissing, operation)
        .subject(file.address.clone())
        .detail("a row that `sendoff migrate` writes is not there")
}

/// FNV-1a with 64 bits: tells two texts apart, nothing more.
fn checksum(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
