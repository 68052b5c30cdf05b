//! The file: missing, wrong, exchanged, read-only, full, not migrated, too new.

use std::error::Error as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rusqlite::ffi;
use sendoff_core::error::Retry;
use sendoff_core::store::{Ask, OutboxDesk, OutboxStore, RelayId, SchemaState};
use sendoff_core::{Error, ErrorKind, Outbox};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore, Synchronous, kind_of};

use super::shop::{PATIENCE, Shop, connection, everything, ids, message, request};

fn open(path: &Path, create: bool) -> Result<SqliteStore, Error> {
    let options = SqliteOptions { create, ..SqliteOptions::default() };
    SqliteStore::open(path, options)
}

#[tokio::test]
async fn a_file_that_is_not_there_is_an_error_that_names_migrate_and_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let error = open(&path, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("sendoff migrate"), "{error}");
    assert!(error.to_string().contains("shop.db"), "{error}");
    assert!(!path.exists());
    let error = open(&folder.path().join("no/shop.db"), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("folder"), "{error}");
}

#[tokio::test]
async fn what_is_not_a_database_is_told_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "these are my notes, and they are long enough to have a head".repeat(20);
    std::fs::write(&path, &text).unwrap();
    let error = open(&path, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let error = open(folder.path(), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("it is a folder"), "{error}");
    for nothing in ["", ":memory:"] {
        let error = open(Path::new(nothing), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{nothing:?}");
    }
}

#[tokio::test]
async fn a_name_that_looks_like_a_uri_is_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file:shop.db?mode=memory");
    let store = open(&path, true).unwrap();
    store.migrate().await.unwrap();
    assert!(path.exists());
}

#[tokio::test]
async fn a_new_file_is_in_wal_mode_and_one_of_an_older_mode_is_turned() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path| -> String {
        connection(path).query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
    };
    let path = folder.path().join("new.db");
    let store = open(&path, true).unwrap();
    assert_eq!(mode(&path), "wal");
    store.migrate().await.unwrap();
    drop(store);

    // A database that the service has already, in the mode that SQLite begins with.
    let path = folder.path().join("old.db");
    connection(&path).execute_batch("CREATE TABLE orders (item TEXT)").unwrap();
    assert_eq!(mode(&path), "delete");
    let store = open(&path, false).unwrap();
    assert_eq!(mode(&path), "delete", "opening alone changes nothing");
    store.migrate().await.unwrap();
    assert_eq!(mode(&path), "wal");
}

#[tokio::test]
async fn a_file_that_was_deleted_under_the_store_is_told_and_its_successor_is_used() {
    let shop = Shop::open().await;
    shop.send(&[message("a")]).await;
    assert_eq!(ids(&shop.rows().await), ["a"]);
    for end in ["", "-wal", "-shm"] {
        let mut path = shop.path.clone().into_os_string();
        path.push(end);
        let _ = std::fs::remove_file(path);
    }
    for error in [
        shop.store.look(&everything()).await.unwrap_err(),
        shop.store.send_all(&[message("b")]).await.unwrap_err(),
        shop.store.stats().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.to_string().contains("not there any more"), "{error}");
    }
    assert!(!shop.path.exists(), "nobody made an empty one in its place");

    let other = open(&shop.path, true).unwrap();
    let error = shop.store.look(&everything()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMissing);
    other.migrate().await.unwrap();
    other.send_all(&[message("c")]).await.unwrap();
    assert_eq!(ids(&shop.rows().await), ["c"]);
}

/// Root may write what is read-only, so the child of this test runs as somebody else.
#[tokio::test]
async fn a_read_only_file_can_be_read_and_says_so_when_it_is_written() {
    let shop = Shop::open().await;
    shop.send(&[message("a")]).await;
    drop(shop.store);
    // The last connection closes a moment later and takes its -wal and -shm along.
    super::shop::wait_until("the store is closed", || {
        std::fs::read_dir(shop.folder.path()).unwrap().count() == 1
    });
    let only_read = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(&shop.path, only_read).unwrap();
    // Readers make -shm, so the folder is not what is closed here.
    std::fs::set_permissions(shop.folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(std::env::current_exe().unwrap());
        command
    } else {
        Command::new(std::env::current_exe().unwrap())
    };
    let done = command
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("file::child_meets_a_read_only_file")
        .env("SENDOFF_TEST_CHILD_PATH", &shop.path)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
}

