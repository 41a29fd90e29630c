//! Loading of all records at start: each file is read once, while it is checked.
use super::files::ChangeVisitor;
use crate::record::{LogChange, Version};
use crate::{LoadProgress, Restore, StorageError};

/// Number of bytes read between two reports: some milliseconds.
const REPORT_BYTES: u64 = 1 << 20;

/// A load in progress.
pub(super) struct LoadVisitor<'a> {
    into: &'a mut dyn Restore,
    progress: LoadProgress,
    reported: u64,
    /// Highest clock found so far.
    pub(super) clock: Option<Version>,
}

impl<'a> LoadVisitor<'a> {
    pub(super) fn new(into: &'a mut dyn Restore, total: u64) -> Self {
        Self {
            into,
            progress: LoadProgress { done: 0, total },
            reported: 0,
            clock: None,
        }
    }
}

impl ChangeVisitor for LoadVisitor<'_> {
    fn announce(&mut self, changes: &[LogChange<'_>]) {
        self.into
            .announce(&mut changes.iter().filter_map(|change| match change {
                LogChange::Clock(_) => None,
                LogChange::Put(put) => Some(put.record.key),
                LogChange::Delete(key) => Some(*key),
            }));
    }

    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError> {
        match change {
            LogChange::Clock(version) => self.clock = self.clock.max(Some(version)),
            LogChange::Put(put) => self.into.put(&put.record),
            LogChange::Delete(key) => self.into.delete(key),
        }
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.progress.done += bytes;
        if self.progress.done < self.reported + REPORT_BYTES {
            return Ok(());
        }
        self.reported = self.progress.done;
        if self.into.progressed(self.progress).is_break() {
            return Err(StorageError::Stopped);
        }
        Ok(())
    }
}
