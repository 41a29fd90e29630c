//! SIGHUP before the server runs, which causes a reload later instead of ending the process.
use signal_hook::consts::SIGHUP;
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A record of SIGHUP signals since its creation.
#[derive(Debug)]
pub(crate) struct SighupFlag {
    is_received: Arc<AtomicBool>,
    is_released: Arc<AtomicBool>,
}

impl SighupFlag {
    /// Prevents SIGHUP from ending the process.
    pub(crate) fn catch() -> io::Result<Self> {
        let this = Self {
            is_received: Arc::default(),
            is_released: Arc::default(),
        };
        flag::register_conditional_default(SIGHUP, Arc::clone(&this.is_released))?;
        flag::register(SIGHUP, Arc::clone(&this.is_received))?;
        Ok(this)
    }

    /// Restores the default action of SIGHUP, which ends the process: a tool should end with its terminal.
    pub(crate) fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
    }

    /// Returns whether the signal was received, and resets that.
    pub(crate) fn take(&self) -> bool {
        self.is_received.swap(false, Ordering::SeqCst)
    }
}
