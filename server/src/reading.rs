//! Which file a thread reads just now, for whoever waits for it: a file can be a pipe that nobody fills, or lie on a network that is
//! away.
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static OBSERVED: RefCell<Option<Reading>> = const { RefCell::new(None) };
}

/// What somebody else's thread reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading(Arc<Mutex<Option<PathBuf>>>);

impl Reading {
    /// Does what reads files, so that others can see which.
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
    /// The file that was begun last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            Some(path) => path.display().fmt(f),
            None => f.write_str("a file"),
        }
    }
}

/// This thread reads that file now.
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

    /// Makes a file that does not come to its end before somebody else fills it.
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