#[tokio::test]
#[ignore = "the child of the test above"]
async fn child_meets_a_read_only_file() {
    let path = std::env::var("SENDOFF_TEST_CHILD_PATH").unwrap();
    let store = open(Path::new(&path), false).unwrap();
    assert_eq!(store.stats().await.unwrap().pending, 1);
    let lease = request(&RelayId::new(), PATIENCE, Ask::Share);
    for error in
        [store.send_all(&[message("b")]).await.unwrap_err(), store.lease(&lease).await.unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        let text = error.to_string();
        assert!(text.contains("let this user write"), "{text}");
        assert_eq!(text.matches("readonly database").count(), 1, "said once: {text}");
    }
}

#[tokio::test]
async fn a_full_disk_fails_the_send_and_loses_nothing_that_committed() {
    let shop = Shop::open().await;
    shop.send(&[message("before")]).await;
    let mut service = shop.connection();
    service.execute_batch("PRAGMA max_page_count = 64").unwrap();
    let transaction = service.transaction().unwrap();
    let outbox = Outbox::new("shop");
    let large = outbox.message("t").body(vec![7; 1 << 20]).build().unwrap();
    let error = outbox.send_all_blocking(&transaction, &[message("small"), large]).unwrap_err();
    assert_eq!(error.sqlite_error().unwrap().code, ffi::ErrorCode::DiskFull);
    assert_eq!(kind_of(&error), ErrorKind::DiskFull);
    // Nothing of the batch is left, whatever the caller does with the transaction now.
    let _ = transaction.commit();
    assert_eq!(ids(&shop.rows().await), ["before"]);
    shop.send(&[message("after")]).await;
    assert_eq!(ids(&shop.rows().await), ["before", "after"]);
}

#[tokio::test]
async fn a_store_that_was_not_migrated_says_so_to_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let store = open(&path, true).unwrap();
    let schema = store.schema().await.unwrap();
    assert_eq!((schema.version, schema.state), (0, SchemaState::Missing));
    assert!(schema.missing.iter().any(|name| name == "sendoff_outbox"));
    let relay = RelayId::new();
    for error in [
        store.look(&everything()).await.unwrap_err(),
        store.settle(&relay, &[]).await.unwrap_err(),
        store.sweep(1).await.unwrap_err(),
        store.stats().await.unwrap_err(),
        store.find("a", None).await.unwrap_err(),
        store.quarantined(0, 1).await.unwrap_err(),
        store.send_all(&[message("a")]).await.unwrap_err(),
        store.lease(&request(&relay, PATIENCE, Ask::Share)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::SchemaMissing);
        assert!(error.to_string().contains("sendoff migrate"), "{error}");
        assert!(!error.to_string().contains("SELECT"), "{error}");
        assert!(error.source().is_some());
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_not_touched() {
    let shop = Shop::open().await;
    let service = shop.connection();
    service
        .execute(
            "INSERT INTO sendoff_schema_version (version, applied_at, checksum) VALUES (999, 0, '')",
            [],
        )
        .unwrap();
    service.execute("DROP INDEX sendoff_outbox_held", []).unwrap();
    assert_eq!(shop.store.schema().await.unwrap().state, SchemaState::TooNew);
    for error in [
        shop.store.migrate().await.unwrap_err(),
        shop.store.look(&everything()).await.unwrap_err(),
        shop.store.send_all(&[message("a")]).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::SchemaTooNew, "{error}");
    }
    let schema = shop.store.schema().await.unwrap();
    assert_eq!(schema.missing, ["sendoff_outbox_held"], "it is still as it was");
}

#[tokio::test]
async fn a_schema_that_another_text_of_a_migration_made_is_refused_and_not_touched() {
    let shop = Shop::open().await;
    shop.connection()
        .execute_batch(
            "UPDATE sendoff_schema_version SET checksum = 'of another text' WHERE version = 1;
             DROP INDEX sendoff_outbox_held;",
        )
        .unwrap();
    let schema = shop.store.schema().await.unwrap();
    assert_eq!((schema.state, &schema.changed), (SchemaState::Changed, &vec![1]));
    let error = shop.store.migrate().await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::SchemaChanged, Retry::Never), "{error}");
    let text = error.to_string();
    assert!(text.contains("migration 1") && text.contains("nothing was changed"), "{text}");
    assert_eq!(shop.store.schema().await.unwrap(), schema, "it is still as it was");
}

