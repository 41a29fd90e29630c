//! Records on disk: an append-only log, group commits, and merging in the background.
//!
//! The engine holds every record in memory, so this storage is only ever written, and read once at
//! start. A commit appends one frame to the current log and waits for `fdatasync`. A log that has
//! grown to [`DurableOptions::log_bytes`] is sealed and the next one begun. When the sealed logs have
//! grown to the size of the base (and to at least one log), a thread merges both into a new base.
//!
//! # What is on disk after a crash
//! Every acknowledged commit. The one commit under way may be there as a whole or not at all. If it is
//! torn, the log ends with bytes that are not an intact frame, nothing intact follows them, and the
//! acknowledgement mark does not name them: they are cut off at the next start. Everything else that is
//! not as it was written is damage: [`StorageError::Damaged`], and no file is touched.
//! `docs/storage.md` gives the rules, the measurements behind the design, and its limits.
mod directory;
mod files;
mod load;
mod log;
mod manifest;
mod mark;
mod merge;
mod record;

use super::{Batch, RecordView, Restore, Storage, StorageError};
use directory::Directory;
use files::{Files, Visit, check_first, each_change};
use load::Load;
use log::{FRAME_HEADER, FileHeader, Kind, Reader, damaged, seal_frame};
use manifest::{Base, Manifest, Sealed};
use mark::{Acknowledged, Mark};
use merge::Merge;
use record::{Version, encode_batches};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub struct DurableOptions {
    /// The length in bytes at which a log is sealed; also the least amount of log worth a merge.
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
    directory: Directory,
    options: DurableOptions,
    manifest: Manifest,
    mark: Mark,
    acknowledged: Acknowledged,
    /// None before [`load`](Storage::load).
    active: Option<Active>,
    /// The frame being put together; kept for its memory.
    frame: Vec<u8>,
    merge: Option<Merge>,
    /// A commit failed: what is on disk is not known, so nothing more is accepted.
    has_failed: bool,
}

/// The log being written.
#[derive(Debug)]
struct Active {
    file: File,
    length: u64,
    /// Sequence number of the next commit.
    next: u64,
}

/// Commits wait for a merge when the logs sealed since it began are this many times what starts one.
const MOST_UNMERGED: u64 = 2;

/// Buffers above this size are given back after use.
const KEPT_BUFFER: usize = 4 << 20;

impl DurableStorage {
    /// Opens the data directory, and makes one if `path` is missing or empty.
    ///
    /// # Errors
    /// [`StorageError::InUse`] if another process has it open, [`StorageError::Damaged`] if it is
    /// something else or not as it was written.
    pub fn open(path: &Path, options: DurableOptions) -> Result<Self, StorageError> {
        let (directory, manifest) = Directory::open(path)?;
        let (mark, acknowledged) = Mark::open(directory.path(), manifest.salt)?;
        Ok(Self {
            directory,
            options,
            manifest,
            mark,
            acknowledged,
            active: None,
            frame: Vec::new(),
            merge: None,
            has_failed: false,
        })
    }

    fn log_header(&self) -> FileHeader {
        FileHeader {
            kind: Kind::Log,
            salt: self.manifest.salt,
            id: self.manifest.active,
            first: self.manifest.first,
        }
    }

    /// Reads the current log, and decides whether what follows its last frame is a torn commit or damage.
    fn read_log(&self, visit: &mut dyn Visit) -> Result<Sealed, StorageError> {
        let path = self.directory.log(self.manifest.active);
        let mut reader = Reader::open(&path, self.log_header(), None)?;
        let is_torn = !each_change(&mut reader, visit)?;
        let last = reader.next - 1;
        let Acknowledged {
            sequence,
            is_closed,
        } = self.acknowledged;
        if last < sequence {
            return Err(damaged(
                &path,
                format_args!("it ends with commit {last}, but commit {sequence} was acknowledged"),
            ));
        }
        if is_closed && (is_torn || last > sequence) {
            return Err(damaged(&path, "it was changed after the store was closed"));
        }
        if is_torn && reader.is_followed_by_frame()? {
            return Err(reader.broken());
        }
        Ok(Sealed {
            id: self.manifest.active,
            length: reader.offset,
            first: self.manifest.first,
            last,
        })
    }

    /// The base and the sealed logs, with what must be in them.
    fn files(&self) -> Files {
        let Manifest {
            salt, base, sealed, ..
        } = &self.manifest;
        let place = |log: &Sealed| (self.directory.log(log.id), *log);
        Files {
            salt: *salt,
            base: base.map(|base| (self.directory.base(base.id), base)),
            logs: sealed.iter().map(place).collect(),
        }
    }

    /// Checks that no file and no commit is missing, up to the current log.
    fn check_files(&self, files: &Files) -> Result<(), StorageError> {
        files.check()?;
        let base = self.manifest.base.map_or(0, |base| base.through);
        let through = self.manifest.sealed.last().map_or(base, |log| log.last);
        let log = self.directory.log(self.manifest.active);
        check_first(&log, self.manifest.first, through + 1)
    }

    /// Opens the current log for appending, without what a torn commit left.
    fn resume(&mut self, end: Sealed) -> Result<(), StorageError> {
        let path = self.directory.log(end.id);
        let open = || {
            let mut file = File::options().write(true).open(&path)?;
            if file.metadata()?.len() != end.length {
                file.set_len(end.length)?;
            }
            // A frame that was complete but never acknowledged may be in memory only.
            file.sync_all()?;
            file.seek(SeekFrom::Start(end.length))?;
            Ok(file)
        };
        let file = open().map_err(StorageError::io(|| {
            format!("cannot open {}", path.display())
        }))?;
        self.directory.remove_leftovers(&self.manifest)?;
        self.acknowledge(end.last, false)?;
        // On disk before the first commit: a mark that says "closed" forbids any.
        self.mark.sync()?;
        self.active = Some(Active {
            file,
            length: end.length,
            next: end.last + 1,
        });
        Ok(())
    }

