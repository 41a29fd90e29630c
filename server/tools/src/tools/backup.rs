//! `statestored backup`: backs up the store of a server that does not run.
use super::progress::Progress;
use super::source::open_store;
use super::{ToolError, print_record_count};
use clap::Args;
use statestored_storage::backup::{self, NewFile};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Writes a complete file or none. A running server writes its backups itself: `statestore admin backup FILE`.

Examples:
  statestored backup --data-dir /var/lib/statestored /mnt/backups/state
      write everything in a data folder to one file";

/// Writes a backup.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Backup {
    /// The data folder of a server that does not run
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl Backup {
    pub(super) fn run(&self) -> Result<(), ToolError> {
        let mut progress = Progress::begin("opening the data folder", None)?;
        let mut store = open_store(&self.data_dir, &mut progress)?;
        let mut file = NewFile::create(&self.file, self.force)?;
        let header = backup::write(&mut *store, &mut file, &|| progress.should_continue())?;
        file.persist()?;
        drop(progress);
        print_record_count(header.records, self.file.display());
        Ok(())
    }
}
