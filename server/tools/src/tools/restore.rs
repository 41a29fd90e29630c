//! `statestored restore`: creates a data folder from a backup, or fills an engine with it.
use super::progress::{Progress, ProgressReceiver};
use super::source::open_backup;
use super::{ToolError, print_record_count};
use crate::engines;
use crate::storage_config::{EngineOptions, StorageConfig};
use clap::Args;
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
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "storage",
        conflicts_with = "storage"
    )]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    engine: EngineOptions,
}

impl Restore {
    pub(super) fn run(self) -> Result<(), ToolError> {
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
        let place = match engine {
            Some(StorageConfig::Etcd(config)) => engines::restore_etcd(&config, fill)?,
            Some(StorageConfig::Redis(config)) => engines::restore_redis(&config, fill)?,
            _ => fill_folder(self.data_dir, header.salt, fill)?,
        };
        drop(progress);
        print_record_count(header.records, place);
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
