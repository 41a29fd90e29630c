//! The log being written, and the one after it.
//!
//! Space is reserved behind the end of a file, whose length stays what was written. A full disk is therefore known before a byte of a
//! commit is written. Where the file system cannot reserve space, a write that finds no room is taken back.
//!
//! A commit that extends the file makes the file system update its length and its block map. That takes as long again as the write.
//! Such a commit is therefore followed by [zeros](ActiveLog::append_zeros), and the next commits overwrite them.
use super::log::{FILE_HEADER, FileHeader};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::environment::Environment;
use crate::{StorageError, is_full};
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of bytes read and written at a time when a part of a log is rewritten.
const REWRITE_BYTES: usize = 1 << 20;
/// Zeros that follow a commit that extends the file. More zeros would make that commit slower, fewer would be used up sooner.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// The log being written.
#[derive(Debug)]
pub(super) struct ActiveLog {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    /// Position where the last commit ends.
    pub(super) length: u64,
    /// Length of the file. Zeros fill it behind the last commit.
    file_length: u64,
    /// Position up to which space is reserved.
    reserved_length: u64,
    /// Whether bytes that were cut off may reappear after a power failure.
    has_unsynced_truncation: bool,
    /// Sequence number of the next commit.
    pub(super) next_sequence: u64,
}

