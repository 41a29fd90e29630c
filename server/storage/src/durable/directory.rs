//! The data directory: its creation, and the files that belong to it.
use super::acknowledgement_mark::{self, AcknowledgementMark};
use super::active_log::SpareLog;
use super::directory_lock::{DirectoryLock, LOCK};
use super::file_damage::damage_error;
use super::log::{self, FILE_HEADER, FileHeader};
use super::manifest::{self, Manifest};
use crate::disk::{Disk, OpenMode};
use crate::{Damage, StorageError};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NEW_MANIFEST: &str = "statestore.manifest.new";
/// Name of the file that marks a store being created together with its records.
pub(super) const UNFINISHED: &str = "unfinished";
/// Names that file systems and storage systems use at the root of a volume: that of ext4, and folders of snapshots.
const VOLUME_NAMES: [&str; 4] = ["lost+found", ".snapshot", ".snapshots", ".zfs"];

/// Returns whether a name belongs to the volume and not to its user.
pub(super) fn is_volume_name(name: &str) -> bool {
    VOLUME_NAMES.contains(&name)
}

/// A data directory that this process has locked.
#[derive(Debug)]
pub(super) struct Directory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Exclusive use of the directory.
    _lock: DirectoryLock,
}

impl Directory {
    /// Opens a data directory. Creates one with this salt in an empty or missing directory.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        salt: impl FnOnce() -> u64,
    ) -> Result<(Self, Manifest), StorageError> {
        create_directories(&*disk, path)?;
        if disk.status(&path.join(manifest::NAME)).is_err() {
            reject_foreign_files(&*disk, path)?;
        }
        let lock = DirectoryLock::take(&*disk, path)?;
        let directory = Self {
            disk,
            path: path.to_path_buf(),
            _lock: lock,
        };
        directory.make_private();
        let manifest = match read_manifest(&*directory.disk, path)? {
            Some(manifest) => manifest,
            None => directory.create_store(salt())?,
        };
        Ok((directory, manifest))
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the disk of the directory.
    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Returns whether no file has this name.
    pub(super) fn is_unused(&self, path: &Path) -> bool {
        self.disk.own_status(path).is_err()
    }

    /// Returns the path of a log.
    pub(super) fn log(&self, id: u64) -> PathBuf {
        log_path(&self.path, id)
    }

    /// Returns the path of a base.
    pub(super) fn base(&self, id: u64) -> PathBuf {
        base_path(&self.path, id)
    }

    /// Creates the next log, with its name durable and `bytes` reserved.
    pub(super) fn create_spare(&self, active: u64, bytes: u64) -> Result<SpareLog, StorageError> {
        // The numbers between are for bases. A leftover that cannot be removed keeps its number.
        let mut id = active + 2;
        while !self.is_unused(&self.log(id)) {
            id += 2;
        }
        let spare = SpareLog::create(&*self.disk, self.log(id), id, bytes)?;
        self.sync()?;
        Ok(spare)
    }

    /// Makes the names of files durable.
    pub(super) fn sync(&self) -> Result<(), StorageError> {
        sync_directory(&*self.disk, &self.path)
    }

    /// Replaces the manifest as one durable step. After [`StorageError::Full`] the manifest is unchanged.
    pub(super) fn write_manifest(&self, manifest: &Manifest) -> Result<(), StorageError> {
        write_manifest(&*self.disk, &self.path, manifest)
    }

    /// Returns the files that an interrupted roll or merge left behind, or that a merge replaced.
    pub(super) fn leftovers(&self, manifest: &Manifest, spare: Option<u64>) -> Vec<PathBuf> {
        let names = match self.disk.names(&self.path) {
            Ok(names) => names,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!("cannot look for files to remove in {path}: {error}");
                return Vec::new();
            }
        };
        let leftovers = names
            .into_iter()
            .filter(|name| is_leftover(name, manifest, spare));
        leftovers.map(|name| self.path.join(name)).collect()
    }

    /// Removes the access of other users to the files, which an older version may have granted. Warns if the folder is accessible to
    /// them.
    fn make_private(&self) {
        let folder = self.path.display();
        let status = self.disk.status(&self.path);
        if status.is_ok_and(|status| status.is_open_to_others) {
            tracing::warn!(
                "other users of this machine can enter the data folder {folder}; \
                 they cannot read its files: `chmod 700` closes it"
            );
        }
        for name in self.disk.names(&self.path).unwrap_or_default() {
            let path = self.path.join(&name);
            if name.to_str().is_some_and(is_store_file)
                && let Ok(status) = self.disk.own_status(&path)
                && status.is_file
                && status.is_open_to_others
                && let Err(error) = self.disk.make_private(&path)
            {
                let path = path.display();
                tracing::warn!("{path} stays readable for other users: {error}");
            }
        }
    }

    /// Creates the files of an empty store; the manifest comes last.
    fn create_store(&self, salt: u64) -> Result<Manifest, StorageError> {
        let manifest = Manifest::new(salt);
        let log = self.log(manifest.active);
        match self.disk.remove(&log) {
            // Left by an interrupted creation.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(StorageError::io(|| {
                    format!("cannot remove {}", log.display())
                })(error));
            }
        }
        AcknowledgementMark::create(&*self.disk, &self.path, manifest.salt)?;
        log::create(
            &*self.disk,
            &log,
            FileHeader::log(manifest.salt, manifest.active, manifest.first),
        )?;
        self.sync()?;
        self.write_manifest(&manifest)?;
        Ok(manifest)
    }
}

