//! A send in an sqlx transaction on PostgreSQL, and one that is rolled back.
//!
//! `DATABASE_URL` names the database.

use sendoff::postgres::{PostgresOptions, PostgresStore};
use sendoff::store::OutboxDesk;
use sendoff::{Message, Outbox};

/// Records an order and sends its message: both or neither.
async fn place_order(
    pool: &sqlx::PgPool,
    outbox: &Outbox,
    message: &Message,
    item: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO orders (customer, item) VALUES ($1, $2)")
        .bind(message.key())
        .bind(item)
        .execute(&mut *transaction)
        .await?;
    outbox.send(&mut transaction, message).await?;
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
    let url = std::env::var("DATABASE_URL")?;
    let store = PostgresStore::new(&url, PostgresOptions::default())?;
    store.migrate().await?;

    let pool = sqlx::PgPool::connect(&url).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (customer text, item text)")
        .execute(&pool)
        .await?;

    let outbox = Outbox::new("shop");
    for (customer, item) in [("ada", "a tent"), ("bob", "a dragon")] {
        let message = outbox.message("orders.placed").key(customer).body(item).build()?;
        match place_order(&pool, &outbox, &message, item).await {
            Ok(()) => println!("{customer} orders {item}: committed"),
            Err(error) => println!("{customer} orders {item}: rolled back, {error}"),
        }
        let found = store.find(message.id(), Some("shop")).await?;
        println!("  its message: {}", if found.is_empty() { "never sent" } else { "waiting" });
    }
    pool.close().await;
    Ok(())
}
