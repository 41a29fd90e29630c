//! Merging a base and the logs after it into a new base, on a thread.
use super::directory::{Directory, sync_directory};
use super::files::Files;
use super::log::{self, FRAME_HEADER, FileHeader, seal_frame};
use super::manifest::Base;
use super::record::encode_clock;
use crate::storage::StorageError;
use crate::storage::disk::DiskFile;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Payload of a frame in a base.
const FRAME_BYTES: usize = 256 << 10;
/// A base is synced in parts, so that commits to the log never wait for all of it.
const SYNC_BYTES: u64 = 4 << 20;

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

    /// The new base, durable with its name; none if it was cancelled.
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
    let header = FileHeader::base(files.salt, id);
    let mut base = BaseWriter {
        file: log::create(&*files.disk, &path, header)?,
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
    if let Some(directory) = base.path.parent() {
        sync_directory(&*files.disk, directory)?;
    }
    Ok(Some(Base {
        id,
        length: base.length,
        through,
    }))
}

#[derive(Debug)]
struct BaseWriter {
    file: Box<dyn DiskFile>,
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
