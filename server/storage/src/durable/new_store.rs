//! A data directory that is created together with all its records. It is no store before the last record is written.
//!
//! The file `unfinished` is created first, and the manifest last. A directory with `unfinished` and without a manifest was not
//! completed by its process: a server refuses it, and it can be created again.
use super::acknowledgement_mark::{AcknowledgedCommit, AcknowledgementMark};
use super::base_writer::BaseWriter;
use super::directory::{
    UNFINISHED, base_path, create_directories, is_store_file, is_volume_name, log_path,
    missing_directories, remove_all, sync_directory, write_manifest,
};
use super::directory_lock::{DirectoryLock, LOCK};
use super::log::{self, FileHeader};
use super::manifest::{self, Manifest};
use crate::disk::{Disk, FileSystem, OpenMode};
use crate::record::Version;
use crate::{RecordReceiver, RecordView, StorageError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const UNFINISHED_NOTE: &[u8] = b"This directory was being filled by `statestored restore`, `import` or `salvage`, which did not finish.\n\
It is not a store. Begin again with the same directory, or remove it.\n";
/// Sequence number of the single commit that the records seem to come from.
const SEQUENCE: u64 = 1;
const BASE_ID: u64 = 2;
const LOG_ID: u64 = 3;

/// A store being created. All its files are removed if it is dropped before it is [finished](Self::finish).
#[derive(Debug)]
pub struct NewStore {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    salt: u64,
    /// Directories created for the store, in reverse order of creation.
    created_directories: Vec<PathBuf>,
    base: Option<BaseWriter>,
    is_finished: bool,
    _lock: DirectoryLock,
}

impl NewStore {
    /// Begins a store in a directory that is missing, empty, or left by an incomplete creation.
    ///
    /// # Errors
    /// The directory contains other files, is in use, or cannot be written.
    pub fn create(path: &Path, salt: u64) -> Result<Self, StorageError> {
        Self::create_on(Arc::new(FileSystem), path, salt)
    }

    /// Begins a store on a given disk.
    ///
    /// # Errors
    /// As with [`create`](Self::create).
    pub fn create_on(disk: Arc<dyn Disk>, path: &Path, salt: u64) -> Result<Self, StorageError> {
        let made = missing_directories(&*disk, path)
            .into_iter()
            .map(PathBuf::from);
        let made = made.collect();
        create_directories(&*disk, path)?;
        let is_left = is_unfinished(&*disk, path)?;
        let lock = DirectoryLock::take(&*disk, path)?;
        let mut store = Self {
            disk,
            path: path.into(),
            salt,
            created_directories: made,
            base: None,
            is_finished: false,
            _lock: lock,
        };
        if is_left {
            store.clear(&[LOCK, UNFINISHED]);
        }
        store.begin()?;
        Ok(store)
    }

    fn begin(&mut self) -> Result<(), StorageError> {
        let note = self.path.join(UNFINISHED);
        let write = || {
            let mut file = self.disk.open(&note, OpenMode::Truncate)?;
            file.write_all(UNFINISHED_NOTE)?;
            file.sync_all()
        };
        write().map_err(StorageError::io_or_full(|| {
            format!("cannot write {}", note.display())
        }))?;
        sync_directory(&*self.disk, &self.path)?;
        let path = base_path(&self.path, BASE_ID);
        let base = BaseWriter::create(&*self.disk, path, self.salt, BASE_ID)?;
        self.base = Some(base);
        Ok(())
    }

    /// Completes the store, durably, with this clock.
    ///
    /// # Errors
    /// The store cannot be written. All its files are removed.
    pub fn finish(mut self, clock: Option<Version>) -> Result<(), StorageError> {
        let Some(mut base) = self.base.take() else {
            return Ok(());
        };
        let disk = &*self.disk;
        let manifest = Manifest {
            salt: self.salt,
            base: Some(base.finish(clock, SEQUENCE)?),
            sealed: Vec::new(),
            active: LOG_ID,
            first: SEQUENCE + 1,
        };
        AcknowledgementMark::create(disk, &self.path, self.salt)?;
        let (mut mark, _) = AcknowledgementMark::open(disk, &self.path, self.salt)?;
        mark.write(AcknowledgedCommit {
            sequence: SEQUENCE,
            is_closed: true,
        })?;
        mark.sync()?;
        let header = FileHeader::log(self.salt, LOG_ID, manifest.first);
        log::create(disk, &log_path(&self.path, LOG_ID), header)?;
        sync_directory(disk, &self.path)?;
        write_manifest(disk, &self.path, &manifest)?;
        self.is_finished = true;
        // If the file remains, or reappears after a power failure, the next start removes it.
        let _ = disk.remove(&self.path.join(UNFINISHED));
        Ok(())
    }

    /// Removes the files of the store, except those in `kept`.
    fn clear(&self, kept: &[&str]) {
        let names = self.disk.names(&self.path).unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let ours = names.filter(|name| is_store_file(name) && !kept.contains(name));
        remove_all(&*self.disk, &self.path, ours.collect());
    }
}

impl RecordReceiver for NewStore {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        if let Some(base) = &mut self.base {
            base.add(record)?;
        }
        Ok(())
    }
}

impl Drop for NewStore {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        self.clear(&[]);
        for directory in &self.created_directories {
            // A directory that reappears after a power failure is empty.
            if self.disk.remove_directory(directory).is_err() {
                return;
            }
        }
    }
}

/// Returns whether the directory contains an unfinished store; an error if it contains other files.
fn is_unfinished(disk: &dyn Disk, path: &Path) -> Result<bool, StorageError> {
    let names = disk.names(path).map_err(StorageError::io(|| {
        format!("cannot read the directory {}", path.display())
    }))?;
    let has = |wanted: &str| names.iter().any(|name| name.to_str() == Some(wanted));
    let is_left = has(UNFINISHED) && !has(manifest::NAME);
    let is_harmless =
        |name: &str| name == LOCK || is_volume_name(name) || is_left && is_store_file(name);
    match names
        .iter()
        .find(|name| !name.to_str().is_some_and(is_harmless))
    {
        None => Ok(is_left),
        Some(name) => Err(StorageError::Io {
            what: format!(
                "cannot make a store in {}, which holds {}",
                path.display(),
                name.display()
            ),
            source: io::Error::from(ErrorKind::DirectoryNotEmpty),
        }),
    }
}
