//! Fairness after holding a contended lock: other clients go first.
use crate::Client;
use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time for which a client remembers that other clients wanted a lock.
const MOMENT: Duration = Duration::from_secs(1);

/// The contended locks that a client released a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    ended: Mutex<Vec<(Bytes, Instant)>>,
}

impl Turns {
    /// Returns whether this client released the lock a moment ago while other clients wanted it.
    pub(super) fn was_ours(&self, name: &Bytes) -> bool {
        let now = Instant::now();
        let ended = self.ended();
        let mut of_name = ended.iter().filter(|(other, _)| other == name);
        of_name.any(|(_, at)| now < *at + MOMENT)
    }

    fn end(&self, name: Bytes) {
        let now = Instant::now();
        let mut ended = self.ended();
        ended.retain(|(_, at)| now < *at + MOMENT);
        ended.push((name, now));
    }

    fn ended(&self) -> MutexGuard<'_, Vec<(Bytes, Instant)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marker of a held lock that other clients want; dropped with the guard.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) client: Client,
    pub(super) name: Bytes,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        self.client.shared().turns.end(name);
    }
}
