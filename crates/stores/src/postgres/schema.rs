//! The schema: what has to be there, what is, and the migrations that make it so.

use sendoff_core::store::{Schema, SchemaState};
use sendoff_core::{Error, ErrorKind, Result};
use tokio_postgres::Client;

use super::pool::{Checkout, Pool};
use super::sql;

/// The version that this program needs.
pub(super) const VERSION: u32 = 3;

/// Every migration may run again on a schema that has it.
const MIGRATIONS: [(u32, &str); 3] = [
    (1, include_str!("migrations/0001_outbox.sql")),
    (
        2,
        concat!(
            include_str!("migrations/0002_barrier.sql"),
            include_str!("migrations/0002_barrier_baton.sql"),
            include_str!("migrations/0002_barrier_ack.sql"),
            include_str!("migrations/0002_barrier_create.sql"),
            include_str!("migrations/0002_barrier_change.sql"),
            include_str!("migrations/0002_barrier_close.sql"),
            include_str!("migrations/0002_barrier_read.sql"),
            include_str!("migrations/0002_barrier_api.sql"),
        ),
    ),
    (3, concat!(include_str!("migrations/0003_pause.sql"))),
];

/// Tables, indexes and sequences in the schema `sendoff`.
const RELATIONS: [&str; 32] = [
    "schema_version",
    "outbox",
    "outbox_seq_seq",
    "outbox_pkey",
    "outbox_ready",
    "outbox_waiting",
    "outbox_blockers",
    "outbox_held",
    "outbox_quarantine",
    "outbox_parked",
    "message_key",
    "message_key_sweep",
    "lane",
    "relay",
    "tally",
    "total",
    "pause",
    "pause_pkey",
    "barrier",
    "barrier_no_seq",
    "barrier_pkey",
    "barrier_id",
    "barrier_expiry",
    "barrier_gone",
    "barrier_open",
    "barrier_member",
    "barrier_member_pkey",
    "barrier_member_pending",
    "barrier_member_failed",
    "barrier_evidence",
    "barrier_evidence_n_seq",
    "barrier_evidence_pkey",
];
const FUNCTIONS: [&str; 44] = [
    "send",
    "record_keys",
    "barrier_message_id",
    "barrier_lacking",
    "barrier_watches",
    "barrier_errand",
    "barrier_finish",
    "barrier_hand_on",
    "barrier_evaluate",
    "barrier_hand_on_patiently",
    "barrier_settle",
    "barrier_resolve",
    "barrier_resolve_one",
    "barrier_has_left",
    "barrier_is_over",
    "barrier_fill",
    "barrier_insert",
    "barrier_lock",
    "barrier_refusal",
    "barrier_takes_none",
    "barrier_changed",
    "barrier_grow",
    "barrier_seal",
    "barrier_cancel",
    "barrier_reopen",
    "barrier_due",
    "barrier_close",
    "barrier_give_up",
    "barrier_closed",
    "barrier_findings",
    "barrier_mend",
    "barrier_sweep",
    "barrier_micros",
    "barrier_standing",
    "barrier_state",
    "barrier_list",
    "barrier_page",
    "barrier_reasons",
    "barrier_names",
    "barrier_witness",
    "barrier_time",
    "barrier_create",
    "barrier_ack",
    "barrier_status",
];
const TRIGGERS: [&str; 1] = ["outbox_record_keys"];

const READING: &str = "reading the schema version";
const MIGRATING: &str = "migrating the schema";

pub(super) async fn schema(pool: &Pool) -> Result<Schema> {
    let checkout = pool.checkout(READING).await?;
    let schema = read(checkout.client()).await.map_err(|error| checkout.failed(error))?;
    checkout.keep();
    Ok(schema)
}

pub(super) async fn migrate(pool: &Pool, address: &str) -> Result<Schema> {
    let mut checkout = pool.checkout(MIGRATING).await?;
    let schema = match migrate_on(&mut checkout).await {
        Ok(schema) => schema,
        Err(error) => return Err(checkout.failed(error)),
    };
    checkout.keep();
    match schema.state {
        SchemaState::Current => Ok(schema),
        SchemaState::TooNew => {
            Err(Error::new(ErrorKind::SchemaTooNew, MIGRATING).subject(address).detail(format!(
                "it has version {}, this program knows {VERSION}; nothing was changed",
                schema.version
            )))
        }
        SchemaState::Changed => Err(Error::new(ErrorKind::SchemaChanged, MIGRATING)
            .subject(address)
            .detail(format!("{}; nothing was changed", schema.changed_words()))),
        SchemaState::Missing => Err(Error::new(ErrorKind::Unexpected, MIGRATING)
            .subject(address)
            .detail(format!("still missing: {}", schema.missing.join(", ")))),
    }
}

async fn migrate_on(
    checkout: &mut Checkout<'_>,
) -> std::result::Result<Schema, tokio_postgres::Error> {
    let transaction = checkout.client_mut().transaction().await?;
    transaction.batch_execute(sql::MIGRATION_LOCK).await?;
    // Read under the lock: whoever migrated at the same time is done.
    let before = read(transaction.client()).await?;
    if before.state != SchemaState::Missing {
        transaction.rollback().await?;
        return Ok(before);
    }
    for (version, text) in MIGRATIONS {
        let version = i32::try_from(version).unwrap_or(i32::MAX);
        transaction.batch_execute(text).await?;
        transaction.execute(sql::SCHEMA_RECORD, &[&version, &text]).await?;
    }
    let after = read(transaction.client()).await?;
    transaction.commit().await?;
    Ok(after)
}

async fn read(client: &Client) -> std::result::Result<Schema, tokio_postgres::Error> {
    let exists: bool = client.query_one(sql::SCHEMA_EXISTS, &[]).await?.get(0);
    let mut version = 0;
    let mut changed: Vec<u32> = Vec::new();
    if exists {
        let found: i32 = client.query_one(sql::SCHEMA_VERSION, &[]).await?.get(0);
        version = u32::try_from(found).unwrap_or(0);
        let versions: Vec<i32> =
            MIGRATIONS.iter().filter_map(|(version, _)| i32::try_from(*version).ok()).collect();
        let texts: Vec<&str> = MIGRATIONS.iter().map(|(_, text)| *text).collect();
        let rows = client.query(sql::SCHEMA_CHANGED, &[&versions, &texts]).await?;
        changed.extend(rows.iter().filter_map(|row| u32::try_from(row.get::<_, i32>(0)).ok()));
    }
    let mut missing: Vec<String> = Vec::new();
    if version <= VERSION {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&&RELATIONS[..], &&FUNCTIONS[..], &&TRIGGERS[..]];
        let rows = client.query(sql::SCHEMA_MISSING, &params).await?;
        missing.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    let state = if version > VERSION {
        SchemaState::TooNew
    } else if !changed.is_empty() {
        SchemaState::Changed
    } else if version == VERSION && missing.is_empty() {
        SchemaState::Current
    } else {
        SchemaState::Missing
    };
    Ok(Schema { version, needed: VERSION, state, missing, changed })
}
