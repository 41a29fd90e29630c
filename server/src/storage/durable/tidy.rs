//! Removing files that do not count any more, on a thread: that of a large file takes long.
use crate::storage::disk::Disk;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Removals under way.
#[derive(Debug, Default)]
pub(super) struct Tidy(Option<JoinHandle<()>>);

impl Tidy {
    /// Begins to remove these files. One that cannot be removed stays: it takes space and does no other harm.
    pub(super) fn remove(&mut self, disk: &Arc<dyn Disk>, files: Vec<PathBuf>) {
        self.finish();
        if files.is_empty() {
            return;
        }
        let disk = Arc::clone(disk);
        let remove = move || {
            for path in files {
                if let Err(error) = disk.remove(&path) {
                    tracing::warn!("{} is not needed but stays: {error}", path.display());
                }
            }
        };
        match std::thread::Builder::new()
            .name("tidy".into())
            .spawn(remove)
        {
            Ok(thread) => self.0 = Some(thread),
            // The next time finds them again.
            Err(error) => tracing::warn!("old data files stay for now: {error}"),
        }
    }

    /// Waits until all are removed.
    pub(super) fn finish(&mut self) {
        if let Some(thread) = self.0.take() {
            // It only fails with a panic, and then nothing depends on it.
            let _ = thread.join();
        }
    }
}
