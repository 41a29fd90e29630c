//! What is live in a base and the logs after it; merging them into a new base on a thread.
use super::directory::{Directory, check_length};
use super::log::{self, FRAME_HEADER, FileHeader, Kind, Reader, Step, damaged, seal_frame};
use super::manifest::{Base, Sealed};
use super::record::{Change, Changes, Put, Version, encode_clock};
use crate::storage::StorageError;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Payload of a frame in a base.
const FRAME_BYTES: usize = 256 << 10;
/// A base is synced in parts, so that commits to the log never wait for all of it.
const SYNC_BYTES: u64 = 4 << 20;

/// Files that do not change any more, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) salt: u64,
    pub(super) base: Option<(PathBuf, Base)>,
    pub(super) logs: Vec<(PathBuf, Sealed)>,
}

impl Files {
    /// Calls `emit` once for each live record, and returns the highest clock.
    ///
    /// Reads the logs twice: first to learn which change of a key is its last one, then for the
    /// values. So memory is needed per key changed since the base, whatever the size of the values.
    pub(super) fn live(
        &self,
        emit: &mut dyn FnMut(&Put<'_>) -> Result<(), StorageError>,
    ) -> Result<Option<Version>, StorageError> {
        let mut clock = None;
        let mut last_change: HashMap<Box<[u8]>, u64> = HashMap::new();
        self.log_changes(&mut |number, change| {
            let key = match &change {
                Change::Clock(version) => {
                    clock = clock.max(Some(*version));
                    return Ok(());
                }
                Change::Put(put) => put.key,
                Change::Delete(key) => *key,
            };
            match last_change.get_mut(key) {
                Some(last) => *last = number,
                None => {
                    last_change.insert(key.into(), number);
                }
            }
            Ok(())
        })?;
        self.base_changes(&mut |change| match change {
            Change::Clock(version) => {
                clock = clock.max(Some(version));
                Ok(())
            }
            Change::Put(put) if last_change.contains_key(put.key) => Ok(()),
            Change::Put(put) => emit(&put),
            Change::Delete(_) => Ok(()),
        })?;
        self.log_changes(&mut |number, change| match change {
            Change::Put(put) if last_change.get(put.key) == Some(&number) => emit(&put),
            _ => Ok(()),
        })?;
        Ok(clock)
    }

    fn log_changes(
        &self,
        visit: &mut dyn FnMut(u64, Change<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut number = 0;
        for (path, sealed) in &self.logs {
            let header = FileHeader {
                kind: Kind::Log,
                salt: self.salt,
                id: sealed.id,
                first: sealed.first,
            };
            let mut reader = Reader::open(path, header, Some(sealed.length))?;
            each_change(&mut reader, &mut |change| {
                number += 1;
                visit(number, change)
            })?;
            if reader.next != sealed.last + 1 {
                return Err(damaged(path, "commits are missing at its end"));
            }
        }
        Ok(())
    }

    fn base_changes(
        &self,
        visit: &mut dyn FnMut(Change<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let Some((path, base)) = &self.base else {
            return Ok(());
        };
        check_length(path, base.length)?;
        let header = FileHeader {
            kind: Kind::Base,
            salt: self.salt,
            id: base.id,
            first: 1,
        };
        each_change(&mut Reader::open(path, header, None)?, visit)
    }
}

fn each_change(
    reader: &mut Reader,
    visit: &mut dyn FnMut(Change<'_>) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    loop {
        let mut changes = match reader.step()? {
            Step::Frame(payload) => Changes::new(payload),
            Step::End => return Ok(()),
            Step::Broken => return Err(reader.broken()),
        };
        loop {
            match changes.next() {
                Ok(Some(change)) => visit(change)?,
                Ok(None) => break,
                Err(_) => return Err(reader.broken()),
            }
        }
    }
}

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    thread: JoinHandle<Result<Option<Base>, StorageError>>,
    /// The last commit of what is merged.
    through: u64,
    is_cancelled: Arc<AtomicBool>,
}

impl Merge {
    /// Begins to merge the files into the base `id`.
    pub(super) fn start(
        directory: &Directory,
        files: Files,
        id: u64,
    ) -> Result<Self, StorageError> {
        let path = directory.base(id);
        let through = files.logs.last().map_or(0, |(_, log)| log.last);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        let thread = std::thread::Builder::new()
            .name("merge".into())
            .spawn(move || write_base(&files, path, id, &cancelled))
            .map_err(StorageError::io(|| "cannot start the merge thread".into()))?;
        Ok(Self {
            thread,
            through,
            is_cancelled,
        })
    }

    /// The last commit of what is merged.
    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// Whether [`finish`](Self::finish) would not wait.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The new base, durable except for its name; none if it was cancelled.
    pub(super) fn finish(self) -> Result<Option<Base>, StorageError> {
        self.thread.join().unwrap_or_else(|_| {
            Err(StorageError::Damaged(
                "the merge of the data files stopped unexpectedly".into(),
            ))
        })
    }

    /// Ends it early; what it wrote is a leftover.
    pub(super) fn cancel(self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        // A merge that is given up has nothing to report.
        let _ = self.finish();
    }
}

fn write_base(
    files: &Files,
    path: PathBuf,
    id: u64,
    is_cancelled: &AtomicBool,
) -> Result<Option<Base>, StorageError> {
    let Some(through) = files.logs.last().map(|(_, log)| log.last) else {
        return Ok(None);
    };
    let header = FileHeader {
        kind: Kind::Base,
        salt: files.salt,
        id,
        first: 1,
    };
    let mut base = BaseWriter {
        file: log::create(&path, header)?,
        path,
        salt: files.salt,
        frame: vec![0; FRAME_HEADER],
        sequence: 1,
        length: log::FILE_HEADER as u64,
        unsynced: 0,
    };
    let clock = files.live(&mut |put| {
        base.frame.extend_from_slice(put.encoded);
        if base.frame.len() < FRAME_BYTES {
            return Ok(());
        }
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(StorageError::Io {
                what: "the merge was cancelled".into(),
                source: std::io::ErrorKind::Interrupted.into(),
            });
        }
        base.write_frame()
    });
    if is_cancelled.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if let Some(clock) = clock? {
        encode_clock(clock, &mut base.frame);
    }
    base.write_frame()?;
    base.sync()?;
    Ok(Some(Base {
        id,
        length: base.length,
        through,
    }))
}

#[derive(Debug)]
struct BaseWriter {
    file: File,
    path: PathBuf,
    salt: u64,
    frame: Vec<u8>,
    sequence: u64,
    length: u64,
    unsynced: u64,
}

impl BaseWriter {
    fn write_frame(&mut self) -> Result<(), StorageError> {
        seal_frame(&mut self.frame, self.salt, self.sequence);
        self.file
            .write_all(&self.frame)
            .map_err(StorageError::io(|| {
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
