//! A send in a tokio-postgres transaction, with a savepoint that is rolled back.
//!
//! `DATABASE_URL` names the database.

use sendoff::postgres::{PostgresOptions, PostgresStore};
use sendoff::store::OutboxDesk;
use sendoff::{Message, Outbox};

/// Records an order with its message, and offers a gift; a gift that fails takes only its own
/// message back.
async fn place_order(
    client: &mut tokio_postgres::Client,
    order: &Message,
    gift: &Message,
) -> Result<(), tokio_postgres::Error> {
    let mut transaction = client.transaction().await?;
    transaction
        .execute("INSERT INTO orders (customer, item) VALUES ('ada', 'a tent')", &[])
        .await?;
    Outbox::new("shop").send(&mut transaction, order).await?;

    let mut savepoint = transaction.savepoint("gift").await?;
    Outbox::new("shop").send(&mut savepoint, gift).await?;
    savepoint.rollback().await?;

    transaction.commit().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL")?;

    // Once, as `sendoff migrate` does it.
    let store = PostgresStore::new(&url, PostgresOptions::default())?;
    store.migrate().await?;

    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE IF NOT EXISTS orders (customer text, item text)").await?;

    let outbox = Outbox::new("shop");
    let order = outbox.message("orders.placed").key("ada").body("a tent").build()?;
    let gift = outbox.message("gifts.offered").key("ada").body("a mug").build()?;
    place_order(&mut client, &order, &gift).await?;

    for (name, message) in [("order", &order), ("gift", &gift)] {
        let found = store.find(message.id(), Some("shop")).await?;
        match found.first() {
            Some(standing) => println!("{name}: {:?}", standing.place),
            None => println!("{name}: never sent"),
        }
    }

    // The same message again fails the transaction that tries it.
    let mut transaction = client.transaction().await?;
    let again = outbox.send(&mut transaction, &order).await;
    let duplicate = again.is_err_and(|error| {
        error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
    });
    println!("the order again: {}", if duplicate { "refused" } else { "sent" });
    Ok(())
}
