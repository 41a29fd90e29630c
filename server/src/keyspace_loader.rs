//! Loading of the stored entries into the embedded keyspace.
use crate::engines::{self, OpenedEngine};
use crate::error::ServerError;
use crate::storage_config::StorageConfig;
use bytes::Bytes;
use statestored_common::ClockReading;
use statestored_link::EngineThread;
use statestored_shared::{SharedKeyspace, SharedKeyspaceConfig};
use statestored_storage::SharedStorage;
use statestored_storage::{
    Committer, CommitterOptions, DurableOptions, DurableStorage, LoadProgress, MemoryStorage,
    RecordView, Restore, Storage, StorageError,
};
use statestored_store::keyspace::{EmbeddedKeyspace, Keyspace};
use statestored_store::service::{RetentionIndex, ServiceConfig};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Interval at which a long load reports its progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// A storage, and its content in a keyspace.
pub(crate) struct LoadedStore {
    pub(crate) storage: Box<dyn Storage>,
    pub(crate) service: ServiceConfig,
    pub(crate) keyspace: Box<dyn Keyspace>,
    /// Keys that the storage keeps, and those that it should forget; `None` if it keeps nothing by its nature.
    pub(crate) retention: Option<(RetentionIndex, HashSet<Bytes>)>,
    /// Thread of a shared engine.
    pub(crate) engine_thread: Option<EngineThread>,
}

/// Starts the committer of a storage. The start asks the disk for room, which can take any length of time.
pub(crate) async fn start_committer(
    storage: Box<dyn Storage>,
    shutdown_timeout: Duration,
) -> Result<Committer, ServerError> {
    let options = CommitterOptions {
        shutdown_timeout,
        ..CommitterOptions::default()
    };
    let starting = spawn_blocking(move || Committer::start(storage, options));
    let committer = starting.await.map_err(|_| ServerError::Panicked)?;
    committer.map_err(|error| ServerError::Storage(Arc::new(error)))
}

/// Opens the storage and reads all its records, on a thread of its own.
pub(crate) async fn open_and_load(
    config: StorageConfig,
    max_clock_ahead: Duration,
    service: ServiceConfig,
    now: ClockReading,
) -> Result<LoadedStore, ServerError> {
    match config {
        StorageConfig::Etcd(etcd) => {
            let endpoints = etcd.endpoints.join(",");
            tracing::info!(endpoints, prefix = etcd.prefix, "connecting to etcd");
            let engine = engines::open_etcd(etcd)
                .await
                .map_err(ServerError::Engine)?;
            return open_shared(engine, max_clock_ahead, service);
        }
        StorageConfig::Redis(redis) => {
            tracing::info!(addresses = ?redis.addresses, prefix = redis.prefix, "connecting to redis");
            let engine = engines::open_redis(redis)
                .await
                .map_err(ServerError::Engine)?;
            return open_shared(engine, max_clock_ahead, service);
        }
        StorageConfig::Memory | StorageConfig::Durable(_) => {}
    }
    let (report, loaded) = oneshot::channel();
    std::thread::Builder::new()
        .name("loading".into())
        .spawn(move || {
            // The load stops when the caller gives up.
            let is_wanted = || !report.is_closed();
            let all = || {
                let mut storage = open(&config)?;
                let service = ServiceConfig {
                    is_durable: storage.is_durable(),
                    ..match storage.seed() {
                        Some(seed) => service.with_seed(seed),
                        None => service,
                    }
                };
                let mut keyspace = EmbeddedKeyspace::new(&service.keyspace());
                let mut kept = RetentionIndex::new(service.retention.clone(), service.hash_key);
                let forgotten = load(&mut *storage, &mut keyspace, &mut kept, now, &is_wanted)?;
                Ok(LoadedStore {
                    retention: service.is_durable.then_some((kept, forgotten)),
                    storage,
                    service,
                    keyspace: Box::new(keyspace),
                    engine_thread: None,
                })
            };
            let result = all();
            // The caller may have given up.
            let _ = report.send(result);
        })
        .map_err(ServerError::Runtime)?;
    let result = loaded.await.map_err(|_| ServerError::Panicked)?;
    result.map_err(|error: StorageError| ServerError::Storage(Arc::new(error)))
}

