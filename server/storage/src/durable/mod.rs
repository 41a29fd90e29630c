//! Records on disk: an append-only log, group commits, and merging in the background.
//!
//! The engine holds every record in memory. The server therefore only writes to this storage, and reads it once, at
//! start. A commit appends one frame to the current log and waits for `fdatasync`. A log that has reached
//! [`DurableOptions::log_bytes`] is sealed, and the next one begins. When the sealed logs have reached the size of the
//! base (and of at least one log), a thread merges both into a new base.
//!
//! # What is on disk after a crash
//! Every acknowledged commit is on disk. A commit in progress may be there as a whole or not at all.
//!
//! A torn commit leaves bytes at the end of the log that are not an intact frame. No intact frame follows them, and the
//! acknowledgement mark does not name them: they are cut off at the next start.
//!
//! Any other difference from what was written is damage: [`StorageError::Damaged`], and no file is changed.
//! `docs/storage.md` describes the rules, the costs and the limits.
mod acknowledgement_mark;
mod active_log;
mod base_writer;
mod check;
mod directory;
mod directory_contents;
mod directory_copy;
mod directory_lock;
mod durable_image;
mod file_damage;
mod file_remover;
mod files;
mod live_index;
mod load_visitor;
mod log;
mod manifest;
mod merge;
mod merge_control;
mod new_store;
mod salvage;
mod stopped_store;
mod store_rewriter;

pub use check::{CheckReport, check};
pub use new_store::NewStore;
pub use salvage::{Loss, SalvageReport, salvage};
pub use stopped_store::{StoppedStore, is_store};
pub use store_rewriter::StoreRewriter;

use super::disk::{Disk, FileSystem};
use super::environment::{Environment, ThreadEnvironment};
use super::frame::{FRAME_HEADER, seal_frame};
use super::record::{Version, encode_batches};
use super::{Batch, RecordView, Restore, Storage, StorageError, StorageImage, StorageMetrics};
use acknowledgement_mark::{AcknowledgedCommit, AcknowledgementMark};
use active_log::{ActiveLog, SpareLog};
use directory::Directory;
use directory_contents::{DirectoryContents, LogEnd};
use durable_image::FileHolds;
use file_remover::FileRemover;
use load_visitor::LoadVisitor;
use manifest::{Manifest, SealedLog};
use merge::MergeHandle;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Options of the durable storage.
#[derive(Debug, Clone, Copy)]
pub struct DurableOptions {
    /// Length in bytes at which a log is sealed. It is also the least amount of log worth a merge.
    pub log_bytes: u64,
}

impl Default for DurableOptions {
    fn default() -> Self {
        Self {
            log_bytes: 32 << 20,
        }
    }
}

/// The embedded durable storage; see the [module](self).
#[derive(Debug)]
pub struct DurableStorage {
    environment: Arc<dyn Environment>,
    directory: Directory,
    options: DurableOptions,
    manifest: Manifest,
    mark: AcknowledgementMark,
    acknowledged: AcknowledgedCommit,
    /// The log being written. `None` before [`load`](Storage::load).
    active: Option<ActiveLog>,
    /// Buffer of the frame being built; kept for its memory.
    frame: Vec<u8>,
    /// The next log; without one, the current log continues.
    spare: Option<SpareLog>,
    /// Time of the last failure to create a spare, and whether the disk was full.
    last_reserve_failure: Option<(Duration, bool)>,
    merge: Option<MergeHandle>,
    /// Time when the merge began.
    merge_started: Duration,
    metrics: Arc<StorageMetrics>,
    file_remover: FileRemover,
    /// Readers of files that must not be removed.
    file_holds: FileHolds,
    /// Whether a commit failed. The content of the disk is unknown then, so that no further commit is accepted.
    has_failed: bool,
}

/// Interval between attempts to reserve space.
const RESERVE_RETRY: Duration = Duration::from_millis(500);

/// Size in bytes above which a buffer is freed after use.
const MAX_KEPT_BUFFER: usize = 4 << 20;

impl DurableStorage {
    /// Opens the data directory, and creates one if `path` is missing or empty.
    ///
    /// # Errors
    /// [`StorageError::InUse`] if another process has it open, [`StorageError::Damaged`] if it is no data directory or
    /// not as it was written.
    pub fn open(path: &Path, options: DurableOptions) -> Result<Self, StorageError> {
        let machine = Arc::new(ThreadEnvironment::default());
        Self::open_on(machine, Arc::new(FileSystem), path, options)
    }