/// Returns whether a file with this name is not needed any more, or never was.
fn is_leftover(name: &OsStr, manifest: &Manifest, spare: Option<u64>) -> bool {
    let name = name.to_str().unwrap_or_default();
    match (id_of(name, "log-"), id_of(name, "base-")) {
        (Some(id), _) => {
            id != manifest.active
                && Some(id) != spare
                && manifest.sealed.iter().all(|log| log.id != id)
        }
        (_, Some(id)) => manifest.base.is_none_or(|base| base.id != id),
        _ => name == NEW_MANIFEST || name == UNFINISHED,
    }
}

/// Returns the files in a data directory that do not belong to the store.
pub(super) fn unknown_files(
    disk: &dyn Disk,
    directory: &Path,
    manifest: &Manifest,
) -> Result<Vec<PathBuf>, StorageError> {
    let names = disk.names(directory).map_err(StorageError::io(|| {
        format!("cannot read the directory {}", directory.display())
    }))?;
    let is_known = |name: &OsString| {
        name.to_str()
            .is_some_and(|it| is_store_file(it) || is_volume_name(it))
    };
    let mut strangers: Vec<_> = names
        .into_iter()
        .filter(|name| !is_known(name) || is_leftover(name, manifest, None))
        .map(|name| directory.join(name))
        .collect();
    strangers.sort();
    Ok(strangers)
}

/// Returns the number and the total length of the files of the store, without those that its manifest does not need.
pub(super) fn measure_files(
    disk: &dyn Disk,
    directory: &Path,
    manifest: Option<&Manifest>,
) -> Result<(u64, u64), StorageError> {
    let names = disk.names(directory).map_err(StorageError::io(|| {
        format!("cannot read the directory {}", directory.display())
    }))?;
    let (mut count, mut length) = (0, 0);
    for name in names {
        let is_ours = name
            .to_str()
            .is_some_and(|it| is_store_file(it) && it != LOCK);
        let is_needed = manifest.is_none_or(|manifest| !is_leftover(&name, manifest, None));
        if is_ours
            && is_needed
            && let Ok(status) = disk.status(&directory.join(&name))
            && status.is_file
        {
            count += 1;
            length += status.length;
        }
    }
    Ok((count, length))
}

/// Returns the path of a log in a data directory.
pub(super) fn log_path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("log-{id}"))
}

/// Returns the path of a base in a data directory.
pub(super) fn base_path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("base-{id}"))
}

/// Writes the manifest of a data directory, and replaces the existing one.
pub(super) fn write_manifest(
    disk: &dyn Disk,
    directory: &Path,
    manifest: &Manifest,
) -> Result<(), StorageError> {
    let (new, path) = (directory.join(NEW_MANIFEST), directory.join(manifest::NAME));
    let write = || {
        let mut file = disk.open(&new, OpenMode::Truncate)?;
        file.write_all(manifest.to_text().as_bytes())?;
        file.sync_all()
    };
    write().map_err(StorageError::io_or_postponed(|| {
        format!("cannot write {}", new.display())
    }))?;
    let renamed = disk.rename(&new, &path);
    renamed.map_err(StorageError::io(|| {
        format!("cannot replace {}", path.display())
    }))?;
    sync_directory(disk, directory)
}

/// Removes the files of a store that was not completed. First the manifest, which makes it a store, then its files, and last the note
/// that it is incomplete.
///
/// Each step is durable before the next, so that the power can fail at any time.
pub(super) fn remove_all(disk: &dyn Disk, directory: &Path, mut names: Vec<&str>) {
    let step = |name: &str| match name {
        manifest::NAME => 0,
        UNFINISHED => 2,
        _ => 1,
    };
    names.sort_by_key(|name| step(name));
    for names in names.chunk_by(|one, other| step(one) == step(other)) {
        for name in names {
            // The remaining files are no store: the next attempt removes them or reports them.
            let _ = disk.remove(&directory.join(name));
        }
        let _ = sync_directory(disk, directory);
    }
}

