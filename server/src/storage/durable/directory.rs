//! The data directory: who may use it, how it begins, and which of its files count.
use super::active::Spare;
use super::log::{self, FILE_HEADER, FileHeader, damaged};
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
        create(path)?;
        if !path.join(manifest::NAME).exists() {
            refuse_foreign(path)?;
        }
        let lock = lock(path)?;
        let directory = Self {
            path: path.to_path_buf(),
            _lock: lock,
        };
        directory.keep_private();
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

    /// Makes the next log, with its name durable and `bytes` reserved.
    pub(super) fn create_spare(&self, active: u64, bytes: u64) -> Result<Spare, StorageError> {
        // The numbers between are for bases. A leftover that cannot be removed keeps its number.
        let mut id = active + 2;
        while self.log(id).symlink_metadata().is_ok() {
            id += 2;
        }
        let spare = Spare::create(self.log(id), id, bytes)?;
        self.sync()?;
        Ok(spare)
    }

    /// Makes the names of files durable.
    pub(super) fn sync(&self) -> Result<(), StorageError> {
        sync_directory(&self.path)
    }

    /// Replaces the manifest as one durable step. After [`StorageError::Full`] it is the old one.
    pub(super) fn write_manifest(&self, manifest: &Manifest) -> Result<(), StorageError> {
        let (new, path) = (self.path.join(NEW_MANIFEST), self.path.join(manifest::NAME));
        let write = || {
            let mut file = private_file().create(true).truncate(true).open(&new)?;
            file.write_all(manifest.to_text().as_bytes())?;
            file.sync_all()
        };
        write().map_err(StorageError::io_or_full(|| {
            format!("cannot write {}", new.display())
        }))?;
        fs::rename(&new, &path).map_err(StorageError::io(|| {
            format!("cannot replace {}", path.display())
        }))?;
        self.sync()
    }

    /// The files that an interrupted roll or merge left behind, or that a merge replaced.
    pub(super) fn leftovers(&self, manifest: &Manifest, spare: Option<u64>) -> Vec<PathBuf> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!("cannot look for files to remove in {path}: {error}");
                return Vec::new();
            }
        };
        let is_log = |id| {
            id == manifest.active
                || Some(id) == spare
                || manifest.sealed.iter().any(|log| log.id == id)
        };
        let is_leftover = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.unwrap_or_default();
            match (id_of(name, "log-"), id_of(name, "base-")) {
                (Some(id), _) => !is_log(id),
                (_, Some(id)) => manifest.base.is_none_or(|base| base.id != id),
                _ => name == NEW_MANIFEST,
            }
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter(is_leftover).collect()
    }

    /// Takes the files away from other users, to whom an older program may have shown them, and warns if the folder
    /// is open to them.
    #[cfg(unix)]
    fn keep_private(&self) {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let is_open = |metadata: &fs::Metadata| metadata.mode() & 0o077 != 0;
        let folder = self.path.display();
        if self
            .path
            .metadata()
            .is_ok_and(|metadata| is_open(&metadata))
        {
            tracing::warn!(
                "other users of this machine can enter the data folder {folder}; \
                 they cannot read its files: `chmod 700` closes it"
            );
        }
        let entries = fs::read_dir(&self.path).into_iter().flatten();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(is_ours)
                && let Ok(metadata) = path.symlink_metadata()
                && metadata.is_file()
                && is_open(&metadata)
                && let Err(error) = fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            {
                let path = path.display();
                tracing::warn!("{path} stays readable for other users: {error}");
            }
        }
    }

    #[cfg(not(unix))]
    fn keep_private(&self) {}

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
        log::create(
            &log,
            FileHeader::log(manifest.salt, manifest.active, manifest.first),
        )?;
        self.sync()?;
        self.write_manifest(&manifest)?;
        Ok(manifest)
    }
}

/// Makes the directory and those above it that are missing, for this user only, with durable names.
fn create(path: &Path) -> Result<(), StorageError> {
    let mut missing = Vec::new();
    let mut above = Some(path);
    while let Some(next) = above.filter(|next| !next.as_os_str().is_empty() && !next.exists()) {
        missing.push(next);
        above = next.parent();
    }
    for new in missing.into_iter().rev() {
        let mut builder = fs::DirBuilder::new();
        // A path such as `a/../b` may have made it already.
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(new).map_err(StorageError::io(|| {
            format!("cannot create the data directory {}", new.display())
        }))?;
        sync_directory(match new.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        })?;
    }
    if path.is_dir() {
        return Ok(());
    }
    Err(StorageError::io(|| {
        format!("cannot use the data directory {}", path.display())
    })(std::io::ErrorKind::NotADirectory.into()))
}

/// How files of a data directory are opened to be written: made for this user only.
pub(super) fn private_file() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Whether a file with this name belongs to a data directory.
fn is_ours(name: &str) -> bool {
    let is_numbered = id_of(name, "log-").or(id_of(name, "base-")).is_some();
    is_numbered || [LOCK, mark::NAME, manifest::NAME, NEW_MANIFEST].contains(&name)
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
    let file = private_file()
        .create(true)
        .truncate(false)
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
pub(super) fn sync_directory(path: &Path) -> Result<(), StorageError> {
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
