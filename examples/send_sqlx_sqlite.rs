//! A send in an sqlx transaction on SQLite, and one that is rolled back.

use sendoff::Outbox;
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::store::OutboxDesk;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};

/// Records an order and sends its message: both or neither.
async fn place_order(
    pool: &sqlx::SqlitePool,
    outbox: &Outbox,
    customer: &str,
    item: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let message = outbox.message("orders.placed").key(customer).body(item.to_owned()).build()?;

    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO orders (customer, item) VALUES (?1, ?2)")
        .bind(customer)
        .bind(item)
        .execute(&mut *transaction)
        .await?;
    outbox.send(&mut transaction, &message).await?;
    if item == "a dragon" {
        // Dropping it would only queue the rollback until the connection is used again.
        transaction.rollback().await?;
        return Err("we do not sell dragons".into());
    }
    transaction.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");

    let store = SqliteStore::open(&path, SqliteOptions { create: true, ..Default::default() })?;
    store.migrate().await?;

    // sqlx's own default is NORMAL in WAL mode only where one asks for it; say it all the same.
    let options = SqliteConnectOptions::new().filename(&path).synchronous(SqliteSynchronous::Full);
    let pool = sqlx::SqlitePool::connect_with(options).await?;
    sqlx::query("CREATE TABLE orders (customer TEXT, item TEXT)").execute(&pool).await?;

    let outbox = Outbox::new("shop");
    place_order(&pool, &outbox, "ada", "a tent").await?;
    println!("ada orders a tent: committed");
    if let Err(error) = place_order(&pool, &outbox, "bob", "a dragon").await {
        println!("bob orders a dragon: rolled back, {error}");
    }

    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await?;
    println!("orders: {orders}, messages waiting: {}", store.stats().await?.pending);
    pool.close().await;
    Ok(())
}