    /// Opens the data directory on a given machine and disk.
    ///
    /// # Errors
    /// As with [`open`](Self::open).
    pub fn open_on(
        machine: Arc<dyn Environment>,
        disk: Arc<dyn Disk>,
        path: &Path,
        options: DurableOptions,
    ) -> Result<Self, StorageError> {
        let (directory, manifest) = Directory::open(disk, path, || machine.random())?;
        let (mark, acknowledged) =
            AcknowledgementMark::open(&**directory.disk(), path, manifest.salt)?;
        let metrics = Arc::<StorageMetrics>::default();
        // A new store has no commit and was never closed.
        if !acknowledged.is_closed && acknowledged.sequence > 0 {
            metrics.record_crash();
        }
        Ok(Self {
            environment: machine,
            directory,
            options,
            manifest,
            mark,
            acknowledged,
            active: None,
            frame: Vec::new(),
            spare: None,
            last_reserve_failure: None,
            merge: None,
            merge_started: Duration::ZERO,
            metrics,
            file_remover: FileRemover::default(),
            file_holds: FileHolds::default(),
            has_failed: false,
        })
    }

    /// Returns the contents according to manifest and mark.
    fn contents(&self) -> DirectoryContents<'_> {
        DirectoryContents {
            disk: self.directory.disk(),
            directory: self.directory.path(),
            manifest: &self.manifest,
            acknowledged: self.acknowledged,
        }
    }

    /// Opens the current log for appending, and cuts off a torn commit.
    fn resume(&mut self, end: LogEnd) -> Result<(), StorageError> {
        let path = self.directory.log(self.manifest.active);
        let disk = &**self.directory.disk();
        let active = ActiveLog::resume(disk, &path, end.acknowledged, end.length, end.last + 1)?;
        // The previous process may have failed to sync the names that this one found.
        self.directory.sync()?;
        self.acknowledge(end.last, false)?;
        // Synced before the first commit: a mark with "closed" allows none.
        self.mark.sync()?;
        self.active = Some(active);
        self.remove_leftovers(None);
        Ok(())
    }

    fn acknowledge(&mut self, sequence: u64, is_closed: bool) -> Result<(), StorageError> {
        self.acknowledged = AcknowledgedCommit {
            sequence,
            is_closed,
        };
        self.mark.write(self.acknowledged)
    }

    fn try_commit(&mut self, batches: &[Batch]) -> Result<(), StorageError> {
        if self.active.is_none() {
            self.load(&mut DiscardRecords)?;
        }
        self.frame.clear();
        self.frame.resize(FRAME_HEADER, 0);
        encode_batches(batches, &mut self.frame);
        if self.frame.len() == FRAME_HEADER {
            return Ok(());
        }
        self.install_merge()?;
        if self
            .active
            .as_ref()
            .is_some_and(|log| log.length >= self.options.log_bytes)
        {
            match self.try_prepare() {
                Ok(()) | Err(StorageError::Full { .. }) => self.try_roll()?,
                Err(error) => return Err(error),
            }
        }
        let Some(next) = self.active.as_ref().map(|log| log.next_sequence) else {
            return Ok(());
        };
        seal_frame(&mut self.frame, self.manifest.salt, next);
        match self.append() {
            // The next log has reserved its space already.
            Err(StorageError::Full { .. }) if self.can_roll() => {
                self.try_roll()?;
                self.append()?;
            }
            result => result?,
        }
        self.acknowledge(next, false)?;
        self.record_lengths();
        self.throttle(self.frame.len());
        if self.frame.capacity() > MAX_KEPT_BUFFER {
            self.frame = Vec::new();
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), StorageError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let took = active.append(&self.frame, &*self.environment)?;
        self.metrics.synced(self.frame.len(), took);
        Ok(())
    }

    fn record_lengths(&self) {
        let active = self.active.as_ref().map_or(0, |log| log.length);
        let base = self.manifest.base.map_or(0, |base| base.length);
        self.metrics
            .set_lengths(active + self.sealed_bytes(0), base);
    }

    fn can_roll(&self) -> bool {
        self.spare.is_some() && self.active.as_ref().is_some_and(|log| !log.is_empty())
    }

    /// Seals the current log and begins the next one. Without a spare, or without room for that, the current log
    /// continues.
    fn try_roll(&mut self) -> Result<(), StorageError> {
        let Some(mut spare) = self.spare.take() else {
            return Ok(());
        };
        let Some(mut active) = self.active.take() else {
            return Ok(());
        };
        match self.begin_log(&mut active, &mut spare) {
            Ok(manifest) => {
                self.manifest = manifest;
                self.active = Some(spare.activate(active.next_sequence));
                active.seal();
                self.start_merge();
                Ok(())
            }
            Err(error) => {
                (self.active, self.spare) = (Some(active), Some(spare));
                match error {
                    StorageError::Full { .. } => Ok(()),
                    error => Err(error),
                }
            }
        }
    }

    /// Makes the spare the durable log after `active`.
    fn begin_log(
        &mut self,
        active: &mut ActiveLog,
        spare: &mut SpareLog,
    ) -> Result<Manifest, StorageError> {
        active.trim()?;
        let mut manifest = self.manifest.clone();
        manifest.sealed.push(SealedLog {
            id: manifest.active,
            length: active.length,
            first: manifest.first,
            last: active.next_sequence - 1,
        });
        manifest.active = spare.id;
        manifest.first = active.next_sequence;
        spare.write_header(manifest.salt, manifest.first)?;
        self.mark.sync()?;
        self.directory.write_manifest(&manifest)?;
        Ok(manifest)
    }

    /// Creates the next log ahead of time, and reserves the rest of the current one.
    fn reserve(&mut self) -> Result<(), StorageError> {
        let bytes = self.options.log_bytes;
        if let Some(active) = &mut self.active {
            active.reserve(bytes)?;
        }
        if self.spare.is_none() {
            self.spare = Some(self.directory.create_spare(self.manifest.active, bytes)?);
        }
        Ok(())
    }

    fn try_prepare(&mut self) -> Result<(), StorageError> {
        self.install_merge()?;
        // A base that a merge is writing would look like a leftover.
        if self.merge.is_none() && self.file_holds.take_released() {
            self.remove_leftovers(self.spare.as_ref().map(|spare| spare.id));
        }
        if self.active.is_none() || self.spare.is_some() {
            return Ok(());
        }
        if self
            .last_reserve_failure
            .is_some_and(|(at, _)| self.environment.now() < at + RESERVE_RETRY)
        {
            return self.reserve_result();
        }
        let was_full = self
            .last_reserve_failure
            .take()
            .is_some_and(|(_, is_full)| is_full);
        match self.reserve() {
            Ok(()) => {
                if was_full {
                    self.start_merge();
                }
                Ok(())
            }
            Err(error) => {
                let is_full = matches!(error, StorageError::Full { .. });
                self.last_reserve_failure = Some((self.environment.now(), is_full));
                if is_full {
                    return Err(error);
                }
                // The current log continues meanwhile.
                tracing::warn!("{error}");
                Ok(())
            }
        }
    }

    /// Returns the result of the last attempt to reserve space.
    fn reserve_result(&self) -> Result<(), StorageError> {
        match self.last_reserve_failure {
            Some((_, true)) => Err(StorageError::Full {
                what: format!(
                    "cannot reserve space in {}",
                    self.directory.path().display()
                ),
                source: io::ErrorKind::StorageFull.into(),
            }),
            _ => Ok(()),
        }
    }

    fn check_not_failed(&self) -> Result<(), StorageError> {
        if !self.has_failed {
            return Ok(());
        }
        Err(StorageError::Io {
            what: format!("cannot write {}", self.directory.path().display()),
            source: io::Error::other("an earlier commit failed"),
        })
    }

    /// Stores whether the result forbids further commits.
    fn record_result(&mut self, result: Result<(), StorageError>) -> Result<(), StorageError> {
        self.has_failed = !matches!(result, Ok(()) | Err(StorageError::Full { .. }));
        result
    }
}

