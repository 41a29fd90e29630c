//! Which process this is: a fork makes another one that has the memory of the first, but not its threads.
use crate::cause;
use crate::error::{Error, ErrorKind};
use statestore::Outcome;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(unix)]
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// How often the memory of this process was forked on its way from the first one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// Returns the identity of this process. Forks are noticed from the first call on.
    pub(crate) fn current() -> Self {
        #[cfg(unix)]
        {
            static NOTICE: Once = Once::new();
            NOTICE.call_once(register_fork_handler);
        }
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns the number of forks between the first process and this one.
    pub(crate) fn depth(self) -> u32 {
        self.0
    }

    /// Returns whether this is still the same process.
    pub(crate) fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }

    /// Refuses with [`ErrorKind::Forked`] if it is another one.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_current() {
            return Ok(());
        }
        Err(forked())
    }
}

/// Returns the error for use in a forked child.
pub(crate) fn forked() -> Error {
    Error::new(
        ErrorKind::Forked,
        Outcome::NotDone,
        "using a client after a fork",
        "it belongs to the parent process; connect a new one in this process",
    )
}

/// Ends a forked child in which a callback of the parent returned. Its caller is a copy of a thread of the parent, with locks
/// in an arbitrary state.
pub(crate) fn exit_child() -> ! {
    #[cfg(unix)]
    // SAFETY: it takes any number, and runs nothing of this process any more.
    unsafe {
        libc::_exit(1)
    }
    #[cfg(not(unix))]
    std::process::abort()
}

/// Returns the number of forks between the first process that used this crate and this one. A value from another number of
/// forks was inherited.
pub fn forks() -> u32 {
    Process::current().depth()
}

/// A value with one instance per process: a forked child gets a new one, because threads of the parent may have held the locks
/// of the inherited one.
#[derive(Debug)]
pub struct PerProcess<T> {
    value: T,
    init: fn() -> T,
    child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// Creates the value for the first process; `make` creates the values of its children.
    pub const fn new(value: T, make: fn() -> T) -> Self {
        Self {
            value,
            init: make,
            child: OnceLock::new(),
        }
    }

    /// Returns the instance of this process.
    pub fn get(&self) -> &T {
        self.get_for(Process::current())
    }

    pub(crate) fn get_for(&self, process: Process) -> &T {
        let mut value = self;
        for _ in 0..process.depth() {
            value = value
                .child
                .get_or_init(|| Box::new(Self::new((value.init)(), value.init)));
        }
        &value.value
    }
}

/// A value that a forked child neither uses nor drops: dropping it could wait for a lock that a thread of the parent held.
#[derive(Debug)]
pub(crate) struct ProcessBound<T> {
    /// Present until it is dropped.
    value: Option<T>,
    process: Process,
}

impl<T> ProcessBound<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            process: Process::current(),
        }
    }

    /// Returns the value, unless this process is a forked child.
    pub(crate) fn get(&self) -> Result<&T, Error> {
        self.process.check()?;
        self.value.as_ref().ok_or_else(cause::closed)
    }
}

impl<T> ProcessBound<Arc<T>> {
    /// Returns another reference to the same value.
    pub(crate) fn share(&self) -> Self {
        Self {
            value: self.value.clone(),
            process: self.process,
        }
    }
}

impl<T> Drop for ProcessBound<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if !self.process.is_current() {
            std::mem::forget(value);
            return;
        }
        // It may wake the runtime, which panics if the program closed its descriptors.
        if catch_unwind(AssertUnwindSafe(|| drop(value))).is_err() {
            tracing::error!("dropping an object of a client panicked");
        }
    }
}

#[cfg(unix)]
fn register_fork_handler() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler lives as long as the program and does nothing but an atomic addition. That is allowed between fork
    // and exec whatever the other threads were doing.
    let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if result != 0 {
        // Out of memory: forks are not noticed, and everything else works.
        tracing::warn!(result, "forks of this process will not be noticed");
    }
}
