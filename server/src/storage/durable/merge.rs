//! Merging a base and the logs after it into a new base, beside the commits.
use super::directory::{Directory, sync_directory};
use super::files::Files;
use super::log::{self, FRAME_HEADER, FileHeader, seal_frame};
use super::manifest::Base;
use super::record::encode_clock;
use crate::storage::StorageError;
use crate::storage::disk::DiskFile;
use crate::storage::machine::{Job, Machine, Running};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Payload of a frame in a base.
const FRAME_BYTES: usize = 256 << 10;
/// A base is synced in parts, so that commits to the log never wait for all of it.
const SYNC_BYTES: u64 = 4 << 20;

/// What became of a merge: none if it was cancelled.
type Merged = Result<Option<Base>, StorageError>;

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    running: Box<dyn Running>,
    merged: Receiver<Merged>,
    /// The last commit of what is merged.
    through: u64,
    is_cancelled: Arc<AtomicBool>,
}

impl Merge {
    /// Begins to merge the files into the base `id`.
    pub(super) fn start(
        machine: &dyn Machine,
        directory: &Directory,
        files: Files,
        id: u64,
    ) -> Result<Self, StorageError> {
        let through = files.logs.last().map_or(0, |(_, log)| log.last);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (tell, merged) = sync_channel(1);
        let merging = Merging {
            path: directory.base(id),
            files,
            id,
            through,
            is_cancelled: Arc::clone(&is_cancelled),
            stage: Stage::Create,
            tell,
        };
        let running = machine
            .start("merge", Box::new(merging))
            .map_err(StorageError::io(|| "cannot start the merge thread".into()))?;
        Ok(Self {
            running,
            merged,
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
        self.running.is_finished()
    }

    /// The new base, durable with its name; none if it was cancelled.
    pub(super) fn finish(self) -> Merged {
        self.running.finish();
        self.merged.try_recv().unwrap_or_else(|_| {
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

/// The work of a merge.
struct Merging {
    path: PathBuf,
    files: Files,
    id: u64,
    through: u64,
    is_cancelled: Arc<AtomicBool>,
    stage: Stage,
    tell: SyncSender<Merged>,
}

/// What comes next.
enum Stage {
    /// The new file.
    Create,
    /// All that is live into it, durable.
    Fill(BaseWriter),
    /// Its name, durable.
    Name(Base),
}

impl Job for Merging {
    fn step(&mut self) -> bool {
        let merged = match self.advance() {
            Ok(None) => return true,
            Ok(Some(base)) => Ok(Some(base)),
            Err(_) if self.is_cancelled() => Ok(None),
            Err(error) => Err(error),
        };
        // Nobody listens to a merge that is given up.
        let _ = self.tell.try_send(merged);
        false
    }
}

impl Merging {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Does what comes next; the base, if that was all.
    fn advance(&mut self) -> Result<Option<Base>, StorageError> {
        let disk = &*self.files.disk;
        match &mut self.stage {
            Stage::Create => {
                let header = FileHeader::base(self.files.salt, self.id);
                self.stage = Stage::Fill(BaseWriter {
                    file: log::create(disk, &self.path, header)?,
                    path: self.path.clone(),
                    salt: self.files.salt,
                    frame: vec![0; FRAME_HEADER],
                    sequence: 1,
                    length: log::FILE_HEADER as u64,
                    unsynced: 0,
                });
            }
            Stage::Fill(writer) => {
                fill(&self.files, writer, &self.is_cancelled)?;
                self.stage = Stage::Name(Base {
                    id: self.id,
                    length: writer.length,
                    through: self.through,
                });
            }
            Stage::Name(base) => {
                if let Some(directory) = self.path.parent() {
                    sync_directory(disk, directory)?;
                }
                return Ok(Some(*base));
            }
        }
        Ok(None)
    }
}

/// Writes what is live into a base.
fn fill(
    files: &Files,
    base: &mut BaseWriter,
    is_cancelled: &AtomicBool,
) -> Result<(), StorageError> {
    let go_on = || {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(StorageError::Io {
                what: "the merge was cancelled".into(),
                source: std::io::ErrorKind::Interrupted.into(),
            });
        }
        Ok(())
    };
    let clock = files.live(&mut |put| {
        base.frame.extend_from_slice(put.encoded);
        if base.frame.len() < FRAME_BYTES {
            return Ok(());
        }
        go_on()?;
        base.write_frame()
    })?;
    go_on()?;
    if let Some(clock) = clock {
        encode_clock(clock, &mut base.frame);
    }
    base.write_frame()?;
    base.sync()
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
