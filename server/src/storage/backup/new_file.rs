//! A file that is there as a whole or not at all.
use crate::storage::StorageError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// How much is written between two syncs, so that commits on the same disk never wait for all of it.
const SYNC_BYTES: u64 = 4 << 20;

/// A file being written, for this user only, under a name like `NAME.x1y2z3.part` in the folder where it shall be. Gone if it is
/// dropped before it is [kept](Self::keep).
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    part: NamedTempFile,
    unsynced: u64,
    replaces: bool,
}

impl NewFile {
    /// Begins it.
    ///
    /// # Errors
    /// The file is there already, and is not to be replaced; or it cannot be made.
    pub fn create(path: &Path, replaces: bool) -> Result<Self, StorageError> {
        let cannot = || cannot_write(path);
        if !replaces && fs::symlink_metadata(path).is_ok() {
            return Err(StorageError::io(cannot)(
                io::ErrorKind::AlreadyExists.into(),
            ));
        }
        let mut prefix = path.file_name().map_or_else(OsString::new, OsString::from);
        prefix.push(".");
        let part = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".part")
            .tempfile_in(folder(path));
        Ok(Self {
            path: path.into(),
            part: part.map_err(StorageError::io_or_full(cannot))?,
            unsynced: 0,
            replaces,
        })
    }

    /// Gives it its name, durable with all its content.
    ///
    /// # Errors
    /// That is not possible, or somebody made such a file meanwhile; then this one is gone.
    pub fn keep(self) -> Result<(), StorageError> {
        let path = self.path;
        let cannot = || cannot_write(&path);
        let synced = self.part.as_file().sync_all();
        synced.map_err(StorageError::io_or_full(cannot))?;
        let kept = if self.replaces {
            self.part.persist(&path)
        } else {
            self.part.persist_noclobber(&path)
        };
        kept.map_err(|error| StorageError::io_or_full(cannot)(error.error))?;
        let folder = folder(&path);
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(StorageError::io(|| {
            format!("cannot sync the folder {}", folder.display())
        }))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.part.write(bytes)?;
        self.unsynced += count as u64;
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.part.as_file().sync_data()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.part.flush()
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
