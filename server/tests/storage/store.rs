//! A service whose changes are in a folder: after a restart it has the stored entries.
use crate::model;
use statestored_storage::{Batch, DurableStorage, Record, Storage};
use statestored_store::keyspace::EmbeddedKeyspace;
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::cell::RefCell;
use tempfile::TempDir;

/// Which one that is, in `tests/vectors/storages.json`.
pub(crate) const STORAGE: &str = "durable";

/// How many histories are tried: each step waits for a disk.
pub(crate) const CASES: u32 = 40;

/// Whether entries expire without a request.
pub(crate) const EXPIRES_WITHOUT_REQUESTS: bool = false;

/// Whether the storage of the entries is updated after a jump of the wall clock.
pub(crate) const REWRITES_AFTER_CLOCK_JUMPS: bool = true;

thread_local! {
    // A test has a thread of its own.
    static DISK: RefCell<Option<(TempDir, DurableStorage)>> = const { RefCell::new(None) };
}

pub(crate) fn open(config: ServiceConfig) -> Service {
    let folder = tempfile::tempdir().unwrap();
    let (storage, _) = model::open(folder.path(), model::SMALL_LOGS).unwrap();
    assert!(storage.is_durable());
    DISK.set(Some((folder, storage)));
    Service::embedded(config)
}

/// Another process in the same folder, which has to hold these records.
pub(crate) fn restore<'r>(
    config: ServiceConfig,
    records: impl Iterator<Item = &'r Record>,
    clock: Option<(u64, u64)>,
    now: ClockReading,
) -> Service {
    let (folder, storage) = DISK.take().unwrap();
    drop(storage);
    let (storage, found) = model::open(folder.path(), model::SMALL_LOGS).unwrap();
    DISK.set(Some((folder, storage)));
    assert!(found.records.values().eq(records));
    assert_eq!(found.clock, clock);
    let mut keyspace = EmbeddedKeyspace::new(&config.keyspace());
    for record in found.records.values() {
        keyspace.restore(&record.view(), now);
    }
    if let Some((wall_ms, counter)) = found.clock {
        keyspace.restore_clock(wall_ms, counter);
    }
    Service::new(config, keyspace)
}

/// Waits for events for the service; here they are available at once.
pub(crate) fn idle(_: &mut Service) {}

/// Waits until all operations have ended.
pub(crate) fn settle(_: &mut Service, _: ClockReading) {}

/// Keeps what has changed.
pub(crate) fn keep(batch: &Batch) {
    DISK.with_borrow_mut(|disk| {
        let (_, storage) = disk.as_mut().unwrap();
        storage.commit(std::slice::from_ref(batch)).unwrap();
    });
}