impl ActiveLog {
    /// Opens a log to append to it. Unacknowledged bytes begin at `acknowledged`.
    ///
    /// If a sync failed, or was never tried, these bytes may be in memory only. After a failed sync the system considers them written,
    /// and another sync does nothing. They are therefore rewritten before they are synced.
    pub(super) fn resume(
        disk: &dyn Disk,
        path: &Path,
        acknowledged: u64,
        length: u64,
        next: u64,
    ) -> Result<Self, StorageError> {
        let open = || {
            let mut file = disk.open(path, OpenMode::ReadWrite)?;
            if file.status()?.length != length {
                file.set_length(length)?;
            }
            rewrite_range(&mut *file, acknowledged, length)?;
            file.sync_all()?;
            file.seek(SeekFrom::Start(length))?;
            Ok(file)
        };
        let file = open().map_err(StorageError::io(|| {
            format!("cannot open {}", path.display())
        }))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            length,
            file_length: length,
            reserved_length: length,
            has_unsynced_truncation: false,
            next_sequence: next,
        })
    }

    /// Returns whether the log has no commit yet.
    pub(super) fn is_empty(&self) -> bool {
        self.length <= FILE_HEADER as u64
    }

    /// Reserves space up to the length `to`.
    pub(super) fn reserve(&mut self, to: u64) -> Result<(), StorageError> {
        if to > self.reserved_length {
            let reserved = self.file.reserve(self.reserved_length, to);
            reserved.map_err(StorageError::io_or_full(|| {
                format!("cannot reserve space for {}", self.path.display())
            }))?;
            self.reserved_length = to;
        }
        Ok(())
    }

    /// Appends the frame with the number [`next_sequence`](Self::next_sequence), durable when it returns. Returns how long the sync took.
    ///
    /// After [`StorageError::Full`] no part of the frame is in the file.
    pub(super) fn append(
        &mut self,
        frame: &[u8],
        machine: &dyn Environment,
    ) -> Result<Duration, StorageError> {
        let end = self.length + frame.len() as u64;
        self.reserve(end)?;
        if let Err(error) = self.file.write_all(frame) {
            if is_full(&error) {
                self.roll_back()?;
            }
            return Err(StorageError::io_or_full(|| self.cannot_write())(error));
        }
        if end > self.file_length {
            self.file_length = end;
            self.append_zeros()
                .map_err(StorageError::io(|| self.cannot_write()))?;
        }
        let began = machine.now();
        self.file
            .sync_data()
            .map_err(StorageError::io(|| self.cannot_write()))?;
        self.has_unsynced_truncation = false;
        self.length = end;
        self.next_sequence += 1;
        Ok(machine.now().saturating_sub(began))
    }

    /// Writes zeros behind the commit that was just written, as far as space is reserved. Commits do without them if there is no room.
    fn append_zeros(&mut self) -> io::Result<()> {
        let end = self.file_length;
        let count = usize::try_from(self.reserved_length.saturating_sub(end)).unwrap_or(usize::MAX);
        let mut zeros = &ZEROS[..count.min(ZEROS.len())];
        if zeros.is_empty() {
            return Ok(());
        }
        while !zeros.is_empty() {
            match self.file.write(zeros) {
                Ok(0) => break,
                Ok(written) => {
                    zeros = &zeros[written..];
                    self.file_length += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.file.seek(SeekFrom::Start(end)).map(drop)
    }

    /// Cuts off the part of a commit that was written before the disk was full. It was never synced, and no request waits for it.
    fn roll_back(&mut self) -> Result<(), StorageError> {
        self.reserved_length = self.length;
        self.file_length = self.length;
        self.has_unsynced_truncation = true;
        self.file
            .set_length(self.length)
            .and_then(|()| self.file.seek(SeekFrom::Start(self.length)))
            .map_err(StorageError::io(|| {
                format!(
                    "cannot take back a part of a commit from {}",
                    self.path.display()
                )
            }))?;
        Ok(())
    }

    /// Cuts the file to the end of its last commit, durably. Called before another file records its length.
    pub(super) fn trim(&mut self) -> Result<(), StorageError> {
        if self.file_length > self.length {
            self.file
                .set_length(self.length)
                .map_err(StorageError::io(|| self.cannot_write()))?;
            self.file_length = self.length;
            self.reserved_length = self.length;
            self.has_unsynced_truncation = true;
        }
        if std::mem::take(&mut self.has_unsynced_truncation) {
            self.file.sync_all().map_err(StorageError::io(|| {
                format!("cannot sync {}", self.path.display())
            }))?;
        }
        Ok(())
    }

    /// Releases the reserved space that is not needed. Nothing is written to the file afterwards.
    pub(super) fn seal(self) {
        if self.reserved_length > self.length
            && let Err(error) = self.file.set_length(self.length)
        {
            let path = self.path.display();
            tracing::warn!("the space reserved for {path} was not given back: {error}");
        }
    }

    fn cannot_write(&self) -> String {
        format!("cannot write {}", self.path.display())
    }
}

/// The next log: its name is durable and its space reserved, but it is empty and no manifest names it.
#[derive(Debug)]
pub(super) struct SpareLog {
    pub(super) id: u64,
    file: Box<dyn DiskFile>,
    path: PathBuf,
    reserved: u64,
}

impl SpareLog {
    /// Creates a spare whose name is not durable yet. Leaves no file behind if there is no room.
    pub(super) fn create(
        disk: &dyn Disk,
        path: PathBuf,
        id: u64,
        bytes: u64,
    ) -> Result<Self, StorageError> {
        let opened = disk.open(&path, OpenMode::Create);
        let file = opened.map_err(StorageError::io_or_full(|| {
            format!("cannot create {}", path.display())
        }))?;
        if let Err(error) = file.reserve(0, bytes) {
            // A file that remains is a leftover like that of a crash.
            let _ = disk.remove(&path);
            return Err(StorageError::io_or_full(|| {
                format!("cannot reserve {bytes} bytes for {}", path.display())
            })(error));
        }
        Ok(Self {
            id,
            file,
            path,
            reserved: bytes,
        })
    }

    /// Writes the header, durable when it returns. May be repeated with another first commit.
    pub(super) fn write_header(&mut self, salt: u64, first: u64) -> Result<(), StorageError> {
        let header = FileHeader::log(salt, self.id, first);
        self.file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(&header.encode()))
            .map_err(StorageError::io_or_full(|| {
                format!("cannot write {}", self.path.display())
            }))?;
        self.file.sync_all().map_err(StorageError::io(|| {
            format!("cannot sync {}", self.path.display())
        }))
    }

    /// Makes the spare the log being written; its header must have been written.
    pub(super) fn activate(self, next: u64) -> ActiveLog {
        ActiveLog {
            file: self.file,
            path: self.path,
            length: FILE_HEADER as u64,
            file_length: FILE_HEADER as u64,
            reserved_length: self.reserved,
            has_unsynced_truncation: false,
            next_sequence: next,
        }
    }
}

/// Writes the existing bytes from `begin` to `end` again.
fn rewrite_range(file: &mut dyn DiskFile, begin: u64, end: u64) -> io::Result<()> {
    let mut bytes = vec![0; REWRITE_BYTES];
    let mut at = begin;
    while at < end {
        let count = bytes
            .len()
            .min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let part = &mut bytes[..count];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(part)?;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(part)?;
        at += count as u64;
    }
    Ok(())
}
