//! A writer of lines.
use super::FORMAT;
use super::line::{HeaderLine, RecordLine};
use crate::backup::format_now;
use crate::{RecordReceiver, RecordSource, RecordView, StorageError};
use serde::Serialize;
use statestore_protocol::Hlc;
use std::io;

/// Writes all records as lines, and returns their number. Reads the records twice: first to count them, then to write them. `read`
/// receives the number of bytes read since the last call, and can stop the export with an error.
///
/// # Errors
/// A record cannot be read, the export cannot be written, or `read` returns an error. The export is incomplete then.
pub fn write(
    records: &mut dyn RecordSource,
    to: &mut dyn io::Write,
    read: &mut dyn FnMut(u64) -> Result<(), StorageError>,
) -> Result<u64, StorageError> {
    let mut count = RecordCounter { records: 0, read };
    let made = format_now();
    let floor = records.records(&mut count)?;
    let header = HeaderLine {
        statestore_export: FORMAT,
        made,
        records: count.records,
        floor: floor.map(|floor| Hlc::store_version(floor).to_string()),
    };
    let mut lines = LineWriter { to, read };
    lines.write(&header)?;
    records.records(&mut lines)?;
    lines.to.flush().map_err(cannot_write())?;
    Ok(header.records)
}

struct RecordCounter<'a> {
    records: u64,
    read: &'a mut dyn FnMut(u64) -> Result<(), StorageError>,
}

impl RecordReceiver for RecordCounter<'_> {
    fn record(&mut self, _record: &RecordView<'_>) -> Result<(), StorageError> {
        self.records += 1;
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        (self.read)(bytes)
    }
}

struct LineWriter<'a> {
    to: &'a mut dyn io::Write,
    read: &'a mut dyn FnMut(u64) -> Result<(), StorageError>,
}

impl LineWriter<'_> {
    fn write(&mut self, line: &impl Serialize) -> Result<(), StorageError> {
        serde_json::to_writer(&mut self.to, line)
            .map_err(io::Error::from)
            .and_then(|()| self.to.write_all(b"\n"))
            .map_err(cannot_write())
    }
}

impl RecordReceiver for LineWriter<'_> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.write(&RecordLine::of(record))
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        (self.read)(bytes)
    }
}

fn cannot_write() -> impl FnOnce(io::Error) -> StorageError {
    StorageError::io_or_full(|| "cannot write the lines".into())
}
