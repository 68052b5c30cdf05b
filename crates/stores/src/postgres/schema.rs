//! The schema: what has to be there, what is, and the migrations that make it so.

use sendoff_core::store::{Schema, SchemaState};
use sendoff_core::{Error, ErrorKind, Result};
use tokio_postgres::Client;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::pool::{Checkout, Pool};
use super::schema_name::SchemaName;
use super::sql;
use super::statement::Whole;

/// The version that this program needs.
pub(super) const VERSION: u32 = 3;

/// The least version that a program has to know to use [`VERSION`]: what came since then only added.
const USABLE_FROM: u32 = 2;

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
    (
        3,
        concat!(
            include_str!("migrations/0003_keep.sql"),
            include_str!("migrations/0003_pause.sql"),
            include_str!("migrations/0003_policy.sql"),
            include_str!("migrations/0003_roles.sql"),
        ),
    ),
];

/// Tables, indexes and sequences in the schema `sendoff`.
const RELATIONS: [&str; 41] = [
    "schema_version",
    "outbox",
    "outbox_seq_seq",
    "outbox_pkey",
    "outbox_ready",
    "outbox_waiting",
    "outbox_blockers",
    "outbox_holders",
    "outbox_stop",
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
    "retention",
    "kept",
    "kept_rest",
    "kept_time",
    "kept_id",
    "kept_partition",
    "resent",
];
const FUNCTIONS: [&str; 46] = [
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
    "keep_turn",
    "resend",
];
const TRIGGERS: [&str; 1] = ["outbox_record_keys"];

const READING: &str = "reading the schema version";
const MIGRATING: &str = "migrating the schema";

pub(super) async fn schema(pool: &Pool) -> Result<Schema> {
    let checkout = pool.checkout(READING).await?;
    let read = read(checkout.client(), checkout.schema()).await;
    let schema = read.map_err(|error| checkout.failed(error))?;
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
        SchemaState::Current | SchemaState::Newer => Ok(schema),
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
    let name = checkout.schema().clone();
    let transaction = checkout.transaction().await?;
    transaction.batch_execute(&sql::migration_lock(&name)).await?;
    // Read under the lock: whoever migrated at the same time is done.
    let before = read(transaction.client(), &name).await?;
    // Of a newer one the text is not known here, so what is missing there cannot be made.
    if before.state != SchemaState::Missing || before.version > VERSION {
        transaction.rollback().await?;
        return Ok(before);
    }
    for (version, text) in MIGRATIONS {
        // The checksum is of what is the same in every schema.
        transaction.batch_execute(&name.sql(text)).await?;
        ask(transaction.client(), &name, sql::SCHEMA_RECORD, &[&number(version), &text]).await?;
    }
    transaction.batch_execute(&name.sql(sql::PRIVATE)).await?;
    let versions: [&(dyn ToSql + Sync); 2] = [&number(VERSION), &number(USABLE_FROM)];
    ask(transaction.client(), &name, sql::SCHEMA_USABLE, &versions).await?;
    let after = read(transaction.client(), &name).await?;
    transaction.commit().await?;
    Ok(after)
}

fn number(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

async fn ask(
    client: &Client,
    name: &SchemaName,
    template: &'static str,
    params: &[&(dyn ToSql + Sync)],
) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
    Whole::new(name.sql(template)).query(client, params).await
}

async fn read(
    client: &Client,
    name: &SchemaName,
) -> std::result::Result<Schema, tokio_postgres::Error> {
    let found = ask(client, name, sql::SCHEMA_EXISTS, &[]).await?;
    let exists = found.first().is_some_and(|row| row.get(0));
    let (mut version, mut usable_from) = (0, 0);
    let mut changed: Vec<u32> = Vec::new();
    if exists {
        let found = ask(client, name, sql::SCHEMA_VERSION, &[]).await?;
        let found = |column: usize| {
            found.first().map_or(0, |row| u32::try_from(row.get::<_, i32>(column)).unwrap_or(0))
        };
        (version, usable_from) = (found(0), found(1));
        let versions: Vec<i32> = MIGRATIONS.iter().map(|(version, _)| number(*version)).collect();
        let texts: Vec<&str> = MIGRATIONS.iter().map(|(_, text)| *text).collect();
        let rows = ask(client, name, sql::SCHEMA_CHANGED, &[&versions, &texts]).await?;
        changed.extend(rows.iter().filter_map(|row| u32::try_from(row.get::<_, i32>(0)).ok()));
    }
    let is_usable = usable(version, usable_from);
    let mut missing: Vec<String> = Vec::new();
    if version <= VERSION || is_usable {
        let params: [&(dyn ToSql + Sync); 4] =
            [&&RELATIONS[..], &&FUNCTIONS[..], &&TRIGGERS[..], &name.quoted()];
        let rows = ask(client, name, sql::SCHEMA_MISSING, &params).await?;
        missing.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    let state = if version > VERSION && !is_usable {
        SchemaState::TooNew
    } else if !changed.is_empty() {
        SchemaState::Changed
    } else if version < VERSION || !missing.is_empty() {
        SchemaState::Missing
    } else if version > VERSION {
        SchemaState::Newer
    } else {
        SchemaState::Current
    };
    Ok(Schema { version, needed: VERSION, state, missing, changed })
}

/// Whether this program may use a schema of a version that programs may use from another version on.
pub(super) fn usable(version: u32, usable_from: u32) -> bool {
    version >= VERSION && usable_from <= VERSION
}
