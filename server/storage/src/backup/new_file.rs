//! Files that are created as a whole or not at all.
use crate::StorageError;
use crate::disk::{Disk, DiskFile, FileSystem, OpenMode};
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of bytes written between two syncs, so that commits on the same disk never wait for all of them.
const SYNC_BYTES: u64 = 4 << 20;

/// Number of names to try. A name is taken with a probability of one in four thousand million.
const ATTEMPTS: usize = 8;

/// A file being written, for this user only, under a name like `NAME.1f2e3d4c.part` in the folder of its final name. It is removed
/// if it is dropped before it is [kept](Self::persist).
#[derive(Debug)]
pub struct NewFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    temporary_path: PathBuf,
    file: Box<dyn DiskFile>,
    unsynced: u64,
    replaces: bool,
    is_persisted: bool,
}

impl NewFile {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// The file exists already and should not be replaced, or it cannot be created.
    pub fn create(path: &Path, replaces: bool) -> Result<Self, StorageError> {
        Self::create_on(Arc::new(FileSystem), path, replaces)
    }

    /// Creates the temporary file on a given disk.
    ///
    /// # Errors
    /// As with [`create`](Self::create).
    pub fn create_on(
        disk: Arc<dyn Disk>,
        path: &Path,
        replaces: bool,
    ) -> Result<Self, StorageError> {
        let cannot = || cannot_write(path);
        if !replaces && disk.own_status(path).is_ok() {
            let reason = "the file exists; choose another name";
            return Err(StorageError::io(cannot)(io::Error::new(
                ErrorKind::AlreadyExists,
                reason,
            )));
        }
        let (part, file) =
            create_temporary(&*disk, path).map_err(StorageError::io_or_full(cannot))?;
        Ok(Self {
            disk,
            path: path.into(),
            temporary_path: part,
            file,
            unsynced: 0,
            replaces,
            is_persisted: false,
        })
    }

    /// Renames the file to its final name, durable with all its content.
    ///
    /// # Errors
    /// The file cannot be synced or renamed, or another process has created a file with that name; then this file is removed.
    pub fn persist(mut self) -> Result<(), StorageError> {
        let cannot = || cannot_write(&self.path);
        let synced = self.file.sync_all();
        synced.map_err(StorageError::io_or_full(cannot))?;
        let kept = if self.replaces {
            self.disk.rename(&self.temporary_path, &self.path)
        } else {
            self.disk.rename_new(&self.temporary_path, &self.path)
        };
        kept.map_err(StorageError::io_or_full(cannot))?;
        self.is_persisted = true;
        let folder = folder(&self.path);
        let synced = self.disk.sync_directory(folder);
        synced.map_err(StorageError::io(|| {
            format!("cannot sync the folder {}", folder.display())
        }))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.unsynced += count as u64;
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_persisted {
            // A file that cannot be removed keeps its `.part` name, which no program looks for.
            let _ = self.disk.remove(&self.temporary_path);
        }
    }
}

/// Creates a file beside that of this path, under an unpredictable name.
fn create_temporary(disk: &dyn Disk, path: &Path) -> io::Result<(PathBuf, Box<dyn DiskFile>)> {
    let mut attempts = 0;
    loop {
        let random = RandomState::new().hash_one(attempts);
        let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
        name.push(format!(".{:08x}.part", random >> 32));
        let part = folder(path).join(name);
        attempts += 1;
        match disk.open(&part, OpenMode::Create) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempts < ATTEMPTS => {}
            opened => return opened.map(|file| (part, file)),
        }
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
