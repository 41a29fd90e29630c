//! Fairness after holding a contended lock: other clients go first.
use crate::Client;
use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time for which a client remembers that other clients wanted a lock.
const RETENTION: Duration = Duration::from_secs(1);

/// The contended locks that a client released a moment ago.
#[derive(Debug, Default)]
pub(crate) struct ContendedLocks {
    released: Mutex<Vec<(Bytes, Instant)>>,
}

impl ContendedLocks {
    /// Returns whether this client released the lock a moment ago while other clients wanted it.
    pub(crate) fn was_just_released(&self, name: &Bytes) -> bool {
        let now = Instant::now();
        let ended = self.released();
        let mut of_name = ended.iter().filter(|(other, _)| other == name);
        of_name.any(|(_, at)| now < *at + RETENTION)
    }

    fn record_release(&self, name: Bytes) {
        let now = Instant::now();
        let mut ended = self.released();
        ended.retain(|(_, at)| now < *at + RETENTION);
        ended.push((name, now));
    }

    fn released(&self) -> MutexGuard<'_, Vec<(Bytes, Instant)>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marker of a held lock that other clients want; dropped with the guard.
#[derive(Debug)]
pub(crate) struct ContendedLock {
    pub(crate) client: Client,
    pub(crate) lock_name: Bytes,
}

impl Drop for ContendedLock {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.lock_name);
        self.client.shared().contended_locks.record_release(name);
    }
}
