//! A service with the embedded keyspace.
use statestored_storage::{Batch, Record};
use statestored_store::keyspace::EmbeddedKeyspace;
use statestored_store::service::{ClockReading, Service, ServiceConfig};

/// Which one that is, in `tests/vectors/storages.json`.
pub(crate) const STORAGE: &str = "memory";

/// How many histories are tried.
pub(crate) const CASES: u32 = 400;

/// Whether entries expire without a request.
pub(crate) const EXPIRES_WITHOUT_REQUESTS: bool = false;

/// Whether the storage of the entries is updated after a jump of the wall clock.
pub(crate) const REWRITES_AFTER_CLOCK_JUMPS: bool = true;

/// Waits for events for the service; here they are available at once.
pub(crate) fn idle(_: &mut Service) {}

/// Waits until all operations have ended.
pub(crate) fn settle(_: &mut Service, _: ClockReading) {}

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
    now: ClockReading,
) -> Service {
    let mut keyspace = EmbeddedKeyspace::new(&config.keyspace());
    for record in records {
        keyspace.restore(&record.view(), now);
    }
    if let Some((wall_ms, counter)) = clock {
        keyspace.restore_clock(wall_ms, counter);
    }
    Service::new(config, keyspace)
}
