//! Requests from the broker that are not executed yet, in their order. Their bytes are limited. The connection is read even when they are
//! full, since the broker's acknowledgements of responses arrive on it too.
use statestore_protocol::mqtt::Publish;
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use std::collections::VecDeque;

/// Fraction of the bytes that sessions and connections may hold which waiting requests may hold: one in `MEMORY_DIVISOR`.
const MEMORY_DIVISOR: usize = 4;

/// A request that came.
#[derive(Debug)]
pub(super) struct IncomingRequest {
    pub(super) publish: Publish,
    /// Number among the requests that are to be acknowledged.
    pub(super) number: u64,
    /// Time of arrival.
    pub(super) arrived_ms: u64,
    reservation: Reservation,
}

impl IncomingRequest {
    pub(super) fn new(publish: Publish, number: u64, since_ms: u64, budget: &MemoryBudget) -> Self {
        let bytes = publish.packet_bytes() + size_of::<Self>();
        Self {
            publish,
            number,
            arrived_ms: since_ms,
            reservation: Reservation::new(budget, bytes),
        }
    }
}

/// The requests that wait.
#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    requests: VecDeque<IncomingRequest>,
    bytes: usize,
    /// Number of requests, from the first on, that have memory of their own. The others share the buffer that was read.
    owned_count: usize,
    /// Whether the log has reported that there are too many.
    is_refusal_logged: bool,
}

impl RequestQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns whether one more request may wait, where sessions and connections may hold `max_bytes` bytes. A request may always wait alone.
    pub(super) fn has_capacity(&self, incoming: &IncomingRequest, max_bytes: usize) -> bool {
        self.is_empty() || self.bytes + incoming.reservation.bytes() <= max_bytes / MEMORY_DIVISOR
    }

    pub(super) fn push(&mut self, incoming: IncomingRequest) {
        self.bytes += incoming.reservation.bytes();
        self.requests.push_back(incoming);
    }

    pub(super) fn pop(&mut self) -> Option<IncomingRequest> {
        let incoming = self.requests.pop_front()?;
        self.bytes -= incoming.reservation.bytes();
        self.owned_count = self.owned_count.saturating_sub(1);
        if self.is_empty() {
            self.is_refusal_logged = false;
        }
        Some(incoming)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Copies waiting requests into memory of their own, since a small request would keep the whole buffer that was read.
    pub(super) fn copy_buffers(&mut self) {
        for incoming in self.requests.iter_mut().skip(self.owned_count) {
            incoming.publish.detach();
        }
        self.owned_count = self.requests.len();
    }

    /// Logs that a request was refused for lack of room, once until no request waits any more.
    pub(super) fn log_refusal_once(&mut self) {
        if !std::mem::replace(&mut self.is_refusal_logged, true) {
            tracing::warn!(
                requests = self.requests.len(),
                bytes = self.bytes,
                "requests from the broker wait, and hold as much as they may (a quarter of --max-session-bytes): further ones are \
                 refused until there is room"
            );
        }
    }
}