#[tokio::test]
async fn migrate_twice_changes_nothing_and_mends_what_was_dropped() {
    let shop = Shop::open().await;
    shop.send(&[message("a")]).await;
    let dump = |sql: &str| -> Vec<String> {
        let service = shop.connection();
        let mut rows = service.prepare(sql).unwrap();
        let rows = rows.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    let versions =
        "SELECT version || ' ' || applied_at || ' ' || checksum FROM sendoff_schema_version";
    let before = dump(versions);
    assert_eq!(before.len(), 3);
    assert_eq!(shop.store.migrate().await.unwrap().state, SchemaState::Current);
    assert_eq!(dump(versions), before);

    shop.connection()
        .execute_batch(
            "DROP TRIGGER sendoff_outbox_message_key; DROP INDEX sendoff_outbox_ready;
             DROP TABLE sendoff_total;",
        )
        .unwrap();
    let schema = shop.store.schema().await.unwrap();
    assert_eq!(schema.state, SchemaState::Missing);
    assert_eq!(
        schema.missing,
        ["sendoff_outbox_ready", "sendoff_outbox_message_key", "sendoff_total"]
    );
    assert_eq!(shop.store.migrate().await.unwrap().state, SchemaState::Current);
    shop.send(&[message("b")]).await;
    assert_eq!(ids(&shop.rows().await), ["a", "b"]);
}

#[tokio::test]
async fn a_store_of_the_first_version_is_upgraded_and_keeps_its_messages() {
    let shop = Shop::open().await;
    shop.send(&[message("a")]).await;
    let service = shop.connection();
    let mut tables = service
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' \
              AND (name LIKE 'sendoff_barrier%' OR name LIKE 'sendoff_pa%')",
        )
        .unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(tables.len(), 6);
    for table in tables {
        service.execute_batch(&format!("DROP TABLE {table}")).unwrap();
    }
    service
        .execute_batch(
            "DROP INDEX sendoff_outbox_holders; DROP INDEX sendoff_outbox_stop;
             ALTER TABLE sendoff_outbox DROP COLUMN holds;
             DELETE FROM sendoff_schema_version WHERE version > 1;
             ALTER TABLE sendoff_schema_version DROP COLUMN usable_from;
             ALTER TABLE sendoff_relay DROP COLUMN version; ALTER TABLE sendoff_relay DROP COLUMN target;
             DROP TABLE sendoff_kept; DROP TABLE sendoff_retention; DROP TABLE sendoff_resent;",
        )
        .unwrap();
    let schema = shop.store.schema().await.unwrap();
    assert_eq!((schema.version, schema.needed, schema.state), (1, 3, SchemaState::Missing));
    assert_eq!(shop.store.sweep(1).await.unwrap_err().kind(), ErrorKind::SchemaMissing);
    let schema = shop.store.migrate().await.unwrap();
    assert_eq!((schema.version, schema.state), (3, SchemaState::Current));
    assert_eq!(ids(&shop.rows().await), ["a"]);
}

#[tokio::test]
async fn an_outbox_that_was_dropped_goes_on_behind_its_numbers() {
    let shop = Shop::open().await;
    shop.send(&[message("a"), message("b")]).await;
    let last = shop.rows().await[1].seq;
    shop.connection().execute_batch("DROP TABLE sendoff_outbox").unwrap();
    shop.store.migrate().await.unwrap();
    shop.send(&[message("c")]).await;
    assert!(shop.rows().await[0].seq > last);
}

#[tokio::test]
async fn a_file_restored_from_a_dump_gets_its_mode_back() {
    let shop = Shop::open().await;
    drop(shop.store);
    super::shop::wait_until("the store is closed", || {
        std::fs::read_dir(shop.folder.path()).unwrap().count() == 1
    });
    let mode = || -> String { shop_mode(&shop.path, "PRAGMA journal_mode") };
    assert_eq!(shop_mode(&shop.path, "PRAGMA journal_mode = DELETE"), "delete");
    let store = open(&shop.path, false).unwrap();
    assert_eq!(mode(), "delete");
    store.sweep(1).await.unwrap();
    assert_eq!(mode(), "wal");
}

fn shop_mode(path: &Path, pragma: &str) -> String {
    connection(path).query_row(pragma, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_busy_timeout_out_of_range_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        busy_timeout: std::time::Duration::from_secs(3_601),
        create: true,
        synchronous: Synchronous::Normal,
        ..SqliteOptions::default()
    };
    let error = SqliteStore::open(&folder.path().join("shop.db"), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
