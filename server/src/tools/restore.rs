//! `statestored restore`: creates a data folder from a backup.
use super::ToolError;
use super::progress::{Progress, Watched};
use super::source::open_backup;
use crate::storage::NewStore;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Everything is as it was: values, versions, fencing tokens, expiries. The folder is no store before the whole backup has been
read and found to be right; if anything is wrong, nothing is left.

Examples:
  statestored restore /mnt/backups/state --data-dir /var/lib/statestored
      make a data folder, for a server to start with";

/// Makes a data folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Restore {
    /// The backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// The folder to fill; it is missing or empty
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

impl Restore {
    pub(super) fn run(&self) -> Result<(), ToolError> {
        let (backup, length) = open_backup(&self.backup)?;
        let header = *backup.header();
        let mut progress = Progress::begin("restoring", length)?;
        let mut store = NewStore::create(&self.data_dir, header.salt)?;
        let clock = backup.records(&mut Watched {
            to: &mut store,
            progress: &mut progress,
        })?;
        store.finish(clock)?;
        drop(progress);
        println!(
            "{} records are in {}",
            header.records,
            self.data_dir.display()
        );
        Ok(())
    }
}
