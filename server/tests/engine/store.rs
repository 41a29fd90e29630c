//! The service whose keyspace is the embedded one.
use statestored::keyspace::Embedded;
use statestored::service::{Now, Service, ServiceConfig};
use statestored::storage::Record;

pub(crate) fn open(config: ServiceConfig) -> Service {
    Service::embedded(config)
}

/// With the records and the clock of a former one.
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
