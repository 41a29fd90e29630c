//! Sources of records: the data directory of a stopped server, or a backup.
use super::progress::Progress;
use clap::Args;
use statestored_storage::backup::{BackupReader, Header};
use statestored_storage::{RecordReceiver, RecordSource, StoppedStore, StorageError};
use std::fs::File;
use std::path::{Path, PathBuf};

/// One of the two.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Source {
    /// The data folder of a server that does not run
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// A backup
    #[arg(value_name = "BACKUP")]
    backup: Option<PathBuf>,
}

impl Source {
    pub(super) fn open(
        &self,
        progress: &mut Progress,
    ) -> Result<Box<dyn RecordSource>, StorageError> {
        match (&self.data_dir, &self.backup) {
            (Some(directory), _) => open_store(directory, progress),
            (None, Some(path)) => Ok(Box::new(BackupFile::open(path)?)),
            (None, None) => Err(StorageError::Stopped),
        }
    }
}

/// Opens the store in a data folder.
pub(super) fn open_store(
    directory: &Path,
    progress: &mut Progress,
) -> Result<Box<dyn RecordSource>, StorageError> {
    let store = StoppedStore::open(directory, &mut |bytes| progress.advance(bytes))?;
    Ok(Box::new(store))
}

/// A backup that is opened again for each read.
struct BackupFile {
    path: PathBuf,
    header: Header,
}

impl BackupFile {
    fn open(path: &Path) -> Result<Self, StorageError> {
        Ok(Self {
            path: path.into(),
            header: *open_backup(path)?.0.header(),
        })
    }
}

impl RecordSource for BackupFile {
    fn records(&mut self, to: &mut dyn RecordReceiver) -> Result<Option<(u64, u64)>, StorageError> {
        open_backup(&self.path)?.0.records(to)
    }

    fn seed(&self) -> u64 {
        self.header.salt
    }
}

/// Opens a backup. Returns its length if it has one.
pub(super) fn open_backup(path: &Path) -> Result<(BackupReader<File>, Option<u64>), StorageError> {
    let (file, length) = open_file(path)?;
    Ok((BackupReader::new(path, file)?, length))
}

/// Opens a file to be read once. Returns its length if it has one.
pub(super) fn open_file(path: &Path) -> Result<(File, Option<u64>), StorageError> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).map_err(StorageError::io(cannot))?;
    let status = file.metadata().map_err(StorageError::io(cannot))?;
    Ok((file, status.is_file().then_some(status.len())))
}
