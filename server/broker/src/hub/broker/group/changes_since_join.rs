//! Watches and clients that log entries have changed since the keeper was asked. For these, this server knows more than the keeper's
//! answer.
use bytes::Bytes;
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use std::collections::HashSet;
use std::sync::Arc;

/// Memory of one watch or client besides its key.
const CHANGE_BYTES: usize = 128;

#[derive(Debug, Default)]
pub(super) struct ChangesSinceJoin {
    watches: HashSet<(Arc<str>, Bytes)>,
    clients: HashSet<Arc<str>>,
    reservation: Option<Reservation>,
}

impl ChangesSinceJoin {
    /// Notes that an entry was about this watch.
    pub(super) fn insert_watch(&mut self, client: &Arc<str>, key: &Bytes, gauge: &MemoryBudget) {
        let watch = (Arc::clone(client), key.clone());
        if !self.watches.contains(&watch) {
            // A slice of the message would keep the whole message.
            let key = Bytes::copy_from_slice(key);
            self.grow(key.len(), gauge);
            self.watches.insert((watch.0, key));
        }
    }

    /// Notes that all watches of a client have ended.
    pub(super) fn insert_client(&mut self, client: Arc<str>, gauge: &MemoryBudget) {
        let bytes = client.len();
        if self.clients.insert(client) {
            self.grow(bytes, gauge);
        }
    }

    fn grow(&mut self, bytes: usize, gauge: &MemoryBudget) {
        let charge = self
            .reservation
            .get_or_insert_with(|| Reservation::new(gauge, 0));
        charge.resize(charge.bytes() + bytes + CHANGE_BYTES);
    }

    /// Returns whether the keeper's answer about a watch is out of date.
    pub(super) fn contains(&self, client: &Arc<str>, key: &Bytes) -> bool {
        self.clients.contains(client) || self.watches.contains(&(Arc::clone(client), key.clone()))
    }

    /// Returns the bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
