//! Removal of files that no longer count, concurrent with commits, since the removal of a large file takes long.
use crate::disk::Disk;
use crate::environment::{BackgroundJob, Environment, JobHandle};
use std::path::PathBuf;
use std::sync::Arc;

/// Removals in progress.
#[derive(Debug, Default)]
pub(super) struct FileRemover(Option<Box<dyn JobHandle>>);

impl FileRemover {
    /// Starts to remove these files. A file that cannot be removed only takes space.
    pub(super) fn remove(
        &mut self,
        machine: &dyn Environment,
        disk: &Arc<dyn Disk>,
        files: Vec<PathBuf>,
    ) {
        self.finish();
        if files.is_empty() {
            return;
        }
        let removal = RemovalJob {
            disk: Arc::clone(disk),
            files,
        };
        match machine.start("tidy", Box::new(removal)) {
            Ok(running) => self.0 = Some(running),
            // The next attempt finds them again.
            Err(error) => tracing::warn!("old data files stay for now: {error}"),
        }
    }

    /// Waits until all files are removed.
    pub(super) fn finish(&mut self) {
        if let Some(running) = self.0.take() {
            // A failure can only be a panic, and no data depends on the removal.
            running.finish();
        }
    }
}

/// Files that remain to be removed.
struct RemovalJob {
    disk: Arc<dyn Disk>,
    files: Vec<PathBuf>,
}

impl BackgroundJob for RemovalJob {
    fn step(&mut self) -> bool {
        if let Some(path) = self.files.pop()
            && let Err(error) = self.disk.remove(&path)
        {
            tracing::warn!("{} is not needed but stays: {error}", path.display());
        }
        !self.files.is_empty()
    }
}
