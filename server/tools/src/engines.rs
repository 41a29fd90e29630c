//! The engines that this program is built with. Only this module depends on the cargo features `etcd` and `redis`.
use statestored_link::{EtcdConfig, RedisConfig, ThreadLink};
use statestored_storage::{RecordReceiver, SnapshotSource, StorageError};
use std::error::Error;
use std::sync::Arc;

/// Clock of a backup: the highest version of all its changes.
pub type BackupClock = Option<(u64, u64)>;

/// The reason why an engine cannot be used.
pub type EngineError = Box<dyn Error + Send + Sync>;

/// An engine, connected.
#[derive(Debug)]
pub struct OpenedEngine {
    /// Link to the engine.
    pub link: ThreadLink,
    /// Source of its backups.
    pub snapshots: Arc<dyn SnapshotSource>,
}

/// Returns an error if this program was built without etcd.
pub fn require_etcd() -> Result<(), String> {
    require(cfg!(feature = "etcd"), "etcd")
}

/// Returns an error if this program was built without Redis.
pub fn require_redis() -> Result<(), String> {
    require(cfg!(feature = "redis"), "redis")
}

fn require(is_built: bool, engine: &str) -> Result<(), String> {
    if is_built {
        Ok(())
    } else {
        Err(not_built(engine))
    }
}

fn not_built(engine: &str) -> String {
    format!(
        "this statestored was built without {engine}: build it with the cargo feature `{engine}`"
    )
}

/// Connects to etcd.
#[cfg_attr(
    not(feature = "etcd"),
    expect(clippy::unused_async, reason = "the caller awaits it in every build")
)]
pub async fn open_etcd(config: EtcdConfig) -> Result<OpenedEngine, EngineError> {
    #[cfg(feature = "etcd")]
    {
        let link = statestored_etcd::connect(config.clone()).await?;
        let snapshots = statestored_etcd::EtcdSnapshots::new(
            config,
            statestored_shared::Link::store_secret(&link),
        );
        Ok(OpenedEngine {
            link,
            snapshots: Arc::new(snapshots),
        })
    }
    #[cfg(not(feature = "etcd"))]
    {
        let _ = config;
        Err(not_built("etcd").into())
    }
}

/// Fills an empty prefix of etcd with the records that `fill` passes. Returns the name of the engine.
pub fn restore_etcd(
    config: &EtcdConfig,
    fill: impl FnOnce(&mut dyn RecordReceiver) -> Result<BackupClock, StorageError>,
) -> Result<String, StorageError> {
    #[cfg(feature = "etcd")]
    {
        statestored_link::restoring::restore::<statestored_etcd::UnfinishedStore>(config, fill)
    }
    #[cfg(not(feature = "etcd"))]
    {
        let _ = (config, fill);
        Err(StorageError::Restore(not_built("etcd")))
    }
}

/// Connects to Redis.
#[cfg_attr(
    not(feature = "redis"),
    expect(clippy::unused_async, reason = "the caller awaits it in every build")
)]
pub async fn open_redis(config: RedisConfig) -> Result<OpenedEngine, EngineError> {
    #[cfg(feature = "redis")]
    {
        let link = statestored_redis::connect(config.clone()).await?;
        let snapshots = statestored_redis::RedisSnapshots::new(
            config,
            statestored_shared::Link::store_secret(&link),
        );
        Ok(OpenedEngine {
            link,
            snapshots: Arc::new(snapshots),
        })
    }
    #[cfg(not(feature = "redis"))]
    {
        let _ = config;
        Err(not_built("redis").into())
    }
}

/// Fills an empty prefix of Redis with the records that `fill` passes. Returns the name of the engine.
pub fn restore_redis(
    config: &RedisConfig,
    fill: impl FnOnce(&mut dyn RecordReceiver) -> Result<BackupClock, StorageError>,
) -> Result<String, StorageError> {
    #[cfg(feature = "redis")]
    {
        statestored_link::restoring::restore::<statestored_redis::UnfinishedStore>(config, fill)
    }
    #[cfg(not(feature = "redis"))]
    {
        let _ = (config, fill);
        Err(StorageError::Restore(not_built("redis")))
    }
}
