//! `statestored restore`: creates a data folder from a backup, or fills an engine with it.
use super::ToolError;
use super::progress::{Progress, ProgressReceiver};
use super::source::open_backup;
#[cfg(feature = "elsewhere")]
use crate::config::{EngineOptions, StorageConfig};
use clap::Args;
#[cfg(feature = "etcd")]
use statestored_etcd::EtcdRestore;
#[cfg(feature = "redis")]
use statestored_redis::RedisRestore;
use statestored_storage::{NewStore, RecordReceiver, StorageError};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Restores values, versions, fencing tokens and expiries. If the backup is damaged, nothing is restored.

Examples:
  statestored restore /mnt/backups/state --data-dir /var/lib/statestored
      create a data folder for a server
  statestored restore /mnt/backups/state --storage etcd://etcd-1:2379/statestore
      fill an empty prefix of etcd, for several servers to share";

/// Makes a data folder, or fills an engine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Restore {
    /// The backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// The folder to fill, missing or empty
    #[arg(long, value_name = "DIR")]
    #[cfg_attr(
        feature = "elsewhere",
        arg(required_unless_present = "storage", conflicts_with = "storage")
    )]
    #[cfg_attr(not(feature = "elsewhere"), arg(required = true))]
    data_dir: Option<PathBuf>,

    #[cfg(feature = "elsewhere")]
    #[command(flatten)]
    engine: EngineOptions,
}

impl Restore {
    pub(super) fn run(self) -> Result<(), ToolError> {
        #[cfg(feature = "elsewhere")]
        let engine = self.engine.into_config()?;
        let (backup, length) = open_backup(&self.backup)?;
        let header = *backup.header();
        let mut progress = Progress::begin("restoring", length)?;
        let fill = |store: &mut dyn RecordReceiver| {
            backup.records(&mut ProgressReceiver {
                inner: store,
                progress: &mut progress,
            })
        };
        #[cfg(feature = "elsewhere")]
        let place = match engine {
            #[cfg(feature = "etcd")]
            Some(StorageConfig::Etcd(config)) => {
                let mut store = EtcdRestore::begin(&config)?;
                let clock = fill(&mut store)?;
                store.finish(clock)?
            }
            #[cfg(feature = "redis")]
            Some(StorageConfig::Redis(config)) => {
                let mut store = RedisRestore::begin(&config)?;
                let clock = fill(&mut store)?;
                store.finish(clock)?
            }
            _ => fill_folder(self.data_dir, header.salt, fill)?,
        };
        #[cfg(not(feature = "elsewhere"))]
        let place = fill_folder(self.data_dir, header.salt, fill)?;
        drop(progress);
        println!("{} records are in {place}", header.records);
        Ok(())
    }
}

/// Creates a data folder. Returns its path.
fn fill_folder(
    folder: Option<PathBuf>,
    salt: u64,
    fill: impl FnOnce(&mut dyn RecordReceiver) -> Result<Option<(u64, u64)>, StorageError>,
) -> Result<String, StorageError> {
    // One of the targets is required.
    let folder = folder.unwrap_or_default();
    let mut store = NewStore::create(&folder, salt)?;
    let clock = fill(&mut store)?;
    store.finish(clock)?;
    Ok(folder.display().to_string())
}
