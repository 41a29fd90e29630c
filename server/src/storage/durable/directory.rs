//! The data directory: who may use it, how it begins, and which of its files count.
use super::log::{self, FILE_HEADER, FileHeader, Kind, damaged};
use super::manifest::{self, Manifest};
use super::mark::{self, Mark};
use crate::storage::StorageError;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const NEW_MANIFEST: &str = "statestore.manifest.new";
/// What a freshly made ext4 file system holds.
const LOST_AND_FOUND: &str = "lost+found";

/// A data directory that this process alone uses.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Directory {
    /// Opens a data directory; makes one in an empty or missing directory.
    pub(super) fn open(path: &Path) -> Result<(Self, Manifest), StorageError> {
        let is_new = !path.exists();
        create(path)?;
        if is_new
            && let Some(parent) = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
        {
            sync_directory(parent)?;
        }
        if !path.join(manifest::NAME).exists() {
            refuse_foreign(path)?;
        }
        let lock = lock(path)?;
        let directory = Self {
            path: path.to_path_buf(),
            _lock: lock,
        };
        let manifest = match directory.read_manifest()? {
            Some(manifest) => manifest,
            None => directory.begin()?,
        };
        Ok((directory, manifest))
    }

    /// Where the directory is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file of a log.
    pub(super) fn log(&self, id: u64) -> PathBuf {
        self.path.join(format!("log-{id}"))
    }

    /// The file of a base.
    pub(super) fn base(&self, id: u64) -> PathBuf {
        self.path.join(format!("base-{id}"))
    }

    /// Makes a log without frames, durable with its name.
    pub(super) fn create_log(&self, salt: u64, id: u64, first: u64) -> Result<File, StorageError> {
        let header = FileHeader {
            kind: Kind::Log,
            salt,
            id,
            first,
        };
        let file = log::create(&self.log(id), header)?;
        sync_directory(&self.path)?;
        Ok(file)
    }

    /// Replaces the manifest as one durable step.
    pub(super) fn write_manifest(&self, manifest: &Manifest) -> Result<(), StorageError> {
        let (new, path) = (self.path.join(NEW_MANIFEST), self.path.join(manifest::NAME));
        let replace = || {
            let mut file = File::create(&new)?;
            file.write_all(manifest.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        replace().map_err(StorageError::io(|| {
            format!("cannot replace {}", path.display())
        }))?;
        sync_directory(&self.path)
    }

    /// Removes the files that an interrupted roll or merge left behind.
    pub(super) fn remove_leftovers(&self, manifest: &Manifest) -> Result<(), StorageError> {
        let fail = || StorageError::io(|| format!("cannot tidy up {}", self.path.display()));
        for entry in fs::read_dir(&self.path).map_err(fail())? {
            let path = entry.map_err(fail())?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let is_leftover = match (id_of(name, "log-"), id_of(name, "base-")) {
                (Some(id), _) => {
                    id != manifest.active && manifest.sealed.iter().all(|log| log.id != id)
                }
                (_, Some(id)) => manifest.base.is_none_or(|base| base.id != id),
                _ => name == NEW_MANIFEST,
            };
            if is_leftover {
                fs::remove_file(&path).map_err(StorageError::io(|| {
                    format!("cannot remove {}", path.display())
                }))?;
            }
        }
        Ok(())
    }

    fn read_manifest(&self) -> Result<Option<Manifest>, StorageError> {
        let path = self.path.join(manifest::NAME);
        match fs::read(&path) {
            Ok(bytes) => Manifest::parse(&path, &bytes).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io(|| {
                format!("cannot read {}", path.display())
            })(error)),
        }
    }

    /// Makes the files of an empty store; the manifest comes last.
    fn begin(&self) -> Result<Manifest, StorageError> {
        let manifest = Manifest::new(RandomState::new().build_hasher().finish());
        let log = self.log(manifest.active);
        match fs::remove_file(&log) {
            // Left by an interrupted beginning.
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(StorageError::io(|| {
                    format!("cannot remove {}", log.display())
                })(error));
            }
        }
        Mark::create(&self.path, manifest.salt)?;
        self.create_log(manifest.salt, manifest.active, manifest.first)?;
        self.write_manifest(&manifest)?;
        Ok(manifest)
    }
}

/// Makes the directory and those above it, for this user only.
fn create(path: &Path) -> Result<(), StorageError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(StorageError::io(|| {
        format!("cannot create the data directory {}", path.display())
    }))
}

/// The number in the name of a log or base.
fn id_of(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// Without a manifest, only what an interrupted beginning leaves may be in the directory.
fn refuse_foreign(path: &Path) -> Result<(), StorageError> {
    let fail = || StorageError::io(|| format!("cannot read the data directory {}", path.display()));
    for entry in fs::read_dir(path).map_err(fail())? {
        let entry = entry.map_err(fail())?;
        let name = entry.file_name();
        let is_expected = match name.to_str().unwrap_or_default() {
            LOCK | LOST_AND_FOUND | mark::NAME | NEW_MANIFEST => true,
            "log-1" => entry.metadata().map_err(fail())?.len() <= FILE_HEADER as u64,
            _ => false,
        };
        if !is_expected {
            return Err(StorageError::Damaged(format!(
                "{} holds {} but no {}: it is not a data directory, or its manifest was lost; \
                 nothing was changed, use an empty directory or restore the manifest",
                path.display(),
                name.display(),
                manifest::NAME,
            )));
        }
    }
    Ok(())
}

fn lock(directory: &Path) -> Result<File, StorageError> {
    let path = directory.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(StorageError::io(|| {
            format!("cannot open {}", path.display())
        }))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::InUse(format!(
            "the data directory {} is in use by another process",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(StorageError::io(|| {
            format!("cannot lock {}", path.display())
        })(error)),
    }
}

/// Makes names durable. Where directories cannot be opened, the file system has to do it by itself.
fn sync_directory(path: &Path) -> Result<(), StorageError> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(StorageError::io(|| {
            format!("cannot sync the directory {}", path.display())
        }))
}

/// Checks that a sealed file has exactly the length that the manifest gives.
pub(super) fn check_length(path: &Path, length: u64) -> Result<(), StorageError> {
    match path.metadata() {
        Ok(metadata) if metadata.len() == length => Ok(()),
        Ok(metadata) => Err(damaged(
            path,
            format_args!("it is {} bytes long instead of {length}", metadata.len()),
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(damaged(path, "the file is missing"))
        }
        Err(error) => Err(StorageError::io(|| {
            format!("cannot read {}", path.display())
        })(error)),
    }
}
