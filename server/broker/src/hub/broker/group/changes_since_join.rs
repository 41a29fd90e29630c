//! Watches and clients that log entries have changed since the leader was asked. For these, this server knows more than the leader's
//! answer.
use crate::hub::broker::watch_target::WatchTarget;
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use std::collections::HashSet;
use std::sync::Arc;

/// Memory of one change besides its key or pattern.
const CHANGE_BYTES: usize = 128;

#[derive(Debug, Default)]
pub(super) struct ChangesSinceJoin {
    /// Client and target of each watch, or a client alone, whose watches have all ended.
    changed: HashSet<(Arc<str>, Option<WatchTarget>)>,
    reservation: Option<Reservation>,
}

impl ChangesSinceJoin {
    /// Notes that an entry was about this watch, or about all watches of the client.
    pub(super) fn insert(
        &mut self,
        client: &Arc<str>,
        target: Option<&WatchTarget>,
        budget: &MemoryBudget,
    ) {
        let bytes = target.map_or(client.len(), |target| target.bytes().len());
        let target = target.map(WatchTarget::detached);
        if self.changed.insert((Arc::clone(client), target)) {
            let reservation = &mut self.reservation;
            let reservation = reservation.get_or_insert_with(|| Reservation::new(budget, 0));
            reservation.resize(reservation.bytes() + bytes + CHANGE_BYTES);
        }
    }

    /// Returns whether the leader's answer about a watch is out of date.
    pub(super) fn contains(&self, client: &Arc<str>, target: &WatchTarget) -> bool {
        [None, Some(target.clone())]
            .into_iter()
            .any(|target| self.changed.contains(&(Arc::clone(client), target)))
    }

    /// Returns the bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
