//! Check of a data directory, which reports all damage instead of only the first.
use super::contents::{Contents, End};
use super::directory::{check_length, lock_if_any, read_manifest, strangers};
use super::files::{Visit, check_first};
use super::live::Live;
use super::log::{damage, damaged};
use super::mark::{Acknowledged, Mark};
use super::stopped::no_store;
use crate::storage::disk::{Disk, FileSystem};
use crate::storage::record::Change;
use crate::storage::{Damage, StorageError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a check.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Checked {
    /// Number of records; `None` if there is damage.
    pub records: Option<u64>,
    /// Number of files of the store.
    pub files: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Damage that was found. Empty if every file is as it was written.
    pub damage: Vec<Damage>,
    /// Files that do not belong to the store, or are no longer needed. They are harmless.
    pub strangers: Vec<PathBuf>,
    /// The log that ends with an unfinished commit, which the next start cuts off.
    pub torn: Option<PathBuf>,
}

impl Checked {
    /// Creates the result for a single file that has not been read yet.
    pub(crate) fn of_file() -> Self {
        Self {
            files: 1,
            ..Self::default()
        }
    }

    /// Records damage; returns any other error, which prevents the check.
    pub(crate) fn note<T>(
        &mut self,
        result: Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(StorageError::Damaged(damage)) => {
                self.damage.push(damage);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Checks a data directory that no process uses; nothing in it is changed. `read` receives the number of bytes read since
/// the last call, and can stop the check with an error.
///
/// # Errors
/// The directory is in use, or cannot be read.
pub fn check(
    path: &Path,
    read: &mut dyn FnMut(u64) -> Result<(), StorageError>,
) -> Result<Checked, StorageError> {
    let disk: Arc<dyn Disk> = Arc::new(FileSystem);
    let _lock = lock_if_any(&*disk, path)?;
    let mut checked = Checked::default();
    let manifest = read_manifest(&*disk, path);
    let manifest = manifest.and_then(|manifest| manifest.ok_or_else(|| no_store(path)));
    let Some(manifest) = checked.note(manifest)? else {
        return Ok(checked);
    };
    let mark = checked.note(Mark::read(&*disk, path, manifest.salt))?;
    let contents = Contents {
        disk: &disk,
        directory: path,
        manifest: &manifest,
        // Without a mark, the number that it would have stated does not count.
        acknowledged: mark.unwrap_or(Acknowledged {
            sequence: 0,
            is_closed: false,
        }),
    };
    let mut checking = Checking {
        path: PathBuf::new(),
        is_base: false,
        bytes: 0,
        read,
    };
    let files = contents.files();
    let mut next = 1;
    if let Some((path, base)) = &files.base {
        checking.begin(path, true);
        let whole = check_length(&*disk, path, base.length);
        checked.note(whole.and_then(|()| files.base_changes(&mut checking)))?;
        next = base.through + 1;
    }
    for (path, log) in &files.logs {
        checking.begin(path, false);
        checked.note(check_first(path, log.first, next))?;
        let whole = check_length(&*disk, path, log.length);
        checked.note(whole.and_then(|()| files.changes_of(path, log, &mut checking)))?;
        next = log.last + 1;
    }
    checked.note(contents.check_current())?;
    checking.begin(&contents.current_log(), false);
    let end = checked.note(contents.read_current(&mut checking))?;
    checked.bytes = checking.bytes;
    checked.files = files.paths().count() as u64 + 3;
    checked.strangers = strangers(&*disk, path, &manifest)?;
    if let Some(End {
        length,
        last,
        is_torn,
        ..
    }) = end
    {
        checked.torn = is_torn.then(|| contents.current_log());
        if checked.damage.is_empty() {
            let mut records = 0;
            let live = Live::new(&contents.files_up_to(length, last), read)?;
            live.each(&mut |_: Change<'_>| {
                records += 1;
                Ok(())
            })?;
            checked.records = Some(records);
        }
    }
    Ok(checked)
}

/// A visitor that checks each change.
struct Checking<'a> {
    path: PathBuf,
    is_base: bool,
    bytes: u64,
    read: &'a mut dyn FnMut(u64) -> Result<(), StorageError>,
}

impl Checking<'_> {
    fn begin(&mut self, path: &Path, is_base: bool) {
        self.path = path.into();
        self.is_base = is_base;
    }
}

impl Visit for Checking<'_> {
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        let key = match &change {
            Change::Clock(_) => return Ok(()),
            Change::Put(put) => put.record.key,
            Change::Delete(key) => *key,
        };
        if key.is_empty() {
            return Err(damage(&self.path, "a key in it is empty").into());
        }
        if self.is_base && matches!(change, Change::Delete(_)) {
            return Err(damaged(
                &self.path,
                "a base deletes nothing, but this one does",
            ));
        }
        Ok(())
    }

    fn read(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.bytes += bytes;
        (self.read)(bytes)
    }
}