/// A receiver that ignores the existing records.
struct DiscardRecords;

impl Restore for DiscardRecords {
    fn put(&mut self, _record: &RecordView<'_>) {}
    fn delete(&mut self, _key: &[u8]) {}
}

impl Storage for DurableStorage {
    fn load(&mut self, into: &mut dyn Restore) -> Result<Option<Version>, StorageError> {
        let contents = self.contents();
        let files = contents.files();
        contents.check(&files)?;
        let log_status = contents.disk.status(&contents.current_log());
        let log_bytes = log_status.map_or(0, |status| status.length);
        let mut load = LoadVisitor::new(into, files.bytes() + log_bytes);
        files.visit_all(&mut load)?;
        let end = contents.read_current(&mut load)?;
        let clock = load.clock;
        self.resume(end)?;
        self.record_lengths();
        self.start_merge();
        Ok(clock)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<(), StorageError> {
        self.check_not_failed()?;
        let result = self.try_commit(batches);
        self.record_result(result)
    }

    fn prepare(&mut self) -> Result<(), StorageError> {
        self.check_not_failed()?;
        let result = self.try_prepare();
        self.record_result(result)
    }

    fn image(&mut self) -> Result<Box<dyn StorageImage>, StorageError> {
        self.check_not_failed()?;
        if self.active.is_none() {
            self.load(&mut DiscardRecords)?;
        }
        match self.take_image() {
            Some(image) => Ok(Box::new(image)),
            None => Err(StorageError::Stopped),
        }
    }

    fn seed(&self) -> Option<u64> {
        Some(self.manifest.salt)
    }

    fn metrics(&self) -> Arc<StorageMetrics> {
        Arc::clone(&self.metrics)
    }

    fn is_durable(&self) -> bool {
        true
    }
}

impl Drop for DurableStorage {
    fn drop(&mut self) {
        if let Some(merge) = self.merge.take() {
            merge.cancel();
        }
        let Some(mut active) = self.active.take() else {
            return;
        };
        let last = active.next_sequence - 1;
        let settled = active.trim();
        active.seal();
        self.spare = None;
        self.remove_leftovers(None);
        self.file_remover.finish();
        if !self.has_failed {
            let closed = settled.and_then(|()| self.acknowledge(last, true));
            let closed = closed.and_then(|()| self.mark.sync());
            if let Err(error) = closed {
                tracing::warn!("the data directory was not marked as closed: {error}");
            }
        }
    }
}
