//! `statestored compact`: removes from a data folder what is no longer needed.
use super::ToolError;
use super::progress::Progress;
use clap::Args;
use statestored_storage::{DurableOptions, DurableStorage, StoppedStore, StorageError};
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
A server compacts its folder by itself. Use this to shrink a folder before you copy or archive it.

Examples:
  statestored compact /var/lib/statestored
      keep one copy of each record, and print the saved bytes";

/// Merges everything.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compact {
    /// The data folder of a server that does not run
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Compact {
    pub(super) fn run(&self) -> Result<(), ToolError> {
        let mut progress = Progress::begin("compacting", None)?;
        // The directory must be a store: opening the storage would create one.
        drop(StoppedStore::open(&self.directory, &mut |bytes| {
            progress.advance(bytes)
        })?);
        let before = folder_bytes(&self.directory)?;
        let mut storage = DurableStorage::open(&self.directory, DurableOptions::default())?;
        storage.rewrite(&mut |rewrite| {
            rewrite.retain(&mut |_| true, &mut |bytes| progress.advance(bytes))
        })?;
        drop(storage);
        let after = folder_bytes(&self.directory)?;
        drop(progress);
        println!("{before} bytes before, {after} bytes after");
        Ok(())
    }
}

/// Returns the total length of all files of a folder.
fn folder_bytes(directory: &Path) -> Result<u64, StorageError> {
    let sum = || {
        let mut sum = 0;
        for entry in fs::read_dir(directory)? {
            sum += entry?.metadata()?.len();
        }
        Ok(sum)
    };
    sum().map_err(StorageError::io(|| {
        format!("cannot read the directory {}", directory.display())
    }))
}