    fn acknowledge(&mut self, sequence: u64, is_closed: bool) -> Result<(), StorageError> {
        self.acknowledged = Acknowledged {
            sequence,
            is_closed,
        };
        self.mark.write(self.acknowledged)
    }

    fn try_commit(&mut self, batches: &[Batch]) -> Result<(), StorageError> {
        if self.active.is_none() {
            self.load(&mut Nobody)?;
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
            self.roll()?;
        }
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let sequence = active.next;
        seal_frame(&mut self.frame, self.manifest.salt, sequence);
        active
            .file
            .write_all(&self.frame)
            .and_then(|()| active.file.sync_data())
            .map_err(StorageError::io(|| {
                format!(
                    "cannot write {}",
                    self.directory.log(self.manifest.active).display()
                )
            }))?;
        active.length += self.frame.len() as u64;
        active.next += 1;
        if self.frame.capacity() > KEPT_BUFFER {
            self.frame = Vec::new();
        }
        self.acknowledge(sequence, false)
    }

    /// Seals the current log and begins the next one.
    fn roll(&mut self) -> Result<(), StorageError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let mut manifest = self.manifest.clone();
        manifest.sealed.push(Sealed {
            id: manifest.active,
            length: active.length,
            first: manifest.first,
            last: active.next - 1,
        });
        // The number between is for a base.
        manifest.active += 2;
        manifest.first = active.next;
        let file = self
            .directory
            .create_log(manifest.salt, manifest.active, manifest.first)?;
        self.mark.sync()?;
        self.directory.write_manifest(&manifest)?;
        active.file = file;
        active.length = log::FILE_HEADER as u64;
        self.manifest = manifest;
        self.start_merge()
    }

    fn start_merge(&mut self) -> Result<(), StorageError> {
        if self.merge.is_none() && self.sealed_bytes(0) >= self.merge_bytes() {
            let files = self.files();
            let id = self.manifest.active + 1;
            self.merge = Some(Merge::start(&self.directory, files, id)?);
        }
        Ok(())
    }

    /// Length of the sealed logs behind the commit `through`.
    fn sealed_bytes(&self, through: u64) -> u64 {
        let logs = self.manifest.sealed.iter();
        logs.filter(|log| log.first > through)
            .map(|log| log.length)
            .sum()
    }

    /// How much sealed log is worth a merge.
    fn merge_bytes(&self) -> u64 {
        let base = self.manifest.base.map_or(0, |base| base.length);
        self.options.log_bytes.max(base)
    }

    /// Puts a finished merge in the place of what it merged. Waits for one that is far behind, so that
    /// the space on disk is bounded however fast the commits are.
    fn install_merge(&mut self) -> Result<(), StorageError> {
        let through = self.merge.as_ref().map_or(0, Merge::through);
        let is_behind = self.sealed_bytes(through) >= MOST_UNMERGED * self.merge_bytes();
        let Some(merge) = self.merge.take_if(|merge| is_behind || merge.is_finished()) else {
            return Ok(());
        };
        let base: Base = match merge.finish() {
            Ok(Some(base)) => base,
            Ok(None) => return Ok(()),
            Err(error @ StorageError::Io { .. }) => {
                // The logs still hold everything; the next sealed log tries again.
                tracing::warn!("the data files were not merged: {error}");
                return self.directory.remove_leftovers(&self.manifest);
            }
            Err(error) => return Err(error),
        };
        let mut manifest = self.manifest.clone();
        manifest.sealed.retain(|log| log.first > base.through);
        manifest.base = Some(base);
        self.directory.write_manifest(&manifest)?;
        self.manifest = manifest;
        self.directory.remove_leftovers(&self.manifest)
    }
}

/// For who commits without wanting to know what there was.
struct Nobody;

impl Restore for Nobody {
    fn put(&mut self, _record: &RecordView<'_>) {}
    fn delete(&mut self, _key: &[u8]) {}
}

impl Storage for DurableStorage {
    fn load(&mut self, into: &mut dyn Restore) -> Result<Option<Version>, StorageError> {
        let files = self.files();
        self.check_files(&files)?;
        let log = self.directory.log(self.manifest.active);
        let log_bytes = log.metadata().map_or(0, |metadata| metadata.len());
        let mut load = Load::new(into, files.bytes() + log_bytes);
        files.changes(&mut load)?;
        let end = self.read_log(&mut load)?;
        let clock = load.clock;
        self.resume(end)?;
        self.start_merge()?;
        Ok(clock)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<(), StorageError> {
        if self.has_failed {
            return Err(StorageError::Io {
                what: format!("cannot write {}", self.directory.path().display()),
                source: std::io::Error::other("an earlier commit failed"),
            });
        }
        let result = self.try_commit(batches);
        self.has_failed = result.is_err();
        result
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
        if let Some(active) = &self.active
            && !self.has_failed
        {
            let closed = self
                .acknowledge(active.next - 1, true)
                .and_then(|()| self.mark.sync());
            if let Err(error) = closed {
                tracing::warn!("the data directory was not marked as closed: {error}");
            }
        }
    }
}
