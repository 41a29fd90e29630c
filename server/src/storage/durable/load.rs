//! Loading of all records at start: each file is read once, while it is checked.
use super::files::Visit;
use crate::storage::record::{Change, Version};
use crate::storage::{LoadProgress, Restore, StorageError};

/// Number of bytes read between two reports: some milliseconds.
const REPORT_BYTES: u64 = 1 << 20;

/// A load in progress.
pub(super) struct Load<'a> {
    into: &'a mut dyn Restore,
    progress: LoadProgress,
    reported: u64,
    /// Highest clock found so far.
    pub(super) clock: Option<Version>,
}

impl<'a> Load<'a> {
    pub(super) fn new(into: &'a mut dyn Restore, total: u64) -> Self {
        Self {
            into,
            progress: LoadProgress { done: 0, total },
            reported: 0,
            clock: None,
        }
    }
}

impl Visit for Load<'_> {
    fn ahead(&mut self, changes: &[Change<'_>]) {
        self.into
            .ahead(&mut changes.iter().filter_map(|change| match change {
                Change::Clock(_) => None,
                Change::Put(put) => Some(put.record.key),
                Change::Delete(key) => Some(*key),
            }));
    }

    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        match change {
            Change::Clock(version) => self.clock = self.clock.max(Some(version)),
            Change::Put(put) => self.into.put(&put.record),
            Change::Delete(key) => self.into.delete(key),
        }
        Ok(())
    }

    fn read(&mut self, bytes: u64) -> Result<(), StorageError> {
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
