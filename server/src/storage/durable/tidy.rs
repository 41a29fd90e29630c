//! Removing files that do not count any more, beside the commits: that of a large file takes long.
use crate::storage::disk::Disk;
use crate::storage::machine::{Job, Machine, Running};
use std::path::PathBuf;
use std::sync::Arc;

/// Removals under way.
#[derive(Debug, Default)]
pub(super) struct Tidy(Option<Box<dyn Running>>);

impl Tidy {
    /// Begins to remove these files. One that cannot be removed stays: it takes space and does no other harm.
    pub(super) fn remove(
        &mut self,
        machine: &dyn Machine,
        disk: &Arc<dyn Disk>,
        files: Vec<PathBuf>,
    ) {
        self.finish();
        if files.is_empty() {
            return;
        }
        let removal = Removal {
            disk: Arc::clone(disk),
            files,
        };
        match machine.start("tidy", Box::new(removal)) {
            Ok(running) => self.0 = Some(running),
            // The next time finds them again.
            Err(error) => tracing::warn!("old data files stay for now: {error}"),
        }
    }

    /// Waits until all are removed.
    pub(super) fn finish(&mut self) {
        if let Some(running) = self.0.take() {
            // It only fails with a panic, and then nothing depends on it.
            running.finish();
        }
    }
}

/// The files that are left to remove.
struct Removal {
    disk: Arc<dyn Disk>,
    files: Vec<PathBuf>,
}

impl Job for Removal {
    fn step(&mut self) -> bool {
        if let Some(path) = self.files.pop()
            && let Err(error) = self.disk.remove(&path)
        {
            tracing::warn!("{} is not needed but stays: {error}", path.display());
        }
        !self.files.is_empty()
    }
}
