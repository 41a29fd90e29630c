//! A writer of backups.
use super::{Header, Trailer};
use crate::storage::frame::{FRAME_BYTES, FRAME_HEADER, seal_frame};
use crate::storage::record::{encode_clock, encode_record};
use crate::storage::{Receive, RecordView, Records, StorageError};
use std::io;

/// Writes all records as a backup. Header, frames and trailer are separate writes.
///
/// Reads the records twice: first to count them, then to write them. Calls `is_wanted` while it counts.
///
/// # Errors
/// A record cannot be read, the backup cannot be written, or it is no longer wanted ([`StorageError::Stopped`]). The bytes written so
/// far are no backup then.
pub fn write(
    records: &mut dyn Records,
    to: &mut dyn io::Write,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Header, StorageError> {
    let mut count = Count {
        records: 0,
        highest: (0, 0),
        is_wanted,
    };
    let made_ms = Header::now_ms();
    let clock = records.records(&mut count)?;
    let header = Header {
        made_ms,
        records: count.records,
        highest: count.highest.max(clock.unwrap_or_default()),
        salt: records.seed(),
    };
    let mut writing = Writing {
        to,
        salt: header.salt,
        frame: vec![0; FRAME_HEADER],
        crc: crc32fast::Hasher::new(),
        trailer: Trailer::default(),
        is_wanted,
    };
    writing.piece(header.to_text().as_bytes())?;
    if let Some(clock) = records.records(&mut writing)? {
        encode_clock(clock, &mut writing.frame);
    }
    writing.finish()?;
    Ok(header)
}

/// Counts the records and finds the highest version, for the header.
struct Count<'a> {
    records: u64,
    highest: (u64, u64),
    is_wanted: &'a dyn Fn() -> bool,
}

impl Receive for Count<'_> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.records += 1;
        self.highest = self.highest.max(record.version);
        Ok(())
    }

    fn read(&mut self, _bytes: u64) -> Result<(), StorageError> {
        go_on(self.is_wanted)
    }
}

fn go_on(is_wanted: &dyn Fn() -> bool) -> Result<(), StorageError> {
    if is_wanted() {
        Ok(())
    } else {
        Err(StorageError::Stopped)
    }
}

struct Writing<'a> {
    to: &'a mut dyn io::Write,
    salt: u64,
    frame: Vec<u8>,
    crc: crc32fast::Hasher,
    trailer: Trailer,
    is_wanted: &'a dyn Fn() -> bool,
}

impl Writing<'_> {
    fn piece(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.crc.update(bytes);
        self.trailer.length += bytes.len() as u64;
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.to
            .write_all(bytes)
            .map_err(StorageError::io_or_full(|| {
                "cannot write the backup".into()
            }))
    }

    fn frame(&mut self) -> Result<(), StorageError> {
        if self.frame.len() > FRAME_HEADER {
            self.trailer.frames += 1;
            let mut frame = std::mem::take(&mut self.frame);
            seal_frame(&mut frame, self.salt, self.trailer.frames);
            self.piece(&frame)?;
            frame.truncate(FRAME_HEADER);
            self.frame = frame;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), StorageError> {
        self.frame()?;
        self.trailer.crc = self.crc.clone().finalize();
        self.put(&self.trailer.encode())
    }
}

impl Receive for Writing<'_> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        encode_record(record, &mut self.frame);
        self.trailer.records += 1;
        if self.frame.len() < FRAME_BYTES {
            return Ok(());
        }
        self.frame()
    }

    fn read(&mut self, _bytes: u64) -> Result<(), StorageError> {
        go_on(self.is_wanted)
    }
}
