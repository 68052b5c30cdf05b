//! Sends: tokio-postgres, the plain INSERT, the SQL function.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use sendoff_core::outbox::Transaction;
use sendoff_core::store::{OutboxDesk, OutboxStore, Place};
use sendoff_core::time::Timestamp;
use sendoff_core::{ErrorKind, Message, Outbox};
use sendoff_stores::postgres::{INSERT_SQL, error_kind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::NoTls;

use crate::stage::{Owner, connect, content, message, migrated, published};

#[tokio::test]
async fn a_plain_insert_with_the_documented_text_is_a_message() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    let none: Option<&str> = None;
    let body: &[u8] = b"\0\xff";
    client
        .execute(
            &INSERT_SQL.replace("$5", "$5::text::jsonb").replace("$7", "$7::text::timestamptz"),
            &[&"1", &"psql", &"t", &none, &r#"{"a":"ü"}"#, &body, &none],
        )
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO sendoff.outbox (id, source, topic) VALUES ('2', 'psql', 't')")
        .await
        .unwrap();
    let rows = Owner::of(&store).await.rows(&store).await;
    let mut sent: Vec<&Message> = rows.iter().map(content).collect();
    sent.sort_by_key(|message| message.id());
    assert_eq!(sent[0].body().as_ref(), body);
    assert_eq!(sent[0].headers().get("a"), Some("ü"));
    assert_eq!((sent[1].id(), sent[1].body().len()), ("2", 0));
}

#[tokio::test]
async fn the_sql_function_sends_in_the_callers_transaction_whatever_the_search_path() {
    let (store, url) = migrated().await;
    let mut client = connect(&url).await;
    // A schema in front that has everything that the function uses, and breaks it.
    client
        .batch_execute(
            "CREATE SCHEMA evil; CREATE TABLE evil.outbox (id text); \
             CREATE FUNCTION evil.md5(text) RETURNS text LANGUAGE sql AS 'SELECT 1/0||$1'; \
             SET search_path = evil, public, pg_catalog",
        )
        .await
        .unwrap();
    let undone = client.transaction().await.unwrap();
    undone.query_one("SELECT sendoff.send('t', id => 'undone')", &[]).await.unwrap();
    undone.rollback().await.unwrap();
    let done = client.transaction().await.unwrap();
    let id: String = done
        .query_one(
            "SELECT sendoff.send('orders.placed', key => 'k', body => '\\x00ff', \
                                 headers => '{\"a\":\"b\"}', source => 'shop')",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    done.query_one("SELECT sendoff.send('later', due_at => now() + interval '1 hour')", &[])
        .await
        .unwrap();
    done.commit().await.unwrap();
    let rows = Owner::of(&store).await.rows(&store).await;
    assert_eq!(rows.len(), 1, "one is due");
    let sent = content(&rows[0]);
    let expected = Message::builder("shop", "orders.placed")
        .id(id)
        .key("k")
        .header("a", "b")
        .body(&b"\0\xff"[..])
        .build()
        .unwrap();
    assert_eq!(*sent, expected);
    assert_eq!(store.stats().await.unwrap().pending, 2);
}

#[tokio::test]
async fn a_due_time_of_infinity_never_comes_and_one_of_minus_infinity_has_come() {
    let (store, url) = migrated().await;
    connect(&url)
        .await
        .batch_execute(
            "SELECT sendoff.send('t', 'k', 'never', id => 'never', due_at => 'infinity'); \
             SELECT sendoff.send('t', 'k', 'now', id => 'now', due_at => '-infinity'); \
             SELECT sendoff.send('t', 'k', 'next', id => 'next')",
        )
        .await
        .unwrap();
    let owner = Owner::of(&store).await;
    let sight = store.look(&owner.look()).await.unwrap();
    let mut ids: Vec<&str> = sight.rows.iter().map(|row| content(row).id()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["next", "now"]);
    let due = sight.rows.iter().map(content).find(|message| message.id() == "now").unwrap();
    assert_eq!(due.due_at(), Some(Timestamp::MIN));
    let verdicts: Vec<_> = sight.rows.iter().map(|row| owner.verdict(row, published())).collect();
    store.settle(&owner.id, &verdicts).await.unwrap();
    // The one that never falls due stands in nobody's way: it is counted, shown and waited for.
    let sight = store.look(&owner.look()).await.unwrap();
    assert!(sight.rows.is_empty() && !sight.truncated);
    assert!(sight.next_due_in.is_none_or(|wait| wait.as_secs() > 86_400), "{sight:?}");
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.pending, stats.due, stats.published), (1, 0, 2));
    let found = store.find("never", None).await.unwrap();
    assert_eq!((found[0].place, found[0].due_at), (Place::DueLater, Some(Timestamp::MAX)));
}

