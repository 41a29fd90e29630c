//! The file that a thread reads, for threads that wait for it. A file can be a pipe without a writer, or be on a network that does not
//! respond.
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static OBSERVED: RefCell<Option<ReadTracker>> = const { RefCell::new(None) };
}

/// The path that another thread is reading.
#[derive(Debug, Clone, Default)]
pub struct ReadTracker(Arc<Mutex<Option<PathBuf>>>);

impl ReadTracker {
    /// Runs `read`, and stores the paths that it reads.
    pub fn track<T>(&self, read: impl FnOnce() -> T) -> T {
        let before = OBSERVED.replace(Some(self.clone()));
        let result = read();
        OBSERVED.set(before);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for ReadTracker {
    /// Writes the path that was last begun.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            Some(path) => path.display().fmt(f),
            None => f.write_str("a file"),
        }
    }
}

/// Stores that this thread reads `path` now.
pub fn record_path(path: &Path) {
    OBSERVED.with_borrow(|observed| {
        if let Some(reading) = observed {
            *reading.lock() = Some(path.into());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_opened_file_is_reported() {
        let (outer, inner) = (ReadTracker::default(), ReadTracker::default());
        record_path(Path::new("/untracked"));
        assert_eq!(outer.to_string(), "a file");
        outer.track(|| {
            record_path(Path::new("/first"));
            inner.track(|| record_path(Path::new("/other")));
            assert_eq!(outer.to_string(), "/first");
            record_path(Path::new("/second"));
        });
        assert_eq!(outer.to_string(), "/second");
        assert_eq!(inner.to_string(), "/other");
    }
}
