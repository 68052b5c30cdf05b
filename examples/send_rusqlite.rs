//! A send in a rusqlite transaction, and one that is rolled back.

use sendoff::Outbox;
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::store::OutboxDesk;

/// Records an order and sends its message: both or neither.
fn place_order(
    database: &mut rusqlite::Connection,
    outbox: &Outbox,
    customer: &str,
    item: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let message = outbox.message("orders.placed").key(customer).body(item.to_owned()).build()?;

    let transaction = database.transaction()?;
    transaction.execute("INSERT INTO orders (customer, item) VALUES (?1, ?2)", (customer, item))?;
    outbox.send_blocking(&transaction, &message)?;
    if item == "a dragon" {
        // Returning drops the transaction, which rolls it back: no order and no message.
        return Err("we do not sell dragons".into());
    }
    transaction.commit()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");

    // Once, as `sendoff migrate` does it: the outbox's tables in the shop's own file.
    let store = SqliteStore::open(&path, SqliteOptions { create: true, ..Default::default() })?;
    store.migrate().await?;

    let mut database = rusqlite::Connection::open(&path)?;
    // A commit has to survive a power cut, and has to wait where another connection writes.
    database.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;")?;
    database.execute_batch("CREATE TABLE orders (customer TEXT, item TEXT)")?;

    let outbox = Outbox::new("shop");
    place_order(&mut database, &outbox, "ada", "a tent")?;
    println!("ada orders a tent: committed");
    if let Err(error) = place_order(&mut database, &outbox, "bob", "a dragon") {
        println!("bob orders a dragon: rolled back, {error}");
    }

    let orders: u64 = database.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
    println!("orders: {orders}, messages waiting: {}", store.stats().await?.pending);
    Ok(())
}
