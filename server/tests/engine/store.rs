//! The service whose keyspace is the embedded one.
use statestored::keyspace::Embedded;
use statestored::service::{Now, Service, ServiceConfig};
use statestored::storage::{Batch, Record};

/// Which one that is, in `tests/vectors/storages.json`.
pub(crate) const STORAGE: &str = "memory";

/// How many histories are tried.
pub(crate) const CASES: u32 = 400;

/// Whether entries end without anybody asking.
pub(crate) const ENDS_BY_ITSELF: bool = false;

/// Whether a wall clock that has jumped is told to what keeps the entries.
pub(crate) const IS_TOLD_OF_JUMPS: bool = true;

/// Waits for what the service is to be told: here it is there at once.
pub(crate) fn idle(_: &mut Service) {}

/// Waits until everything that was asked is told.
pub(crate) fn settle(_: &mut Service, _: Now) {}

/// Keeps what has changed.
pub(crate) fn keep(_: &Batch) {}

pub(crate) fn open(config: ServiceConfig) -> Service {
    Service::embedded(config)
}

/// Restores a store from records and a clock.
pub(crate) fn restore<'r>(
    config: ServiceConfig,
    records: impl Iterator<Item = &'r Record>,
    clock: Option<(u64, u64)>,
    now: Now,
) -> Service {
    let mut keyspace = Embedded::new(&config.keyspace());
    for record in records {
        keyspace.restore(&record.view(), now);
    }
    if let Some((wall_ms, counter)) = clock {
        keyspace.restore_clock(wall_ms, counter);
    }
    Service::new(config, keyspace)
}
