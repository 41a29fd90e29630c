//! The store as it is between two commits, readable while commits continue.
//!
//! Base and sealed logs are never written again, and the current log is read only up to its length at that moment. None of
//! these files is removed while a reader [holds](FileHold) it.
use super::directory_copy::DirectoryCopy;
use super::files::{ChangeVisitor, StoreFiles};
use super::live_index::LiveIndex;
use super::manifest::Manifest;
use super::{DurableStorage, StorageError};
use crate::record::{LogChange, Version};
use crate::{RecordReceiver, RecordSource, StorageImage};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Files that a reader needs.
#[derive(Debug)]
struct FileHold(Vec<PathBuf>);

/// Readers of files.
#[derive(Debug, Default)]
pub(super) struct FileHolds(Vec<Weak<FileHold>>);

impl FileHolds {
    fn hold(&mut self, files: Vec<PathBuf>) -> Arc<FileHold> {
        let held = Arc::new(FileHold(files));
        self.0.push(Arc::downgrade(&held));
        held
    }

    /// Removes the files that readers need from the list.
    pub(super) fn remove_held(&self, mut files: Vec<PathBuf>) -> Vec<PathBuf> {
        for held in self.0.iter().filter_map(Weak::upgrade) {
            files.retain(|file| !held.0.contains(file));
        }
        files
    }

    /// Returns whether a reader has finished since the last call.
    pub(super) fn take_released(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|held| held.strong_count() > 0);
        self.0.len() < before
    }
}

/// The content at one moment.
#[derive(Debug)]
pub(super) struct DurableImage {
    manifest: Manifest,
    /// Files of the image; the last log is the current one.
    files: StoreFiles,
    live_index: Option<LiveIndex>,
    _hold: Option<Arc<FileHold>>,
}

impl DurableImage {
    /// Creates an image of files that do not change.
    pub(super) fn of(manifest: Manifest, files: StoreFiles) -> Self {
        Self {
            manifest,
            files,
            live_index: None,
            _hold: None,
        }
    }
}

impl DurableStorage {
    /// Takes the image. Its files are opened when it is read.
    pub(super) fn take_image(&mut self) -> Option<DurableImage> {
        let active = self.active.as_ref()?;
        let contents = self.contents();
        let files = contents.files_up_to(active.length, active.next_sequence - 1);
        let paths = files.paths().map(Path::to_path_buf).collect();
        Some(DurableImage {
            _hold: Some(self.file_holds.hold(paths)),
            ..DurableImage::of(self.manifest.clone(), files)
        })
    }
}

/// A visitor that passes records on.
struct ForwardingVisitor<'a>(&'a mut dyn RecordReceiver);

impl ChangeVisitor for ForwardingVisitor<'_> {
    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError> {
        match change {
            LogChange::Put(put) => self.0.record(&put.record),
            LogChange::Clock(_) | LogChange::Delete(_) => Ok(()),
        }
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.0.progressed(bytes)
    }
}

impl RecordSource for DurableImage {
    fn records(&mut self, to: &mut dyn RecordReceiver) -> Result<Option<Version>, StorageError> {
        let live = match self.live_index.take() {
            Some(live) => live,
            None => LiveIndex::new(&self.files, &mut |bytes| to.progressed(bytes))?,
        };
        self.live_index
            .insert(live)
            .visit_live(&mut ForwardingVisitor(to))
    }

    fn seed(&self) -> u64 {
        self.manifest.salt
    }
}

impl StorageImage for DurableImage {
    fn copy_to(&self, directory: &Path) -> Result<(), StorageError> {
        DirectoryCopy {
            manifest: &self.manifest,
            files: &self.files,
        }
        .write(directory)
    }
}
