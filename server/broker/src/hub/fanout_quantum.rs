//! The work on fan-outs that one turn may do.
use super::subscriptions::VISIT_STEPS;

/// Maximum number of deliveries of a turn.
const QUANTUM_DELIVERIES: usize = 64;

/// Maximum number of bytes of payload, and of topics of notifications, that a turn copies; the last delivery may exceed it.
const QUANTUM_PAYLOAD_BYTES: usize = 256 * 1024;

/// Visits of filters of a turn for a message that needs more. The turn does nothing else.
const QUANTUM_VISITS: usize = 2_000;

/// The work that a turn may still do.
#[derive(Debug)]
pub(super) struct FanoutQuantum {
    pub(super) deliveries: usize,
    pub(super) payload: usize,
    /// Visits of filters in search of subscribers.
    pub(super) visits: usize,
    /// Whether the turn continues work that has waited.
    pub(super) is_continuation: bool,
}

impl FanoutQuantum {
    pub(super) fn new(is_later: bool) -> Self {
        Self {
            deliveries: QUANTUM_DELIVERIES,
            payload: QUANTUM_PAYLOAD_BYTES,
            visits: QUANTUM_VISITS,
            is_continuation: is_later,
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.deliveries == 0 || self.payload == 0 || self.visits == 0
    }

    /// Counts the search of one client's filters, in the steps of [`Session::take_work`](super::session::Session::take_work).
    pub(super) fn count_search(&mut self, steps: usize) {
        self.visits = self.visits.saturating_sub(steps / VISIT_STEPS);
    }

    pub(super) fn count_delivery(&mut self, payload: usize) {
        self.deliveries -= 1;
        self.payload = self.payload.saturating_sub(payload);
    }
}
