//! The shop's SQL: its own tables, and plain reads of the columns of the outbox and its barriers.
//!
//! `sendoff verify` is a witness: it reads the tables itself and does not ask the store that it
//! checks.

/// The business table. `number` follows the order of the commits: SQLite has one writer.
pub(super) const CREATE_ORDERS: &str = "\
CREATE TABLE IF NOT EXISTS orders (
  number    INTEGER PRIMARY KEY AUTOINCREMENT,
  id        TEXT NOT NULL UNIQUE,
  customer  TEXT NOT NULL,
  item      TEXT NOT NULL,
  quantity  INTEGER NOT NULL,
  placed_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT";

pub(super) const INSERT_ORDER: &str =
    "INSERT INTO orders (id, customer, item, quantity) VALUES (?1, ?2, ?3, ?4) RETURNING number";

pub(super) const FIND_ORDER: &str =
    "SELECT number, id, customer, item, quantity FROM orders WHERE id = ?1";

pub(super) const COUNT_ORDERS: &str = "SELECT count(*) FROM orders";

pub(super) const ORDERS_AFTER: &str =
    "SELECT number, id, customer, item, quantity FROM orders WHERE number > ?1 ORDER BY number";

pub(super) const OUTBOX_IDS: &str =
    "SELECT id, held, quarantined_at IS NOT NULL FROM sendoff_outbox WHERE source = ?1";

pub(super) const CREATE_BATCHES: &str = "\
CREATE TABLE IF NOT EXISTS batches (
  id        TEXT PRIMARY KEY,
  documents INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS partner_answers (
  batch  TEXT NOT NULL,
  member TEXT NOT NULL,
  ok     INTEGER NOT NULL,
  PRIMARY KEY (batch, member)
) STRICT, WITHOUT ROWID";

pub(super) const INSERT_BATCH: &str = "INSERT INTO batches (id, documents) VALUES (?1, ?2)";

pub(super) const KEEP_ANSWER: &str = "\
INSERT INTO partner_answers (batch, member, ok) VALUES (?1, ?2, 1) ON CONFLICT DO NOTHING";

/// The probe of a batch's barrier. The id is one of ours: letters, digits and a hyphen.
pub(super) fn probe(batch: &str) -> String {
    format!("SELECT member, ok FROM partner_answers WHERE batch = '{batch}'")
}

pub(super) const BATCHES: &str = "\
SELECT batches.id, batches.documents, barrier.no, barrier.state, barrier.continuation_id
FROM batches JOIN sendoff_barrier AS barrier ON barrier.id = batches.id
WHERE barrier.tenant = '' AND NOT barrier.gone ORDER BY batches.id";

pub(super) const BATCH_MEMBERS: &str =
    "SELECT CAST(name AS TEXT), ok, missing FROM sendoff_barrier_member WHERE barrier = ?1";

pub(super) const IS_IN_OUTBOX: &str =
    "SELECT count(*) FROM sendoff_outbox WHERE source = 'sendoff.barrier' AND id = ?1";
