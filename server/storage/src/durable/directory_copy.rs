//! A copy of an image in a directory of its own.
//!
//! The base and the sealed logs are never written again: they are linked, which takes neither time nor space. The current log is
//! copied up to its length in the image. The manifest comes last; without it the directory is no store.
use super::acknowledgement_mark::{AcknowledgedCommit, AcknowledgementMark};
use super::directory::{self, sync_directory};
use super::files::StoreFiles;
use super::manifest::{Manifest, SealedLog};
use crate::StorageError;
use crate::disk::{Disk, OpenMode};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Content to be copied.
pub(super) struct DirectoryCopy<'a> {
    pub(super) manifest: &'a Manifest,
    /// Files of the image; the last log is the current one.
    pub(super) files: &'a StoreFiles,
}

impl DirectoryCopy<'_> {
    /// Writes the copy, durably. The directory is created if it is missing, and must be empty.
    pub(super) fn write(&self, to: &Path) -> Result<(), StorageError> {
        let disk = &*self.files.disk;
        directory::create_directories(disk, to)?;
        let names = disk.names(to).map_err(StorageError::io(|| {
            format!("cannot read the directory {}", to.display())
        }))?;
        let is_of_volume = |name: &OsString| name.to_str().is_some_and(directory::is_volume_name);
        if !names.iter().all(is_of_volume) {
            let what = format!("cannot copy the store to {}", to.display());
            return Err(StorageError::Io {
                what,
                source: io::ErrorKind::DirectoryNotEmpty.into(),
            });
        }
        let result = self.fill(disk, to);
        if result.is_err() {
            // The incomplete copy is no store, and would prevent the next attempt.
            let names = disk.names(to).unwrap_or_default();
            let names = names.iter().filter_map(|name| name.to_str());
            let names = names.filter(|name| !directory::is_volume_name(name));
            directory::remove_all(disk, to, names.collect());
        }
        result
    }

    fn fill(&self, disk: &dyn Disk, to: &Path) -> Result<(), StorageError> {
        let Some((current, sealed)) = self.files.logs.split_last() else {
            return Ok(());
        };
        let base = self.files.base.iter().map(|(path, _)| path);
        for file in base.chain(sealed.iter().map(|(path, _)| path)) {
            let linked = disk.link(file, &copied_path(file, to));
            linked.map_err(StorageError::io_or_full(|| {
                let (file, to) = (file.display(), to.display());
                format!("cannot link {file} into {to}, which must be on the same file system")
            }))?;
        }
        let (log, SealedLog { length, last, .. }) = current;
        copy_log(disk, log, *length, to)?;
        let salt = self.files.salt;
        AcknowledgementMark::create(disk, to, salt)?;
        let (mut mark, _) = AcknowledgementMark::open(disk, to, salt)?;
        mark.write(AcknowledgedCommit {
            sequence: *last,
            is_closed: true,
        })?;
        mark.sync()?;
        sync_directory(disk, to)?;
        directory::write_manifest(disk, to, self.manifest)
    }
}

fn copy_log(disk: &dyn Disk, log: &Path, length: u64, to: &Path) -> Result<(), StorageError> {
    let copy = || {
        let mut whole = disk.open(log, OpenMode::Read)?.take(length);
        let mut copy = disk.open(&copied_path(log, to), OpenMode::Create)?;
        if io::copy(&mut whole, &mut copy)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        copy.sync_all()
    };
    copy().map_err(StorageError::io_or_full(|| {
        format!("cannot copy {} to {}", log.display(), to.display())
    }))
}

/// Returns the path of a file of the store in the copy.
fn copied_path(file: &Path, to: &Path) -> PathBuf {
    file.file_name()
        .map_or_else(|| to.into(), |name| to.join(name))
}
