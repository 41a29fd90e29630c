//! The lock that keeps a second process from a data directory.
use super::StorageError;
use crate::disk::{Disk, DiskFile, OpenMode};
use std::fs::TryLockError;
use std::io::ErrorKind;
use std::path::Path;

/// Name of the lock file.
pub(super) const LOCK: &str = "lock";

/// Exclusive use of a data directory by this process, until it is dropped.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    file: Box<dyn DiskFile>,
    /// The process that took the lock.
    process: u32,
}

impl DirectoryLock {
    /// Locks the directory, which gets the lock file if it has none.
    pub(super) fn take(disk: &dyn Disk, directory: &Path) -> Result<Self, StorageError> {
        let path = directory.join(LOCK);
        let opened = disk.open(&path, OpenMode::OpenOrCreate);
        let file = opened.map_err(StorageError::io(|| {
            format!("cannot open {}", path.display())
        }))?;
        Self::lock(file, directory)
    }

    /// Locks the directory without creating the lock file, which a copy of a directory may lack.
    pub(super) fn take_if_present(
        disk: &dyn Disk,
        directory: &Path,
    ) -> Result<Option<Self>, StorageError> {
        let path = directory.join(LOCK);
        match disk.open(&path, OpenMode::Read) {
            Ok(file) => Self::lock(file, directory).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io(|| {
                format!("cannot open {}", path.display())
            })(error)),
        }
    }

    fn lock(file: Box<dyn DiskFile>, directory: &Path) -> Result<Self, StorageError> {
        match file.try_lock() {
            Ok(()) => Ok(Self {
                file,
                process: std::process::id(),
            }),
            Err(TryLockError::WouldBlock) => Err(StorageError::InUse(format!(
                "the data directory {} is in use by another process",
                directory.display()
            ))),
            Err(TryLockError::Error(error)) => Err(StorageError::io(|| {
                format!("cannot lock {}", directory.join(LOCK).display())
            })(error)),
        }
    }
}

impl Drop for DirectoryLock {
    /// Releases the lock. A child process that is being started has a copy of the descriptor until it executes its program,
    /// so that closing the file alone would leave the directory locked for that time. A forked child that drops its copy of the
    /// lock leaves that of its parent in place.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.file.unlock();
        }
    }
}
