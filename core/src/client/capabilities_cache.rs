//! Known capabilities of the store.
use statestore_protocol::Capabilities;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Capabilities of the store, valid for one connection.
#[derive(Debug, Default)]
pub(super) struct CapabilitiesCache {
    /// Number of connections so far. The store behind the next connection may be another one.
    connections: AtomicU64,
    /// Capabilities of the store, with the number of the connection on which they were reported.
    capabilities: Mutex<Option<(u64, Capabilities)>>,
    /// Lock held during a query, so that concurrent callers do not send their own.
    pub(super) query_lock: tokio::sync::Mutex<()>,
}

impl CapabilitiesCache {
    /// Counts a new connection, which invalidates the known capabilities.
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Result<Capabilities, u64> {
        let connection = self.connections.load(Ordering::Relaxed);
        match *self.lock() {
            Some((of, capabilities)) if of == connection => Ok(capabilities),
            _ => Err(connection),
        }
    }

    pub(super) fn insert(&self, connection: u64, capabilities: Capabilities) {
        *self.lock() = Some((connection, capabilities));
    }

    /// Discards the capabilities, because the store was replaced.
    pub(super) fn invalidate(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, Capabilities)>> {
        self.capabilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
