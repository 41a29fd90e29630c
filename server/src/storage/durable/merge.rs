//! Merges of a base and the logs after it into a new base, concurrent with commits.
use super::base::BaseWriter;
use super::directory::{Directory, sync_directory};
use super::files::Files;
use super::live::Live;
use super::manifest::Base;
use crate::storage::machine::{Job, Machine, Running};
use crate::storage::record::Change;
use crate::storage::{Damage, StorageError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Result of a merge: the new base, durable with its name.
type Merged = Result<Base, StorageError>;

/// A merge in progress.
#[derive(Debug)]
pub(super) struct Merge {
    running: Box<dyn Running>,
    path: PathBuf,
    merged: Receiver<Merged>,
    /// Number of the last commit that is merged.
    through: u64,
    is_cancelled: Arc<AtomicBool>,
}

impl Merge {
    /// Starts to merge the files into the base `id`.
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
            path: directory.base(id),
            merged,
            through,
            is_cancelled,
        })
    }

    /// Returns the number of the last commit that is merged.
    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// Returns whether [`finish`](Self::finish) returns without waiting.
    pub(super) fn is_finished(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for the end of the merge, and returns the new base.
    pub(super) fn finish(self) -> Merged {
        self.running.finish();
        self.merged.try_recv().unwrap_or_else(|_| {
            let what = "was not finished: the merge of the data files stopped unexpectedly";
            Err(Damage::new(&self.path, what.into(), "start the server again").into())
        })
    }

    /// Cancels the merge. Its file is a leftover, which is removed later.
    pub(super) fn cancel(self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        // The result of a cancelled merge is not needed.
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

/// Next step of a merge.
enum Stage {
    /// Create the new file.
    Create,
    /// Write all live records into the file, durably.
    Fill(BaseWriter),
    /// Make the name of the file durable.
    Name(Base),
}

impl Job for Merging {
    fn step(&mut self) -> bool {
        let Some(merged) = self.advance().transpose() else {
            return true;
        };
        // A cancelled merge has no receiver.
        let _ = self.tell.try_send(merged);
        false
    }
}

impl Merging {
    /// Executes the next step. Returns the base after the last one.
    fn advance(&mut self) -> Result<Option<Base>, StorageError> {
        let disk = &*self.files.disk;
        match &mut self.stage {
            Stage::Create => {
                let path = self.path.clone();
                let writer = BaseWriter::create(disk, path, self.files.salt, self.id)?;
                self.stage = Stage::Fill(writer);
            }
            Stage::Fill(writer) => {
                let base = fill(&self.files, writer, self.through, &self.is_cancelled)?;
                self.stage = Stage::Name(base);
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

/// Writes the live records into a base, durable except for its name.
fn fill(
    files: &Files,
    writer: &mut BaseWriter,
    through: u64,
    is_cancelled: &AtomicBool,
) -> Result<Base, StorageError> {
    let go_on = || {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(StorageError::Stopped);
        }
        Ok(())
    };
    let live = Live::new(files, &mut |_| go_on())?;
    let clock = live.each(&mut |change: Change<'_>| {
        if let Change::Put(put) = change
            && writer.add_encoded(put.encoded)?
        {
            go_on()?;
        }
        Ok(())
    })?;
    go_on()?;
    writer.finish(clock, through)
}
