//! The start of merges, the installation of their result, and the pace of commits while a merge is behind.
use super::merge::Merge;
use super::{DurableStorage, StorageError};
use std::time::Duration;

/// Ratio at which commits are slowed down: the logs sealed since a merge began, to the amount that starts a merge.
const MOST_UNMERGED: u64 = 2;

/// Initial delay of a commit per byte: as if the disk wrote 64 MiB a second.
const PACE_NS_PER_BYTE: u64 = 15;

/// Maximum delay of a commit.
const MOST_PACE: Duration = Duration::from_millis(40);

impl DurableStorage {
    /// Slows commits down while a merge is far behind, so that the space on disk is bounded at any rate of commits. The
    /// delay grows with the distance, up to [`MOST_PACE`].
    pub(super) fn pace(&self, written: usize) {
        let Some(merge) = &self.merge else { return };
        let unmerged = self.sealed_bytes(merge.through());
        let times = unmerged / self.merge_bytes().max(1);
        if times >= MOST_UNMERGED && !merge.is_finished() {
            let doublings = u32::try_from(times - MOST_UNMERGED)
                .unwrap_or(u32::MAX)
                .min(10);
            let nanoseconds = (written as u64 * PACE_NS_PER_BYTE) << doublings;
            self.machine
                .sleep(Duration::from_nanos(nanoseconds).min(MOST_PACE));
        }
    }

    /// Starts a merge, if one is due. If that fails, the next sealed log tries again.
    pub(super) fn start_merge(&mut self) {
        let id = self.manifest.active + 1;
        // A file with this name may be waiting for its removal, which may have failed.
        let is_free = || self.directory.is_free(&self.directory.base(id));
        if self.merge.is_none() && self.sealed_bytes(0) >= self.merge_bytes() && is_free() {
            match Merge::start(&*self.machine, &self.directory, self.contents().files(), id) {
                Ok(merge) => {
                    self.merge = Some(merge);
                    self.merge_began = self.machine.now();
                    self.figures.merge_began();
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
        let took = self.machine.now().saturating_sub(self.merge_began);
        let merged = merge.finish();
        self.figures.merge_ended(took, merged.is_ok());
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
        manifest.sealed.retain(|log| log.first > base.through);
        manifest.base = Some(base);
        match self.directory.write_manifest(&manifest) {
            Ok(()) => {
                self.manifest = manifest;
                self.count_lengths();
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
        self.tidy.finish();
        let leftovers = self.directory.leftovers(&self.manifest, spare);
        let leftovers = self.holders.without_held(leftovers);
        let (machine, disk) = (&*self.machine, self.directory.disk());
        self.tidy.remove(machine, disk, leftovers);
    }
}
