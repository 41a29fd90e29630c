//! The store as it is between two commits, readable while commits continue.
//!
//! Base and sealed logs are never written again, and the current log is read only up to its length at that moment. None of
//! these files is removed while a reader [holds](Held) it.
use super::files::{Files, Visit};
use super::live::Live;
use super::manifest::Manifest;
use super::snapshot::Snapshot;
use super::{DurableStorage, StorageError};
use crate::storage::record::{Change, Version};
use crate::storage::{Image, Receive, Records};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Files that a reader needs.
#[derive(Debug)]
struct Held(Vec<PathBuf>);

/// Readers of files.
#[derive(Debug, Default)]
pub(super) struct Holders(Vec<Weak<Held>>);

impl Holders {
    fn hold(&mut self, files: Vec<PathBuf>) -> Arc<Held> {
        let held = Arc::new(Held(files));
        self.0.push(Arc::downgrade(&held));
        held
    }

    /// Removes the files that readers need from the list.
    pub(super) fn without_held(&self, mut files: Vec<PathBuf>) -> Vec<PathBuf> {
        for held in self.0.iter().filter_map(Weak::upgrade) {
            files.retain(|file| !held.0.contains(file));
        }
        files
    }

    /// Returns whether a reader has finished since the last call.
    pub(super) fn have_let_go(&mut self) -> bool {
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
    files: Files,
    live: Option<Live>,
    _held: Option<Arc<Held>>,
}

impl DurableImage {
    /// Creates an image of files that do not change.
    pub(super) fn of(manifest: Manifest, files: Files) -> Self {
        Self {
            manifest,
            files,
            live: None,
            _held: None,
        }
    }
}

impl DurableStorage {
    /// Takes the image. Its files are opened when it is read.
    pub(super) fn take_image(&mut self) -> Option<DurableImage> {
        let active = self.active.as_ref()?;
        let contents = self.contents();
        let files = contents.files_up_to(active.length, active.next - 1);
        let paths = files.paths().map(Path::to_path_buf).collect();
        Some(DurableImage {
            _held: Some(self.holders.hold(paths)),
            ..DurableImage::of(self.manifest.clone(), files)
        })
    }
}

/// A visitor that passes records on.
struct Handing<'a>(&'a mut dyn Receive);

impl Visit for Handing<'_> {
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        match change {
            Change::Put(put) => self.0.record(&put.record),
            Change::Clock(_) | Change::Delete(_) => Ok(()),
        }
    }

    fn read(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.0.read(bytes)
    }
}

impl Records for DurableImage {
    fn records(&mut self, to: &mut dyn Receive) -> Result<Option<Version>, StorageError> {
        let live = match self.live.take() {
            Some(live) => live,
            None => Live::new(&self.files, &mut |bytes| to.read(bytes))?,
        };
        self.live.insert(live).each(&mut Handing(to))
    }

    fn seed(&self) -> u64 {
        self.manifest.salt
    }
}

impl Image for DurableImage {
    fn copy_to(&self, directory: &Path) -> Result<(), StorageError> {
        Snapshot {
            manifest: &self.manifest,
            files: &self.files,
        }
        .write(directory)
    }
}