/// Returns the manifest of a data directory, if it has one.
pub(super) fn read_manifest(
    disk: &dyn Disk,
    directory: &Path,
) -> Result<Option<Manifest>, StorageError> {
    let path = directory.join(manifest::NAME);
    match disk.read(&path) {
        Ok(bytes) => Manifest::parse(&path, &bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StorageError::io(|| {
            format!("cannot read {}", path.display())
        })(error)),
    }
}

/// Returns the missing directories of a path, the lowest first.
pub(super) fn missing_directories<'a>(disk: &dyn Disk, path: &'a Path) -> Vec<&'a Path> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && disk.status(path).is_err();
    path.ancestors().take_while(is_missing).collect()
}

/// Creates the directory and its missing parents, for this user only, with durable names.
pub(super) fn create_directories(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    let missing = missing_directories(disk, path);
    let above = path.ancestors().nth(missing.len());
    // The last existing directory may have been created by a process that ended before it synced the name.
    let is_new = disk.status(&path.join(manifest::NAME)).is_err();
    if let Some(there) = above.filter(|there| is_new && !there.as_os_str().is_empty()) {
        sync_name(disk, there)?;
    }
    for new in missing.into_iter().rev() {
        // A path such as `a/../b` may have created it already.
        let created = disk.create_directory(new);
        created.map_err(StorageError::io(|| {
            format!("cannot create the data directory {}", new.display())
        }))?;
        sync_directory(disk, parent_of(new))?;
    }
    if disk.status(path).is_ok_and(|status| status.is_directory) {
        return Ok(());
    }
    Err(StorageError::io(|| {
        format!("cannot use the data directory {}", path.display())
    })(ErrorKind::NotADirectory.into()))
}

/// Makes the name of a directory durable. Succeeds if this user lacks the permission: then another user owns the parent.
fn sync_name(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    match sync_directory(disk, parent_of(path)) {
        Err(StorageError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            Ok(())
        }
        result => result,
    }
}

/// Returns the directory that contains the name of a directory.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        // The root has no name.
        parent => parent.unwrap_or(path),
    }
}

/// Returns whether a file with this name belongs to a data directory.
pub(super) fn is_store_file(name: &str) -> bool {
    let is_numbered = id_of(name, "log-").or(id_of(name, "base-")).is_some();
    is_numbered
        || [
            LOCK,
            acknowledgement_mark::NAME,
            manifest::NAME,
            NEW_MANIFEST,
            UNFINISHED,
        ]
        .contains(&name)
}

/// Returns the number in the name of a log or base.
pub(super) fn id_of(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// Checks that a directory without a manifest contains only the files of an interrupted creation.
fn reject_foreign_files(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    let fail = || StorageError::io(|| format!("cannot read the data directory {}", path.display()));
    let names = disk.names(path).map_err(fail())?;
    if names.iter().any(|name| name == UNFINISHED) {
        let what = "was being filled by `statestored restore`, `import` or `salvage`, which did not finish";
        let advice = "begin again, or remove the directory";
        return Err(Damage::new(path, what.into(), advice).into());
    }
    for name in names {
        let status = || disk.own_status(&path.join(&name));
        let is_expected = match name.to_str().unwrap_or_default() {
            LOCK | acknowledgement_mark::NAME | NEW_MANIFEST => true,
            name if is_volume_name(name) => true,
            "log-1" => status().map_err(fail())?.length <= FILE_HEADER as u64,
            _ => false,
        };
        if !is_expected {
            let what = format!(
                "holds {} but no {}: it is not a data directory, or its manifest was lost",
                name.display(),
                manifest::NAME,
            );
            let advice = "use an empty directory or restore the manifest";
            return Err(Damage::new(path, what, advice).into());
        }
    }
    Ok(())
}

/// Makes names durable.
pub(super) fn sync_directory(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    let synced = disk.sync_directory(path);
    synced.map_err(StorageError::io(|| {
        format!("cannot sync the directory {}", path.display())
    }))
}

/// Checks that a sealed file has exactly the length that the manifest gives.
pub(super) fn check_length(disk: &dyn Disk, path: &Path, length: u64) -> Result<(), StorageError> {
    match disk.status(path) {
        Ok(status) if status.length == length => Ok(()),
        Ok(status) => Err(damage_error(
            path,
            format_args!("it is {} bytes long instead of {length}", status.length),
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(damage_error(path, "the file is missing"))
        }
        Err(error) => Err(StorageError::io(|| {
            format!("cannot read {}", path.display())
        })(error)),
    }
}
