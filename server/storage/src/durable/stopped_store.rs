//! A store that no process uses, to be read by a tool. Its directory is not changed.
use super::acknowledgement_mark::AcknowledgementMark;
use super::directory::read_manifest;
use super::directory_contents::{DirectoryContents, LogEnd};
use super::directory_lock::DirectoryLock;
use super::durable_image::DurableImage;
use super::file_damage::damage_error;
use super::files::ChangeVisitor;
use super::manifest;
use crate::disk::{Disk, FileSystem};
use crate::record::{LogChange, Version};
use crate::{RecordReceiver, RecordSource, StorageError};
use std::path::Path;
use std::sync::Arc;

/// The content of a data directory, which is locked meanwhile.
#[derive(Debug)]
pub struct StoppedStore {
    image: DurableImage,
    _lock: Option<DirectoryLock>,
}

/// A visitor that reads the log only to find its end.
struct LogEndVisitor<'a>(&'a mut dyn FnMut(u64) -> Result<(), StorageError>);

impl ChangeVisitor for LogEndVisitor<'_> {
    fn change(&mut self, _change: LogChange<'_>) -> Result<(), StorageError> {
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        (self.0)(bytes)
    }
}

impl StoppedStore {
    /// Opens the store. `read` receives the number of bytes read since the last call, and can stop the reading with an error.
    ///
    /// # Errors
    /// [`StorageError::InUse`] if a server runs on it, [`StorageError::Damaged`] if it is no store or not as it was written.
    pub fn open(
        path: &Path,
        read: &mut dyn FnMut(u64) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let disk: Arc<dyn Disk> = Arc::new(FileSystem);
        let lock = DirectoryLock::take_if_present(&*disk, path)?;
        let manifest = read_manifest(&*disk, path)?.ok_or_else(|| no_store_error(path))?;
        let contents = DirectoryContents {
            disk: &disk,
            directory: path,
            manifest: &manifest,
            acknowledged: AcknowledgementMark::read(&*disk, path, manifest.salt)?,
        };
        contents.check(&contents.files())?;
        let LogEnd { length, last, .. } = contents.read_current(&mut LogEndVisitor(read))?;
        let files = contents.files_up_to(length, last);
        Ok(Self {
            image: DurableImage::of(manifest, files),
            _lock: lock,
        })
    }
}

impl RecordSource for StoppedStore {
    fn records(&mut self, to: &mut dyn RecordReceiver) -> Result<Option<Version>, StorageError> {
        self.image.records(to)
    }

    fn seed(&self) -> u64 {
        self.image.seed()
    }
}

/// Returns whether the directory contains the files of a store, intact or not.
pub fn is_store(path: &Path) -> bool {
    path.join(manifest::NAME).exists()
}

/// Returns the error for a directory without a manifest.
pub(super) fn no_store_error(path: &Path) -> StorageError {
    damage_error(
        path,
        format_args!(
            "it holds no {}, so it is not a data directory, or its manifest was lost",
            manifest::NAME
        ),
    )
}
