//! Merges of a base and the logs after it into a new base, concurrent with commits.
use super::base_writer::BaseWriter;
use super::directory::{Directory, sync_directory};
use super::files::StoreFiles;
use super::live_index::LiveIndex;
use super::manifest::BaseFile;
use crate::environment::{BackgroundJob, Environment, JobHandle};
use crate::record::LogChange;
use crate::{Damage, StorageError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Result of a merge: the new base, durable with its name.
type MergeResult = Result<BaseFile, StorageError>;

/// A merge in progress.
#[derive(Debug)]
pub(super) struct MergeHandle {
    job: Box<dyn JobHandle>,
    path: PathBuf,
    result: Receiver<MergeResult>,
    /// Number of the last commit that is merged.
    last: u64,
    is_cancelled: Arc<AtomicBool>,
}

impl MergeHandle {
    /// Starts to merge the files into the base `id`.
    pub(super) fn start(
        machine: &dyn Environment,
        directory: &Directory,
        files: StoreFiles,
        id: u64,
    ) -> Result<Self, StorageError> {
        let through = files.logs.last().map_or(0, |(_, log)| log.last);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (tell, merged) = sync_channel(1);
        let merging = MergeJob {
            path: directory.base(id),
            files,
            id,
            last: through,
            is_cancelled: Arc::clone(&is_cancelled),
            stage: MergeStage::Create,
            result: tell,
        };
        let running = machine
            .start("merge", Box::new(merging))
            .map_err(StorageError::io(|| "cannot start the merge thread".into()))?;
        Ok(Self {
            job: running,
            path: directory.base(id),
            result: merged,
            last: through,
            is_cancelled,
        })
    }

    /// Returns the number of the last commit that is merged.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns whether [`finish`](Self::finish) returns without waiting.
    pub(super) fn is_finished(&self) -> bool {
        self.job.is_finished()
    }

    /// Waits for the end of the merge, and returns the new base.
    pub(super) fn finish(self) -> MergeResult {
        self.job.finish();
        self.result.try_recv().unwrap_or_else(|_| {
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
struct MergeJob {
    path: PathBuf,
    files: StoreFiles,
    id: u64,
    last: u64,
    is_cancelled: Arc<AtomicBool>,
    stage: MergeStage,
    result: SyncSender<MergeResult>,
}

/// Next step of a merge.
enum MergeStage {
    /// Create the new file.
    Create,
    /// Write all live records into the file, durably.
    Fill(BaseWriter),
    /// Make the name of the file durable.
    Name(BaseFile),
}

impl BackgroundJob for MergeJob {
    fn step(&mut self) -> bool {
        let Some(merged) = self.advance().transpose() else {
            return true;
        };
        // A cancelled merge has no receiver.
        let _ = self.result.try_send(merged);
        false
    }
}

impl MergeJob {
    /// Executes the next step. Returns the base after the last one.
    fn advance(&mut self) -> Result<Option<BaseFile>, StorageError> {
        let disk = &*self.files.disk;
        match &mut self.stage {
            MergeStage::Create => {
                let path = self.path.clone();
                let writer = BaseWriter::create(disk, path, self.files.salt, self.id)?;
                self.stage = MergeStage::Fill(writer);
            }
            MergeStage::Fill(writer) => {
                let base = write_live_records(&self.files, writer, self.last, &self.is_cancelled)?;
                self.stage = MergeStage::Name(base);
            }
            MergeStage::Name(base) => {
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
fn write_live_records(
    files: &StoreFiles,
    writer: &mut BaseWriter,
    through: u64,
    is_cancelled: &AtomicBool,
) -> Result<BaseFile, StorageError> {
    let go_on = || {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(StorageError::Stopped);
        }
        Ok(())
    };
    let live = LiveIndex::new(files, &mut |_| go_on())?;
    let clock = live.visit_live(&mut |change: LogChange<'_>| {
        if let LogChange::Put(put) = change
            && writer.add_encoded(put.encoded)?
        {
            go_on()?;
        }
        Ok(())
    })?;
    go_on()?;
    writer.finish(clock, through)
}
