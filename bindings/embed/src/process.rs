//! Which process this is: a fork makes another one that has the memory of the first, but not its threads.
use statestore::{Error, ErrorKind, Outcome};
#[cfg(unix)]
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often the memory of this process was forked on its way from the first one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This process. From the first call on, forks are noticed.
    pub(crate) fn current() -> Self {
        #[cfg(unix)]
        {
            static NOTICE: Once = Once::new();
            NOTICE.call_once(notice_forks);
        }
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// How many forks lie between the first process and this one.
    pub(crate) fn depth(self) -> u32 {
        self.0
    }

    /// Whether this is still the same process.
    pub(crate) fn is_here(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }

    /// Refuses with [`ErrorKind::Forked`] if it is another one.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            Outcome::NotDone,
            "using a client after a fork",
            "it belongs to the parent process; connect a new one in this process",
        ))
    }
}

#[cfg(unix)]
fn notice_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler lives as long as the program and does nothing but an atomic addition, which is allowed between
    // fork and exec whatever the other threads were doing.
    let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if result != 0 {
        // Out of memory: forks are not noticed, and everything else works.
        tracing::warn!(result, "forks of this process will not be noticed");
    }
}
