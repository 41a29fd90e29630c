//! Watches and clients that log entries have changed since the leader was asked. For these, this server knows more than the leader's
//! answer.
use bytes::Bytes;
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use std::collections::HashSet;
use std::sync::Arc;

/// Memory of one change besides its key.
const CHANGE_BYTES: usize = 128;

#[derive(Debug, Default)]
pub(super) struct ChangesSinceJoin {
    /// Client and key of each watch, or a client alone, whose watches have all ended.
    changed: HashSet<(Arc<str>, Option<Bytes>)>,
    reservation: Option<Reservation>,
}

impl ChangesSinceJoin {
    /// Notes that an entry was about this watch, or about all watches of the client.
    pub(super) fn insert(&mut self, client: &Arc<str>, key: Option<&Bytes>, budget: &MemoryBudget) {
        let bytes = key.map_or(client.len(), Bytes::len);
        // A slice of the message would keep the whole message.
        let key = key.map(|key| Bytes::copy_from_slice(key));
        if self.changed.insert((Arc::clone(client), key)) {
            let reservation = &mut self.reservation;
            let reservation = reservation.get_or_insert_with(|| Reservation::new(budget, 0));
            reservation.resize(reservation.bytes() + bytes + CHANGE_BYTES);
        }
    }

    /// Returns whether the leader's answer about a watch is out of date.
    pub(super) fn contains(&self, client: &Arc<str>, key: &Bytes) -> bool {
        [None, Some(key.clone())]
            .into_iter()
            .any(|key| self.changed.contains(&(Arc::clone(client), key)))
    }

    /// Returns the bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
