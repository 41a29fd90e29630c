//! The files of a data directory, and the end of its current log.
use super::acknowledgement_mark::AcknowledgedCommit;
use super::directory::{base_path, log_path};
use super::file_damage::damage_error;
use super::files::{ChangeVisitor, ReadStatus, StoreFiles, check_first, visit_frame};
use super::log::{FileHeader, Reader};
use super::manifest::{Manifest, SealedLog};
use crate::StorageError;
use crate::disk::Disk;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Contents of a data directory according to its manifest and mark.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirectoryContents<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) directory: &'a Path,
    pub(super) manifest: &'a Manifest,
    pub(super) acknowledged: AcknowledgedCommit,
}

/// The end of the current log.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogEnd {
    /// Position where unacknowledged bytes begin.
    pub(super) acknowledged: u64,
    pub(super) length: u64,
    /// Number of the last commit.
    pub(super) last: u64,
    /// Whether an unfinished commit follows.
    pub(super) is_torn: bool,
}

impl DirectoryContents<'_> {
    /// Returns the base and the sealed logs, with their expected contents.
    pub(super) fn files(&self) -> StoreFiles {
        let Manifest {
            salt, base, sealed, ..
        } = self.manifest;
        let place = |log: &SealedLog| (log_path(self.directory, log.id), *log);
        StoreFiles {
            disk: Arc::clone(self.disk),
            salt: *salt,
            base: base.map(|base| (base_path(self.directory, base.id), base)),
            logs: sealed.iter().map(place).collect(),
        }
    }

    /// Returns the base, the sealed logs, and the current log up to this end.
    pub(super) fn files_up_to(&self, length: u64, last: u64) -> StoreFiles {
        let mut files = self.files();
        let current = SealedLog {
            id: self.manifest.active,
            length,
            first: self.manifest.first,
            last,
        };
        files.logs.push((self.current_log(), current));
        files
    }

    /// Returns the path of the log being written.
    pub(super) fn current_log(&self) -> PathBuf {
        log_path(self.directory, self.manifest.active)
    }

    /// Checks that no file and no commit is missing, up to the current log.
    pub(super) fn check(&self, files: &StoreFiles) -> Result<(), StorageError> {
        files.check()?;
        self.check_current()
    }

    /// Checks that no commit is missing before the current log.
    pub(super) fn check_current(&self) -> Result<(), StorageError> {
        let base = self.manifest.base.map_or(0, |base| base.last);
        let through = self.manifest.sealed.last().map_or(base, |log| log.last);
        check_first(&self.current_log(), self.manifest.first, through + 1)
    }

    /// Reads the current log, and decides whether the bytes after its last frame are a torn commit or damage.
    pub(super) fn read_current(
        &self,
        visit: &mut dyn ChangeVisitor,
    ) -> Result<LogEnd, StorageError> {
        let Manifest {
            salt,
            active,
            first,
            ..
        } = *self.manifest;
        let path = self.current_log();
        let disk = &**self.disk;
        let mut reader = Reader::open(disk, &path, FileHeader::log(salt, active, first), None)?;
        let mut acknowledged = reader.offset;
        let is_whole = loop {
            match visit_frame(&mut reader, visit)? {
                ReadStatus::More if reader.next <= self.acknowledged.sequence + 1 => {
                    acknowledged = reader.offset;
                }
                ReadStatus::More => {}
                ReadStatus::EndOfFile => break true,
                ReadStatus::Damaged => break false,
            }
        };
        let is_torn = !is_whole && !reader.is_followed_by_zeros(disk)?;
        let last = reader.next - 1;
        let AcknowledgedCommit {
            sequence,
            is_closed,
        } = self.acknowledged;
        if last < sequence {
            return Err(damage_error(
                &path,
                format_args!("it ends with commit {last}, but commit {sequence} was acknowledged"),
            ));
        }
        if is_closed && (!is_whole || last > sequence) {
            return Err(damage_error(
                &path,
                "it was changed after the store was closed",
            ));
        }
        if is_torn && reader.is_followed_by_frame(disk)? {
            return Err(reader.damaged_error());
        }
        Ok(LogEnd {
            acknowledged,
            length: reader.offset,
            last,
            is_torn,
        })
    }
}
