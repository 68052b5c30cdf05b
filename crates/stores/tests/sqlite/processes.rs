//! Several processes at one file. A child is this test program, started again for one of the tests at
//! the end of this room.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::TransactionBehavior;
use sendoff_core::Outbox;
use sendoff_core::store::{Ask, OutboxDesk, OutboxStore, Outcome, RelayId};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore};

use super::shop::{PATIENCE, Shop, connection, ids, message, request};

const PATH: &str = "SENDOFF_TEST_CHILD_PATH";
const NAME: &str = "SENDOFF_TEST_CHILD_NAME";

/// Starts a child that runs one of the tests below.
fn child(test: &str, path: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
        .arg(format!("processes::{test}"))
        .env(PATH, path)
        .env(NAME, name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the child has said a word.
fn wait_for_word(child: &mut Child, word: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().contains(word)),
        "the child ended without saying {word:?}"
    );
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn four_processes_that_send_a_hundred_each_at_once_make_four_hundred_rows() {
    let shop = Shop::open().await;
    let children: Vec<Child> =
        (0..4).map(|n| child("child_sends_a_hundred", &shop.path, &format!("child-{n}"))).collect();
    for mut child in children {
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
    }
    let rows = shop.rows().await;
    assert_eq!(rows.len(), 400);
    for n in 0..4 {
        let own: Vec<String> =
            ids(&rows).into_iter().filter(|id| id.starts_with(&format!("child-{n}-"))).collect();
        let sent: Vec<String> = (0..100).map(|m| format!("child-{n}-{m}")).collect();
        assert_eq!(own, sent, "each one's order is that of its sends");
    }
}

#[tokio::test]
async fn four_processes_that_migrate_a_new_file_at_once_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let children: Vec<Child> =
        (0..4).map(|n| child("child_migrates", &path, &n.to_string())).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    store.send_all(&[message("a")]).await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_transaction_leaves_nothing_and_no_lock() {
    let shop = Shop::open().await;
    let mut sender = child("child_sends_and_hangs", &shop.path, "doomed");
    wait_for_word(&mut sender, "sent");
    assert!(shop.rows().await.is_empty());
    kill(sender);
    shop.send(&[message("after")]).await;
    assert_eq!(ids(&shop.rows().await), ["after"]);
}

#[tokio::test]
async fn a_dead_owner_on_this_machine_is_told_before_its_lease_lapses() {
    let shop = Shop::open().await;
    let mut owner = child("child_leases_for_an_hour", &shop.path, "owner");
    wait_for_word(&mut owner, "leased");
    let relay = RelayId::new();
    let grant = shop.lease(&relay, Duration::from_secs(60)).await;
    assert!(grant.lanes.is_empty(), "the owner lives");
    assert_eq!(grant.relays, 2);

    // A process that stands still is not dead: it may wake up and go on.
    let pid = rustix::process::Pid::from_child(&owner);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let grant = shop.lease(&relay, Duration::from_secs(60)).await;
    assert!(grant.lanes.is_empty(), "the owner stands still");

    kill(owner);
    let grant = shop.lease(&relay, Duration::from_secs(60)).await;
    assert_eq!(grant.lanes.len(), 1);
    assert_eq!(grant.lanes[0].epoch, 2);
    assert_eq!(grant.relays, 1);
}

#[tokio::test]
async fn a_dead_owner_is_told_while_its_parent_has_not_fetched_it() {
    let shop = Shop::open().await;
    let mut owner = child("child_leases_for_an_hour", &shop.path, "owner");
    wait_for_word(&mut owner, "leased");
    owner.kill().unwrap();
    // Its threads end one after the other; until the last has, it counts as alive.
    let relay = RelayId::new();
    let end = Instant::now() + PATIENCE;
    while shop.lease(&relay, Duration::from_secs(60)).await.lanes.is_empty() {
        assert!(Instant::now() < end, "the dead owner was not told");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    owner.wait().unwrap();
}

#[tokio::test]
async fn an_owner_of_another_machine_boot_or_namespace_keeps_its_lease_whatever_its_pid() {
    for column in ["host", "boot_id"] {
        let shop = Shop::open().await;
        let mut owner = child("child_leases_for_an_hour", &shop.path, "owner");
        wait_for_word(&mut owner, "leased");
        kill(owner);
        shop.connection()
            .execute(&format!("UPDATE sendoff_relay SET {column} = 'another'"), [])
            .unwrap();
        let grant = shop.lease(&RelayId::new(), Duration::from_secs(60)).await;
        assert!(grant.lanes.is_empty(), "{column}");
    }
}

#[tokio::test]
async fn a_relay_that_was_presumed_dead_is_fenced() {
    let shop = Shop::open().await;
    shop.send(&[message("a")]).await;
    let stale = RelayId::new();
    let epoch = shop.take(&stale).await;
    // As if the process had been another, and had died.
    shop.connection()
        .execute("UPDATE sendoff_relay SET pid_started = pid_started + 1", [])
        .unwrap();
    let relay = RelayId::new();
    shop.take(&relay).await;
    let row = &shop.rows().await[0];
    let retry = Outcome::Retry {
        after: Duration::from_secs(60),
        error: "late".to_owned(),
        counts: true,
        holds: true,
    };
    let settled = shop.settle(&stale, epoch, row, retry).await;
    assert_eq!(settled.fenced, [row.seq]);
    assert_eq!(ids(&shop.rows().await), ["a"]);
}

#[test]
#[ignore = "a child of the tests above"]
fn child_sends_a_hundred() {
    let (path, name) = (std::env::var(PATH).unwrap(), std::env::var(NAME).unwrap());
    let mut service = connection(Path::new(&path));
    let outbox = Outbox::new("shop");
    for n in 0..100 {
        let transaction = service.transaction().unwrap();
        outbox.send_blocking(&transaction, &message(&format!("{name}-{n}"))).unwrap();
        transaction.commit().unwrap();
    }
}

#[tokio::test]
#[ignore = "a child of the tests above"]
async fn child_migrates() {
    let path = std::env::var(PATH).unwrap();
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let store = SqliteStore::open(Path::new(&path), options).unwrap();
    store.migrate().await.unwrap();
    store.migrate().await.unwrap();
}

#[test]
#[ignore = "a child of the tests above"]
fn child_sends_and_hangs() {
    let path = std::env::var(PATH).unwrap();
    let mut service = connection(Path::new(&path));
    let transaction = service.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let outbox = Outbox::new("shop");
    // More than SQLite keeps in memory, so that some of it is in the log when the kill comes.
    for n in 0..40 {
        let message = outbox.message("t").id(n.to_string()).body(vec![7; 1 << 18]).build().unwrap();
        outbox.send_blocking(&transaction, &message).unwrap();
    }
    println!("sent");
    std::thread::sleep(Duration::from_secs(3_600));
}

#[tokio::test]
#[ignore = "a child of the tests above"]
async fn child_leases_for_an_hour() {
    let path = std::env::var(PATH).unwrap();
    let store = SqliteStore::open(Path::new(&path), SqliteOptions::default()).unwrap();
    let hour = Duration::from_secs(3_600);
    let grant = store.lease(&request(&RelayId::new(), hour, Ask::Share)).await.unwrap();
    assert_eq!(grant.lanes.len(), 1);
    println!("leased");
    std::thread::sleep(hour);
}
