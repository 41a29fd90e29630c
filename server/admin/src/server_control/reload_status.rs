//! Outcome of the last reload.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Whether the last reload succeeded, and the time of the last success. The start counts as one.
#[derive(Debug)]
pub struct ReloadStatus {
    has_succeeded: AtomicBool,
    succeeded_at_s: AtomicU64,
}

impl ReloadStatus {
    /// Creates the status of a server that has read its configuration now.
    pub fn started() -> Self {
        Self {
            has_succeeded: AtomicBool::new(true),
            succeeded_at_s: AtomicU64::new(now_s()),
        }
    }

    /// Records the outcome of a reload.
    pub fn record(&self, has_succeeded: bool) {
        self.has_succeeded.store(has_succeeded, Relaxed);
        if has_succeeded {
            self.succeeded_at_s.store(now_s(), Relaxed);
        }
    }

    /// Returns whether the last reload succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.has_succeeded.load(Relaxed)
    }

    /// Returns the time of the last successful reload, in seconds since 1970.
    pub fn succeeded_at_s(&self) -> u64 {
        self.succeeded_at_s.load(Relaxed)
    }
}

fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
