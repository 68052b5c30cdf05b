//! Sends from rusqlite transactions, and from programs that know only SQL.

use rusqlite::{Connection, ffi};
use sendoff_core::store::{Content, Outcome, RelayId};
use sendoff_core::time::Timestamp;
use sendoff_core::{ErrorKind, Message, Outbox};
use sendoff_stores::sqlite::{INSERT_SQL, kind_of};

use super::shop::{Shop, content, ids, message};

fn code(error: &rusqlite::Error) -> i32 {
    match error {
        rusqlite::Error::SqliteFailure(error, _) => error.extended_code,
        other => panic!("{other:?} does not come from SQLite"),
    }
}

fn count(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM sendoff_outbox", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_message_is_there_when_its_transaction_has_committed_and_not_before() {
    let shop = Shop::open().await;
    let mut service = shop.connection();
    let transaction = service.transaction().unwrap();
    Outbox::new("shop").send_blocking(&transaction, &message("a")).unwrap();
    assert!(shop.rows().await.is_empty());
    transaction.commit().unwrap();
    assert_eq!(ids(&shop.rows().await), ["a"]);
}

#[tokio::test]
async fn what_rolled_back_never_left_savepoints_included() {
    let shop = Shop::open().await;
    let outbox = Outbox::new("shop");
    let mut service = shop.connection();

    let transaction = service.transaction().unwrap();
    outbox.send_blocking(&transaction, &message("a")).unwrap();
    drop(transaction);
    assert!(shop.rows().await.is_empty());

    let mut transaction = service.transaction().unwrap();
    outbox.send_blocking(&transaction, &message("b")).unwrap();
    let savepoint = transaction.savepoint().unwrap();
    outbox.send_blocking(&savepoint, &message("c")).unwrap();
    drop(savepoint);
    let savepoint = transaction.savepoint().unwrap();
    outbox.send_blocking(&savepoint, &message("d")).unwrap();
    savepoint.commit().unwrap();
    transaction.commit().unwrap();
    assert_eq!(ids(&shop.rows().await), ["b", "d"]);

    // A pair that was rolled back was not sent, so it can be.
    let transaction = service.transaction().unwrap();
    outbox.send_all_blocking(&transaction, &[message("a"), message("c")]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(ids(&shop.rows().await), ["b", "d", "a", "c"]);
}

#[tokio::test]
async fn every_byte_survives() {
    let shop = Shop::open().await;
    let outbox = Outbox::new("shop");
    let large: Vec<u8> =
        (0..1_048_576_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let sent: Vec<Message> = [
        outbox.message("t").body(large),
        outbox.message("t").body(Vec::new()),
        outbox.message("t").body(vec![0, 1, 0, 255]),
        outbox
            .message("münchen/日本")
            .id("id/ü % ' \"")
            .key("")
            .header("trace-ü", "значение \" \\ 😀")
            .header("empty", "")
            .body("{}"),
        outbox
            .message("t")
            .key("k\u{1}")
            .header("large", "x".repeat(10_000))
            .due_at(Timestamp::from_microsecond(1_000_000_000_000_001).unwrap()),
    ]
    .into_iter()
    .map(|message| message.build().unwrap())
    .collect();
    let mut service = shop.connection();
    let transaction = service.transaction().unwrap();
    outbox.send_all_blocking(&transaction, &sent).unwrap();
    transaction.commit().unwrap();
    let found: Vec<Message> = shop.rows().await.iter().map(|row| content(row).clone()).collect();
    assert_eq!(found, sent);
}

#[tokio::test]
async fn a_second_send_of_a_pair_is_a_unique_violation_also_when_the_first_has_left() {
    let shop = Shop::open().await;
    let outbox = Outbox::new("shop");
    let mut service = shop.connection();
    shop.send(&[message("a")]).await;
    let transaction = service.transaction().unwrap();
    let again = |transaction: &rusqlite::Transaction<'_>| {
        outbox.send_blocking(transaction, &message("a")).unwrap_err()
    };
    assert_eq!(code(&again(&transaction)), ffi::SQLITE_CONSTRAINT_UNIQUE);
    // The command failed, the transaction did not.
    outbox.send_blocking(&transaction, &message("b")).unwrap();
    transaction.commit().unwrap();

    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    let rows = shop.rows().await;
    assert_eq!(ids(&rows), ["a", "b"]);
    let published = Outcome::Published { releases: false };
    shop.settle(&relay, epoch, &rows[0], published).await;
    let transaction = service.transaction().unwrap();
    let error = again(&transaction);
    assert_eq!(code(&error), ffi::SQLITE_CONSTRAINT_UNIQUE);
    assert_eq!(kind_of(&error), ErrorKind::Duplicate);
    // Another source's message may have the same id.
    let other = Outbox::new("other").message("t").id("a").build().unwrap();
    outbox.send_blocking(&transaction, &other).unwrap();
    transaction.commit().unwrap();
    assert_eq!(ids(&shop.rows().await), ["b", "a"]);
}

#[tokio::test]
async fn a_batch_with_a_duplicate_in_it_writes_nothing_and_leaves_the_transaction_usable() {
    let shop = Shop::open().await;
    let outbox = Outbox::new("shop");
    let mut service = shop.connection();
    let transaction = service.transaction().unwrap();
    outbox.send_blocking(&transaction, &message("before")).unwrap();
    let batch = [message("a"), message("b"), message("a")];
    let error = outbox.send_all_blocking(&transaction, &batch).unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_CONSTRAINT_UNIQUE);
    outbox.send_blocking(&transaction, &message("after")).unwrap();
    outbox.send_all_blocking(&transaction, &[]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(ids(&shop.rows().await), ["before", "after"]);
}

#[tokio::test]
async fn a_plain_insert_of_any_language_is_complete() {
    let shop = Shop::open().await;
    let service = shop.connection();
    service
        .execute(
            "INSERT INTO sendoff_outbox (id, source, topic) VALUES ('a', 'elsewhere', 'orders')",
            [],
        )
        .unwrap();
    service
        .execute(
            INSERT_SQL,
            ("b", "elsewhere", "orders", "k", r#"{"n":"v"}"#, "text as body", None::<i64>),
        )
        .unwrap();
    let rows = shop.rows().await;
    assert_eq!(ids(&rows), ["a", "b"]);
    assert_eq!(content(&rows[0]).key(), None);
    assert!(content(&rows[0]).headers().is_empty());
    assert!(content(&rows[0]).body().is_empty());
    assert_eq!(content(&rows[1]).headers().get("n"), Some("v"));
    assert_eq!(content(&rows[1]).body().as_ref(), b"text as body");
}

#[tokio::test]
async fn no_kind_of_insert_smuggles_a_duplicate_in() {
    let shop = Shop::open().await;
    let service = shop.connection();
    let insert = |verb: &str, tail: &str| {
        let columns = "(id, source, topic, body)";
        service.execute(
            &format!(
                "{verb} INTO sendoff_outbox {columns} VALUES ('a', 's', 't', random()||'') {tail}"
            ),
            [],
        )
    };
    insert("INSERT OR IGNORE", "").unwrap();
    let stored = || -> Vec<(i64, Vec<u8>)> {
        let mut rows = service
            .prepare(
                "SELECT k.seq, CAST(body AS BLOB) FROM sendoff_outbox JOIN sendoff_message_key k",
            )
            .unwrap();
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    };
    let first = stored();
    for (verb, tail) in [
        ("INSERT", ""),
        ("INSERT OR ABORT", ""),
        ("INSERT OR FAIL", ""),
        ("INSERT OR ROLLBACK", ""),
        ("INSERT OR IGNORE", ""),
        ("INSERT OR REPLACE", ""),
        ("REPLACE", ""),
        ("INSERT", "ON CONFLICT DO NOTHING"),
        ("INSERT", "ON CONFLICT DO UPDATE SET topic = 'u'"),
    ] {
        let error = insert(verb, tail).unwrap_err();
        assert_eq!(kind_of(&error), ErrorKind::Duplicate, "{verb} {tail}");
        assert_eq!(stored(), first, "{verb} {tail}");
    }
}

#[tokio::test]
async fn the_table_refuses_what_is_over_a_limit_and_names_the_limit() {
    let shop = Shop::open().await;
    let service = shop.connection();
    let long = "é".repeat(128);
    let cases: [(&str, &str, rusqlite::types::Value); 9] = [
        ("id", "the_id_has", String::new().into()),
        ("id", "the_id_has", long.clone().into()),
        ("id", "the_id_has", vec![1_u8].into()),
        ("source", "the_source_has", long.clone().into()),
        ("topic", "the_topic_has", long.into()),
        ("key", "the_key_has", "k".repeat(1025).into()),
        ("headers", "headers_are_text", vec![1_u8].into()),
        ("body", "the_body_is", 7.into()),
        // Nanoseconds by mistake: it would be due in the year 58,000.
        ("due_at", "due_at_is_in_microseconds", 1_800_000_000_000_000_000_i64.into()),
    ];
    for (column, constraint, value) in cases {
        let mut columns = vec!["id", "source", "topic"];
        columns.retain(|name| *name != column);
        let sql = format!(
            "INSERT INTO sendoff_outbox ({column}, {}) VALUES (?1, {})",
            columns.join(", "),
            vec!["'x'"; columns.len()].join(", ")
        );
        let error = service.execute(&sql, [value]).unwrap_err();
        assert_eq!(code(&error), ffi::SQLITE_CONSTRAINT_CHECK, "{column}");
        assert!(error.to_string().contains(constraint), "{error}");
    }
    assert_eq!(count(&service), 0);
}

#[tokio::test]
async fn rows_of_other_programs_that_do_not_decode_are_content_and_quote_no_value() {
    let shop = Shop::open().await;
    let service = shop.connection();
    let insert = |id: &str, key: &str, headers: &str| {
        service
            .execute(
                &format!(
                    "INSERT INTO sendoff_outbox (id, source, topic, key, headers, body)
                     VALUES ({id}, 's', 't', {key}, {headers}, 'secret body')"
                ),
                [],
            )
            .unwrap();
    };
    insert("'a'", "NULL", "'not json: secret'");
    insert("'b'", "NULL", "'{\"n\": 1}'");
    insert("'c'", "CAST(x'ff' AS TEXT)", "'{}'");
    insert("CAST(x'fe' AS TEXT)", "NULL", "'{}'");
    insert("'d' || char(10)", "NULL", "'{}'");
    insert("'good'", "NULL", "'{}'");
    let rows = shop.rows().await;
    assert_eq!(rows.len(), 6);
    for row in &rows[..5] {
        let Content::Undecodable(why) = &row.content else {
            panic!("{row:?}");
        };
        assert!(!why.contains("secret"), "{why}");
    }
    assert_eq!(content(&rows[5]).id(), "good");
    assert_eq!(rows[2].key, None);
}

#[tokio::test]
async fn a_table_that_was_emptied_does_not_begin_its_numbers_again() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    shop.send(&[message("a"), message("b")]).await;
    let before = shop.look().await;
    for row in &before.rows {
        let published = Outcome::Published { releases: false };
        assert_eq!(shop.settle(&relay, epoch, row, published).await.published, 1);
    }
    let service = shop.connection();
    assert_eq!(count(&service), 0);
    // The horizon stays too: nothing at or below it can come.
    assert_eq!(shop.look().await.horizon, before.horizon);
    shop.send(&[message("c")]).await;
    let after = shop.look().await;
    assert!(after.rows[0].seq > before.rows[1].seq);
    let horizon = after.horizon.unwrap();
    assert_eq!(horizon.seq, after.rows[0].seq);
    assert_eq!(horizon.oldest, horizon.next);
}
