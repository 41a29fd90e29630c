//! The start of merges, the installation of their result, and the pace of commits while a merge is behind.
use super::merge::MergeHandle;
use super::{DurableStorage, StorageError};
use std::time::Duration;

/// Ratio at which commits are slowed down: the logs sealed since a merge began, to the amount that starts a merge.
const MAX_UNMERGED_RATIO: u64 = 2;

/// Initial delay of a commit per byte: as if the disk wrote 64 MiB a second.
const THROTTLE_NS_PER_BYTE: u64 = 15;

/// Maximum delay of a commit.
const MAX_THROTTLE: Duration = Duration::from_millis(40);

impl DurableStorage {
    /// Slows commits down while a merge is far behind, so that the space on disk is bounded at any rate of commits. The
    /// delay grows with the distance, up to [`MAX_THROTTLE`].
    pub(super) fn throttle(&self, written: usize) {
        let Some(merge) = &self.merge else { return };
        let unmerged = self.sealed_bytes(merge.last());
        let times = unmerged / self.merge_bytes().max(1);
        if times >= MAX_UNMERGED_RATIO && !merge.is_finished() {
            let doublings = u32::try_from(times - MAX_UNMERGED_RATIO)
                .unwrap_or(u32::MAX)
                .min(10);
            let nanoseconds = (written as u64 * THROTTLE_NS_PER_BYTE) << doublings;
            self.environment
                .sleep(Duration::from_nanos(nanoseconds).min(MAX_THROTTLE));
        }
    }

    /// Starts a merge, if one is due. If that fails, the next sealed log tries again.
    pub(super) fn start_merge(&mut self) {
        let id = self.manifest.active + 1;
        // A file with this name may be waiting for its removal, which may have failed.
        let is_free = || self.directory.is_unused(&self.directory.base(id));
        if self.merge.is_none() && self.sealed_bytes(0) >= self.merge_bytes() && is_free() {
            match MergeHandle::start(
                &*self.environment,
                &self.directory,
                self.contents().files(),
                id,
            ) {
                Ok(merge) => {
                    self.merge = Some(merge);
                    self.merge_started = self.environment.now();
                    self.metrics.merge_started();
                }
                Err(error) => tracing::warn!("the data files are not merged now: {error}"),
            }
        }
    }

    /// Returns the length of the sealed logs behind the commit `through`.
    pub(super) fn sealed_bytes(&self, through: u64) -> u64 {
        let logs = self.manifest.sealed.iter();
        logs.filter(|log| log.first > through)
            .map(|log| log.length)
            .sum()
    }

    /// Returns the length of sealed logs at which a merge is due.
    fn merge_bytes(&self) -> u64 {
        let base = self.manifest.base.map_or(0, |base| base.length);
        self.options.log_bytes.max(base)
    }

    /// Replaces the merged files with the result of a finished merge.
    pub(super) fn install_merge(&mut self) -> Result<(), StorageError> {
        let Some(merge) = self.merge.take_if(|merge| merge.is_finished()) else {
            return Ok(());
        };
        let spare = self.spare.as_ref().map(|spare| spare.id);
        let took = self.environment.now().saturating_sub(self.merge_started);
        let merged = merge.finish();
        self.metrics.merge_ended(took, merged.is_ok());
        let base = match merged {
            Ok(base) => base,
            Err(error @ (StorageError::Io { .. } | StorageError::Full { .. })) => {
                // The logs still have all records; the next sealed log tries again.
                tracing::warn!("the data files were not merged: {error}");
                self.remove_leftovers(spare);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut manifest = self.manifest.clone();
        manifest.sealed.retain(|log| log.first > base.last);
        manifest.base = Some(base);
        match self.directory.write_manifest(&manifest) {
            Ok(()) => {
                self.manifest = manifest;
                self.record_lengths();
            }
            Err(error @ StorageError::Full { .. }) => {
                tracing::warn!("the merged data files are not used: {error}");
            }
            Err(error) => return Err(error),
        }
        self.remove_leftovers(spare);
        Ok(())
    }

    /// Starts to remove the files that do not count; `spare` is the next log. Do not call it during a merge.
    pub(super) fn remove_leftovers(&mut self, spare: Option<u64>) {
        // Files that are being removed must not be found again.
        self.file_remover.finish();
        let leftovers = self.directory.leftovers(&self.manifest, spare);
        let leftovers = self.file_holds.remove_held(leftovers);
        let (machine, disk) = (&*self.environment, self.directory.disk());
        self.file_remover.remove(machine, disk, leftovers);
    }
}
