//! A writer of backups.
use super::{Header, Trailer};
use crate::frame::{FRAME_BYTES, FRAME_HEADER, seal_frame};
use crate::record::{encode_clock, encode_record};
use crate::{RecordReceiver, RecordSource, RecordView, StorageError};
use std::io;

/// Writes all records as a backup. Header, frames and trailer are separate writes.
///
/// Reads the records twice: first to count them, then to write them. Calls `is_wanted` while it counts.
///
/// # Errors
/// A record cannot be read, the backup cannot be written, or it is no longer wanted ([`StorageError::Stopped`]). The bytes written so
/// far are no backup then.
pub fn write(
    records: &mut dyn RecordSource,
    to: &mut dyn io::Write,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Header, StorageError> {
    let mut count = RecordCounter {
        records: 0,
        highest: (0, 0),
        is_wanted,
    };
    let made_ms = Header::now_ms();
    let clock = records.records(&mut count)?;
    let header = Header {
        created_ms: made_ms,
        records: count.records,
        highest: count.highest.max(clock.unwrap_or_default()),
        salt: records.seed(),
    };
    let mut writing = BackupWriter {
        to,
        salt: header.salt,
        frame: vec![0; FRAME_HEADER],
        crc: crc32fast::Hasher::new(),
        trailer: Trailer::default(),
        is_wanted,
    };
    writing.write_bytes(header.to_text().as_bytes())?;
    if let Some(clock) = records.records(&mut writing)? {
        encode_clock(clock, &mut writing.frame);
    }
    writing.finish()?;
    Ok(header)
}

/// Counts the records and finds the highest version, for the header.
struct RecordCounter<'a> {
    records: u64,
    highest: (u64, u64),
    is_wanted: &'a dyn Fn() -> bool,
}

impl RecordReceiver for RecordCounter<'_> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.records += 1;
        self.highest = self.highest.max(record.version);
        Ok(())
    }

    fn progressed(&mut self, _bytes: u64) -> Result<(), StorageError> {
        check_wanted(self.is_wanted)
    }
}

fn check_wanted(is_wanted: &dyn Fn() -> bool) -> Result<(), StorageError> {
    if is_wanted() {
        Ok(())
    } else {
        Err(StorageError::Stopped)
    }
}

struct BackupWriter<'a> {
    to: &'a mut dyn io::Write,
    salt: u64,
    frame: Vec<u8>,
    crc: crc32fast::Hasher,
    trailer: Trailer,
    is_wanted: &'a dyn Fn() -> bool,
}

impl BackupWriter<'_> {
    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.crc.update(bytes);
        self.trailer.length += bytes.len() as u64;
        self.add_encoded(bytes)
    }

    fn add_encoded(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.to
            .write_all(bytes)
            .map_err(StorageError::io_or_full(|| {
                "cannot write the backup".into()
            }))
    }

    fn write_frame(&mut self) -> Result<(), StorageError> {
        if self.frame.len() > FRAME_HEADER {
            self.trailer.frames += 1;
            let mut frame = std::mem::take(&mut self.frame);
            seal_frame(&mut frame, self.salt, self.trailer.frames);
            self.write_bytes(&frame)?;
            frame.truncate(FRAME_HEADER);
            self.frame = frame;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), StorageError> {
        self.write_frame()?;
        self.trailer.crc = self.crc.clone().finalize();
        self.add_encoded(&self.trailer.encode())
    }
}

impl RecordReceiver for BackupWriter<'_> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        encode_record(record, &mut self.frame);
        self.trailer.records += 1;
        if self.frame.len() < FRAME_BYTES {
            return Ok(());
        }
        self.write_frame()
    }

    fn progressed(&mut self, _bytes: u64) -> Result<(), StorageError> {
        check_wanted(self.is_wanted)
    }
}
