//! A writer of bases.
use super::log::{self, FILE_HEADER, FileHeader};
use super::manifest::BaseFile;
use crate::disk::{Disk, DiskFile};
use crate::frame::{FRAME_BYTES, FRAME_HEADER, seal_frame};
use crate::record::{Version, encode_clock, encode_record};
use crate::{RecordView, StorageError};
use std::path::PathBuf;

/// Number of bytes written between two syncs, so that commits to the log never wait for the whole base.
const SYNC_BYTES: u64 = 4 << 20;

/// A base being written.
#[derive(Debug)]
pub(super) struct BaseWriter {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    salt: u64,
    id: u64,
    frame: Vec<u8>,
    sequence: u64,
    length: u64,
    unsynced: u64,
}

impl BaseWriter {
    /// Creates the file.
    pub(super) fn create(
        disk: &dyn Disk,
        path: PathBuf,
        salt: u64,
        id: u64,
    ) -> Result<Self, StorageError> {
        Ok(Self {
            file: log::create(disk, &path, FileHeader::base(salt, id))?,
            path,
            salt,
            id,
            frame: vec![0; FRAME_HEADER],
            sequence: 1,
            length: FILE_HEADER as u64,
            unsynced: 0,
        })
    }

    /// Adds a record in its encoded form. Returns whether a frame was completed.
    pub(super) fn add_encoded(&mut self, record: &[u8]) -> Result<bool, StorageError> {
        self.frame.extend_from_slice(record);
        self.flush()
    }

    /// Adds a record.
    pub(super) fn add(&mut self, record: &RecordView<'_>) -> Result<bool, StorageError> {
        encode_record(record, &mut self.frame);
        self.flush()
    }

    /// Adds the clock, and makes the base durable, except for its name.
    pub(super) fn finish(
        &mut self,
        clock: Option<Version>,
        through: u64,
    ) -> Result<BaseFile, StorageError> {
        if let Some(clock) = clock {
            encode_clock(clock, &mut self.frame);
        }
        self.write_frame()?;
        self.sync()?;
        Ok(BaseFile {
            id: self.id,
            length: self.length,
            last: through,
        })
    }

    fn flush(&mut self) -> Result<bool, StorageError> {
        let is_full = self.frame.len() >= FRAME_BYTES;
        if is_full {
            self.write_frame()?;
        }
        Ok(is_full)
    }

    fn write_frame(&mut self) -> Result<(), StorageError> {
        seal_frame(&mut self.frame, self.salt, self.sequence);
        self.file
            .write_all(&self.frame)
            .map_err(StorageError::io_or_full(|| {
                format!("cannot write {}", self.path.display())
            }))?;
        self.sequence += 1;
        self.length += self.frame.len() as u64;
        self.unsynced += self.frame.len() as u64;
        self.frame.truncate(FRAME_HEADER);
        if self.unsynced >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.unsynced = 0;
        self.file.sync_data().map_err(StorageError::io(|| {
            format!("cannot sync {}", self.path.display())
        }))
    }
}