#[tokio::test]
async fn a_duplicate_fails_the_callers_whole_transaction() {
    let (store, url) = migrated().await;
    let mut client = connect(&url).await;
    client.batch_execute("CREATE TABLE business (id int)").await.unwrap();
    store.send_all(&[message("1", "k")]).await.unwrap();
    let outbox = Outbox::new("test");
    let mut transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO business VALUES (1)", &[]).await.unwrap();
    let error = outbox
        .send_all(&mut transaction, &[message("2", "k"), message("1", "k")])
        .await
        .unwrap_err();
    assert_eq!(error_kind(&error), ErrorKind::Duplicate);
    // COMMIT of a failed transaction is a rollback.
    Transaction::commit(transaction).await.unwrap();
    let count: i64 = client.query_one("SELECT count(*) FROM business", &[]).await.unwrap().get(0);
    assert_eq!(count, 0);
    assert_eq!(store.stats().await.unwrap().pending, 1);
}

#[tokio::test]
async fn what_a_nested_transaction_rolled_back_is_not_sent_and_the_rest_is() {
    let (store, url) = migrated().await;
    let mut client = connect(&url).await;
    let outbox = Outbox::new("test");
    let mut outer = client.transaction().await.unwrap();
    outbox.send(&mut outer, &message("outer", "k")).await.unwrap();
    let mut inner = outer.transaction().await.unwrap();
    outbox.send(&mut inner, &message("undone", "k")).await.unwrap();
    inner.rollback().await.unwrap();
    let mut inner = outer.transaction().await.unwrap();
    outbox.send(&mut inner, &message("inner", "k")).await.unwrap();
    inner.commit().await.unwrap();
    outer.commit().await.unwrap();
    let rows = Owner::of(&store).await.rows(&store).await;
    let ids: Vec<&str> = rows.iter().map(|row| content(row).id()).collect();
    assert_eq!(ids, ["outer", "inner"]);
}

#[tokio::test]
async fn a_sender_needs_no_right_but_to_insert() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    let role = format!("sender_{}", url.rsplit_once('/').unwrap().1);
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA sendoff TO {role}; \
             GRANT INSERT ON sendoff.outbox TO {role}"
        ))
        .await
        .unwrap();
    let mut config: tokio_postgres::Config = url.parse().unwrap();
    let (mut sender, connection) = config.user(&role).connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut transaction = sender.transaction().await.unwrap();
    let messages = [message("1", "k"), message("2", "k")];
    Outbox::new("test").send_all(&mut transaction, &messages).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending, 2);
    let refused = sender.execute("DELETE FROM sendoff.message_key", &[]).await.unwrap_err();
    assert_eq!(error_kind(&refused), ErrorKind::Denied);
    drop(sender);
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// A connection that writes down what the client sends.
struct Recorder {
    line: TcpStream,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Recorder {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.line).poll_write(cx, bytes);
        if let Poll::Ready(Ok(length)) = written {
            self.sent.lock().unwrap().extend(&bytes[..length]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(cx)
    }
}

/// The kinds of the protocol messages, in order: P parse, B bind, D describe, E execute, S sync.
fn kinds(sent: &[u8]) -> String {
    let mut kinds = String::new();
    let mut rest = sent;
    while let [kind, a, b, c, d, ..] = *rest {
        kinds.push(char::from(kind));
        rest = &rest[1 + u32::from_be_bytes([a, b, c, d]) as usize..];
    }
    kinds
}

#[tokio::test]
async fn a_send_adds_one_unnamed_statement_and_nothing_else() {
    let (_store, url) = migrated().await;
    let config: tokio_postgres::Config = url.parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else { panic!("no tcp") };
    let line = TcpStream::connect((host.as_str(), config.get_ports()[0])).await.unwrap();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder { line, sent: Arc::clone(&sent) };
    let (mut client, connection) = config.connect_raw(recorder, NoTls).await.unwrap();
    tokio::spawn(connection);
    let outbox = Outbox::new("test");
    let many: Vec<Message> = (0..1_000).map(|n| message(&format!("{n}"), "k")).collect();
    for messages in [&many[..1], &many[1..]] {
        let mut transaction = client.transaction().await.unwrap();
        sent.lock().unwrap().clear();
        outbox.send_all(&mut transaction, messages).await.unwrap();
        let kinds = kinds(&sent.lock().unwrap());
        assert_eq!(kinds.matches('E').count(), 1, "one statement: {kinds}");
        assert_eq!(kinds.matches('S').count(), 1, "one round trip: {kinds}");
        // P, the length, then the statement's name: empty.
        assert_eq!((kinds.as_bytes()[0], sent.lock().unwrap()[5]), (b'P', 0), "it has no name");
        transaction.commit().await.unwrap();
    }
}
