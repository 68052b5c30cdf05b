//! Settings that are out of range are refused when a relay is built, and the error names them.

use std::sync::Arc;
use std::time::Duration;

use crate::ErrorKind;
use crate::memory::{MemoryPublisher, MemoryStore};
use crate::relay::{
    BatchRelay, BatchSettings, Relay, RelaySettings, RowLockRelay, RowLockSettings,
};

const ZERO: Duration = Duration::ZERO;

fn lanes(settings: RelaySettings) -> String {
    let (store, target) = (Arc::new(MemoryStore::new()), Arc::new(MemoryPublisher::new()));
    let built = Relay::builder(store.clone(), target).settings(settings.clone()).build();
    let error = built.expect_err("it is out of range");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let receiver = Relay::receiver(store).settings(settings).build();
    let other = receiver.expect_err("it is out of range");
    assert_eq!(other.to_string(), error.to_string(), "a receiver is built by the same rules");
    error.to_string()
}

fn row_locks(settings: RowLockSettings) -> String {
    let (store, target) = (Arc::new(MemoryStore::new()), Arc::new(MemoryPublisher::new()));
    let error = RowLockRelay::builder(store, target).settings(settings).build();
    error.expect_err("it is out of range").to_string()
}

fn batch(settings: BatchSettings) -> String {
    let (store, target) = (Arc::new(MemoryStore::new()), Arc::new(MemoryPublisher::new()));
    BatchRelay::new(store, target, settings).expect_err("it is out of range").to_string()
}

#[test]
fn the_poll_and_the_publish_timeout_have_to_be_positive() {
    let all = RelaySettings::default;
    assert!(lanes(RelaySettings { poll: ZERO, ..all() }).contains("poll"));
    assert!(lanes(RelaySettings { publish_timeout: ZERO, ..all() }).contains("publish timeout"));
    let all = RowLockSettings::default;
    assert!(row_locks(RowLockSettings { poll: ZERO, ..all() }).contains("poll"));
    let hung = RowLockSettings { publish_timeout: ZERO, ..all() };
    assert!(row_locks(hung).contains("publish timeout"));
    let hung = BatchSettings { publish_timeout: ZERO, ..BatchSettings::default() };
    assert!(batch(hung).contains("publish timeout"));
}

#[test]
fn cancel_after_has_to_be_longer_than_the_drain() {
    for (drain, cancel_after) in [(5, 5), (6, 5), (0, 0)]
        .map(|(drain, cancel)| (Duration::from_secs(drain), Duration::from_secs(cancel)))
    {
        let settings = RelaySettings { drain, cancel_after, ..RelaySettings::default() };
        assert!(lanes(settings).contains("cancel_after"));
        let settings = RowLockSettings { drain, cancel_after, ..RowLockSettings::default() };
        assert!(row_locks(settings).contains("cancel_after"));
    }
    let settings = RelaySettings { drain: Duration::from_secs(9), ..RelaySettings::default() };
    settings.check().expect("it is shorter than the ten seconds of the default");
}

#[test]
fn a_batch_has_a_row_a_byte_and_an_attempt_at_least() {
    let all = RowLockSettings::default;
    assert!(row_locks(RowLockSettings { batch: 0, ..all() }).contains("batch"));
    assert!(row_locks(RowLockSettings { batch: 10_001, ..all() }).contains("batch"));
    assert!(row_locks(RowLockSettings { batch_bytes: 0, ..all() }).contains("byte"));
    assert!(row_locks(RowLockSettings { attempts_max: Some(0), ..all() }).contains("attempts"));
    let waits = BatchSettings { backoff_max: Duration::from_secs(3_601), ..Default::default() };
    assert!(batch(waits).contains("longest wait"));
}