/// Returns a keyspace over a shared engine.
fn open_shared(
    engine: OpenedEngine,
    max_clock_ahead: Duration,
    service: ServiceConfig,
) -> Result<LoadedStore, ServerError> {
    let config = SharedKeyspaceConfig {
        max_clock_lead_ms: u64::try_from(max_clock_ahead.as_millis()).unwrap_or(u64::MAX),
        ..SharedKeyspaceConfig::random().map_err(ServerError::Runtime)?
    };
    Ok(LoadedStore {
        storage: Box::new(SharedStorage::new(engine.snapshots)),
        service,
        engine_thread: Some(engine.link.thread()),
        keyspace: Box::new(SharedKeyspace::new(config, engine.link)),
        retention: None,
    })
}

fn open(config: &StorageConfig) -> Result<Box<dyn Storage>, StorageError> {
    Ok(match config {
        StorageConfig::Memory | StorageConfig::Etcd(_) | StorageConfig::Redis(_) => {
            Box::new(MemoryStorage)
        }
        StorageConfig::Durable(path) => {
            tracing::info!(path = %path.display(), "opening the data folder");
            let storage = DurableStorage::open(path, DurableOptions::default())?;
            if storage.metrics().has_crashed() {
                tracing::warn!(
                    path = %path.display(),
                    "the previous run ended without a clean stop; all acknowledged changes are kept"
                );
            }
            Box::new(storage)
        }
    })
}

/// Passes the content of the storage to the keyspace, which is empty. Blocks for seconds if there is much.
///
/// Returns the keys that the storage has and should not keep; they are not in the keyspace.
///
/// # Errors
/// [`StorageError::Stopped`] soon after `is_wanted` returns false. The keyspace is incomplete then.
fn load(
    storage: &mut dyn Storage,
    keyspace: &mut EmbeddedKeyspace,
    kept: &mut RetentionIndex,
    now: ClockReading,
    is_wanted: &dyn Fn() -> bool,
) -> Result<HashSet<Bytes>, StorageError> {
    let begin = Instant::now();
    let mut loading = KeyspaceLoader {
        keyspace,
        retention: kept,
        discarded: HashSet::new(),
        now,
        is_wanted,
        next_report: begin + REPORT_INTERVAL,
    };
    let clock = storage.load(&mut loading)?;
    let forgotten = loading.discarded;
    if let Some((wall_ms, counter)) = clock {
        keyspace.restore_clock(wall_ms, counter);
    }
    tracing::info!(
        keys = keyspace.len(),
        seconds = format_args!("{:.1}", begin.elapsed().as_secs_f64()),
        "the state is loaded"
    );
    if keyspace.is_full() {
        tracing::warn!(
            bytes = keyspace.bytes(),
            "the store exceeds its quota: entries can be read and deleted, but not created or enlarged; \
             delete some, or raise --max-bytes or --max-keys"
        );
    }
    if !forgotten.is_empty() {
        tracing::warn!(
            keys = forgotten.len(),
            "keys of a former run were deleted, since --persist-mode does not keep them"
        );
    }
    Ok(forgotten)
}

/// A load in progress.
struct KeyspaceLoader<'a> {
    keyspace: &'a mut EmbeddedKeyspace,
    retention: &'a mut RetentionIndex,
    /// Keys that the storage has and should not keep.
    discarded: HashSet<Bytes>,
    now: ClockReading,
    is_wanted: &'a dyn Fn() -> bool,
    next_report: Instant,
}

impl Restore for KeyspaceLoader<'_> {
    fn announce(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) {
        self.keyspace.prefetch(keys);
    }

    fn put(&mut self, record: &RecordView<'_>) {
        if self.retention.record_stored(record.key) {
            self.keyspace.restore(record, self.now);
        } else {
            // Later versions of the key are higher.
            let (wall_ms, counter) = record.version;
            self.keyspace.restore_clock(wall_ms, counter);
            if !self.discarded.contains(record.key) {
                self.discarded.insert(Bytes::copy_from_slice(record.key));
            }
        }
    }

    fn delete(&mut self, key: &[u8]) {
        self.retention.record_removal(key);
        self.discarded.remove(key);
        self.keyspace.restore_deletion(key);
    }

    fn progressed(&mut self, progress: LoadProgress) -> ControlFlow<()> {
        if !(self.is_wanted)() {
            return ControlFlow::Break(());
        }
        if Instant::now() >= self.next_report {
            self.next_report += REPORT_INTERVAL;
            let percent = progress.done * 100 / progress.total.max(1);
            tracing::info!(keys = self.keyspace.len(), "loading the state: {percent} %");
        }
        ControlFlow::Continue(())
    }
}
