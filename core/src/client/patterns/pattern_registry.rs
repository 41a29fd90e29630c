//! The observers of patterns of a client.
use super::match_state::MatchState;
use crate::LostReason;
use crate::client::observation_queue::EndReason;
use crate::error::Error;
use bytes::Bytes;
use statestore_protocol::{Hlc, Notification};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The observers of patterns, by which notifications reach them.
#[derive(Debug, Default)]
pub(in super::super) struct PatternRegistry {
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    observers: Vec<Arc<MatchState>>,
    is_connected: bool,
    /// Number of the last connection, from 1.
    connection: u64,
    closed: Option<EndReason>,
}

impl PatternRegistry {
    /// Adds an observer.
    pub(in super::super) fn add(&self, pattern: Bytes, max_keys: usize) -> Arc<MatchState> {
        let mut registry = self.lock();
        let mut others = registry.observers.iter();
        let other = others.find(|other| *other.pattern() == pattern);
        let order = other.map(|other| other.order.clone()).unwrap_or_default();
        let connection = registry.is_connected.then_some(registry.connection);
        let state = MatchState::new(pattern, max_keys, connection, order);
        let state = Arc::new(state);
        if let Some(reason) = &registry.closed {
            state.close(reason.clone());
        }
        registry.observers.push(state.clone());
        state
    }

    /// Removes an observer.
    pub(in super::super) fn remove(&self, state: &Arc<MatchState>) {
        self.lock()
            .observers
            .retain(|other| !Arc::ptr_eq(other, state));
    }

    /// Returns whether another observer needs the watch of the same pattern.
    pub(in super::super) fn is_shared(&self, state: &Arc<MatchState>) -> bool {
        self.lock().observers.iter().any(|other| {
            !Arc::ptr_eq(other, state)
                && other.pattern() == state.pattern()
                && !other.is_abandoned()
                && !other.is_ended()
        })
    }

    /// Handles a notification. Returns whether an observer gets it. `merge` merges its version into the clock, unless it is too
    /// far ahead.
    pub(in super::super) fn handle_notification(
        &self,
        notification: &Notification,
        merge: impl Fn(&Hlc) -> bool,
    ) -> bool {
        let mut is_observed = false;
        for observer in self.observers() {
            is_observed |= observer.handle_notification(notification, &merge);
        }
        is_observed
    }

    /// Handles the store's report that changes of keys that match a pattern may have been missed.
    pub(in super::super) fn handle_gap(&self, pattern: &[u8]) {
        for observer in self.observers() {
            observer.handle_gap(pattern);
        }
    }

    /// Ignores notifications until the watches have started again.
    pub(in super::super) fn disconnected(&self) {
        self.lock().is_connected = false;
        for observer in self.observers() {
            observer.disconnected();
        }
    }

    /// Handles a new connection: the store has no watches of it, and changes may have been missed.
    pub(in super::super) fn connected(&self) {
        let (connection, observers) = {
            let mut registry = self.lock();
            registry.is_connected = true;
            registry.connection += 1;
            (registry.connection, registry.observers.clone())
        };
        for observer in observers {
            observer.connected_anew(connection);
        }
    }

    /// Ends all observers, because the client is closed.
    pub(in super::super) fn close(&self, lost_reason: LostReason, error: &Error) {
        let reason = EndReason {
            lost_reason,
            error: (lost_reason != LostReason::Closed).then(|| error.clone()),
        };
        let observers = {
            let mut registry = self.lock();
            registry.closed = Some(reason.clone());
            std::mem::take(&mut registry.observers)
        };
        for observer in observers {
            observer.close(reason.clone());
        }
    }

    /// Returns the present observers. Most clients have none, which allocates nothing.
    fn observers(&self) -> Vec<Arc<MatchState>> {
        self.lock().observers.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
