//! File descriptors that the storage holds back, so that connections cannot use up the last ones.
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Number of descriptors held back: more than a roll of the log, a merge and a backup open at the same time.
const RESERVED: usize = 16;

/// The reserve of this process, to which the limit of open files applies.
static RESERVE: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Calls `open`. If no descriptor is left, closes reserved ones until the call succeeds. A later call that succeeds immediately fills
/// the reserve again.
pub(super) fn with_reserve<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut result = open();
    let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
    if result.is_ok() {
        while reserve.len() < RESERVED
            && let Ok(file) = File::open("/dev/null")
        {
            reserve.push(file);
        }
        return result;
    }
    while result.as_ref().is_err_and(is_out_of_descriptors)
        && let Some(file) = reserve.pop()
    {
        drop(file);
        result = open();
    }
    result
}

/// Returns whether an error of the system means that this process, or the machine, has too many open files.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}
