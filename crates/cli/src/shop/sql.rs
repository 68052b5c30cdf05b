//! The shop's SQL: its own table, and one plain read of the outbox's documented columns.
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
