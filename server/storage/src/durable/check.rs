//! Check of a data directory, which reports all damage instead of only the first.
use super::acknowledgement_mark::{AcknowledgedCommit, AcknowledgementMark};
use super::directory::{check_length, measure_files, read_manifest, unknown_files};
use super::directory_contents::{DirectoryContents, LogEnd};
use super::directory_lock::DirectoryLock;
use super::file_damage::{damage_error, file_damage};
use super::files::{ChangeVisitor, check_first};
use super::live_index::LiveIndex;
use super::stopped_store::no_store_error;
use crate::disk::{Disk, FileSystem};
use crate::record::LogChange;
use crate::{Damage, StorageError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a check.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of records; `None` if there is damage.
    pub records: Option<u64>,
    /// Number of files of the store.
    pub files: u64,
    /// Total length of these files in bytes.
    pub bytes: u64,
    /// Damage that was found. Empty if every file is as it was written.
    pub damage: Vec<Damage>,
    /// Files that do not belong to the store, or are no longer needed. They are harmless.
    pub unknown_files: Vec<PathBuf>,
    /// The log that ends with an unfinished commit, which the next start cuts off.
    pub torn_log: Option<PathBuf>,
}

impl CheckReport {
    /// Creates the result for a single file of this length that has not been read yet.
    pub fn for_single_file(bytes: u64) -> Self {
        Self {
            files: 1,
            bytes,
            ..Self::default()
        }
    }

    /// Records damage; returns any other error, which prevents the check.
    pub fn record_damage<T>(
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
) -> Result<CheckReport, StorageError> {
    let disk: Arc<dyn Disk> = Arc::new(FileSystem);
    let _lock = DirectoryLock::take_if_present(&*disk, path)?;
    let mut checked = CheckReport::default();
    let manifest = read_manifest(&*disk, path);
    let manifest = manifest.and_then(|manifest| manifest.ok_or_else(|| no_store_error(path)));
    let Some(manifest) = checked.record_damage(manifest)? else {
        (checked.files, checked.bytes) = measure_files(&*disk, path, None)?;
        return Ok(checked);
    };
    let mark = checked.record_damage(AcknowledgementMark::read(&*disk, path, manifest.salt))?;
    let contents = DirectoryContents {
        disk: &disk,
        directory: path,
        manifest: &manifest,
        // Without a mark, the number that it would have stated does not count.
        acknowledged: mark.unwrap_or(AcknowledgedCommit {
            sequence: 0,
            is_closed: false,
        }),
    };
    let mut checking = CheckVisitor {
        path: PathBuf::new(),
        is_base: false,
        read,
    };
    let files = contents.files();
    let mut next = 1;
    if let Some((path, base)) = &files.base {
        checking.begin(path, true);
        let whole = check_length(&*disk, path, base.length);
        checked.record_damage(whole.and_then(|()| files.visit_base(&mut checking)))?;
        next = base.last + 1;
    }
    for (path, log) in &files.logs {
        checking.begin(path, false);
        checked.record_damage(check_first(path, log.first, next))?;
        let whole = check_length(&*disk, path, log.length);
        checked.record_damage(whole.and_then(|()| files.visit_log(path, log, &mut checking)))?;
        next = log.last + 1;
    }
    checked.record_damage(contents.check_current())?;
    checking.begin(&contents.current_log(), false);
    let end = checked.record_damage(contents.read_current(&mut checking))?;
    (checked.files, checked.bytes) = measure_files(&*disk, path, Some(&manifest))?;
    checked.unknown_files = unknown_files(&*disk, path, &manifest)?;
    if let Some(LogEnd {
        length,
        last,
        is_torn,
        ..
    }) = end
    {
        checked.torn_log = is_torn.then(|| contents.current_log());
        if checked.damage.is_empty() {
            let mut records = 0;
            let live = LiveIndex::new(&contents.files_up_to(length, last), read)?;
            live.visit_live(&mut |_: LogChange<'_>| {
                records += 1;
                Ok(())
            })?;
            checked.records = Some(records);
        }
    }
    Ok(checked)
}

/// A visitor that checks each change.
struct CheckVisitor<'a> {
    path: PathBuf,
    is_base: bool,
    read: &'a mut dyn FnMut(u64) -> Result<(), StorageError>,
}

impl CheckVisitor<'_> {
    fn begin(&mut self, path: &Path, is_base: bool) {
        self.path = path.into();
        self.is_base = is_base;
    }
}

impl ChangeVisitor for CheckVisitor<'_> {
    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError> {
        let key = match &change {
            LogChange::Clock(_) => return Ok(()),
            LogChange::Put(put) => put.record.key,
            LogChange::Delete(key) => *key,
        };
        if key.is_empty() {
            return Err(file_damage(&self.path, "a key in it is empty").into());
        }
        if self.is_base && matches!(change, LogChange::Delete(_)) {
            return Err(damage_error(
                &self.path,
                "a base deletes nothing, but this one does",
            ));
        }
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        (self.read)(bytes)
    }
}
