//! SIGHUP before anything serves: a reload that comes later, not the end of the process.
use signal_hook::consts::SIGHUP;
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Remembers SIGHUP from its creation on.
#[derive(Debug)]
pub(crate) struct Hangup {
    came: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
}

impl Hangup {
    /// From now on SIGHUP does not end the process.
    pub(crate) fn catch() -> io::Result<Self> {
        let this = Self {
            came: Arc::default(),
            ends: Arc::default(),
        };
        flag::register_conditional_default(SIGHUP, Arc::clone(&this.ends))?;
        flag::register(SIGHUP, Arc::clone(&this.came))?;
        Ok(this)
    }

    /// Restores the default action of SIGHUP, which ends the process: a tool should end with its terminal.
    pub(crate) fn release(&self) {
        self.ends.store(true, Ordering::SeqCst);
    }

    /// Returns whether it came, and forgets it.
    pub(crate) fn take(&self) -> bool {
        self.came.swap(false, Ordering::SeqCst)
    }
}
