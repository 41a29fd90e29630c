//! A service whose keyspace is one node's view of a shared map.
use crate::keyspace::{FaultRates, OptimisticKeyspace};
use crate::shared::{Entry, SharedMap};
use statestored_storage::{Batch, Record};
use statestored_store::service::{ClockReading, Service, ServiceConfig};

/// Which one that is, in `tests/vectors/storages.json`.
pub(crate) const STORAGE: &str = "memory";

/// How many histories are tried.
pub(crate) const CASES: u32 = 400;

/// Whether entries expire without a request.
pub(crate) const EXPIRES_WITHOUT_REQUESTS: bool = false;

/// Whether the storage of the entries is updated after a jump of the wall clock.
pub(crate) const REWRITES_AFTER_CLOCK_JUMPS: bool = false;

/// Waits for events for the service; here they are available at once.
pub(crate) fn idle(_: &mut Service) {}

/// Waits until all operations have ended.
pub(crate) fn settle(_: &mut Service, _: ClockReading) {}

/// Keeps what has changed.
pub(crate) fn keep(_: &Batch) {}

/// No time passes within a step, so that the tests of the embedded keyspace mean the same here; commits are refused, and
/// nothing gets lost.
const CALM: FaultRates = FaultRates {
    seed: 7,
    delay_ms: 0,
    refused: 30,
    lost: 0,
};

pub(crate) fn open(config: ServiceConfig) -> Service {
    let keyspace = OptimisticKeyspace::new(SharedMap::default(), config.max_keys, CALM);
    Service::new(config, keyspace)
}

/// Restores a store from records and a clock.
pub(crate) fn restore<'r>(
    config: ServiceConfig,
    records: impl Iterator<Item = &'r Record>,
    clock: Option<(u64, u64)>,
    now: ClockReading,
) -> Service {
    let shared = SharedMap::default();
    let mut map = shared.lock();
    map.floor = clock.unwrap_or_default();
    map.highest = map.floor;
    for (revision, record) in (0..).zip(records) {
        let deadline_ms = record.expiry.map(|expiry| {
            let left_ms = expiry.at_wall_ms.saturating_sub(now.wall_ms);
            now.mono_ms + left_ms.min(expiry.ttl_ms)
        });
        map.highest = map.highest.max(record.version);
        let entry = Entry {
            // No change has this number.
            revision: u64::MAX - revision,
            value: record.value.clone(),
            version: record.version,
            token: record.fence.clone(),
            deadline_ms,
        };
        map.put(&record.key, entry);
    }
    drop(map);
    let keyspace = OptimisticKeyspace::new(shared, config.max_keys, CALM);
    Service::new(config, keyspace)
}
