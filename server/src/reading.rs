//! The file that a thread is reading, for the tasks that wait for it. A file can be a pipe without a writer, or be on a network that
//! does not respond.
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static OBSERVED: RefCell<Option<Reading>> = const { RefCell::new(None) };
}

/// The path that another thread is reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading(Arc<Mutex<Option<PathBuf>>>);

impl Reading {
    /// Runs `read`, and stores the paths that it reads.
    pub(crate) fn during<T>(&self, read: impl FnOnce() -> T) -> T {
        let before = OBSERVED.replace(Some(self.clone()));
        let result = read();
        OBSERVED.set(before);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Reading {
    /// Writes the path that was last begun.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            Some(path) => path.display().fmt(f),
            None => f.write_str("a file"),
        }
    }
}

/// Stores that this thread reads `path` now.
pub(crate) fn begins(path: &Path) {
    OBSERVED.with_borrow(|observed| {
        if let Some(reading) = observed {
            *reading.lock() = Some(path.into());
        }
    });
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    /// Creates a file that does not end before another process writes to it.
    pub(crate) fn pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    #[test]
    fn the_file_is_named_that_was_begun_last() {
        let (outer, inner) = (Reading::default(), Reading::default());
        begins(Path::new("/for/nobody"));
        assert_eq!(outer.to_string(), "a file");
        outer.during(|| {
            begins(Path::new("/first"));
            inner.during(|| begins(Path::new("/other")));
            assert_eq!(outer.to_string(), "/first");
            begins(Path::new("/second"));
        });
        assert_eq!(outer.to_string(), "/second");
        assert_eq!(inner.to_string(), "/other");
    }
}
