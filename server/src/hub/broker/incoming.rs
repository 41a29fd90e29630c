//! Requests that came from the broker and are not executed yet: in their order, and of few bytes. Nobody stops reading for their sake,
//! since what the broker says to the answers comes on the same way.
use crate::budget::{Charge, Gauge};
use statestore_protocol::mqtt::Publish;
use std::collections::VecDeque;

/// Of all that sessions and connections may hold, waiting requests may hold one of so many parts.
const PART: usize = 4;

/// A request that came.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) publish: Publish,
    /// Its number among those that are to be acknowledged.
    pub(super) number: u64,
    /// When it came.
    pub(super) since_ms: u64,
    charge: Charge,
}

impl Incoming {
    pub(super) fn new(publish: Publish, number: u64, since_ms: u64, gauge: &Gauge) -> Self {
        let bytes = publish.packet_bytes() + size_of::<Self>();
        Self {
            publish,
            number,
            since_ms,
            charge: Charge::new(gauge, bytes),
        }
    }
}

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    requests: VecDeque<Incoming>,
    bytes: usize,
    /// So many of the first ones are in memory of their own, the others in what was read with them.
    kept: usize,
    /// The log has said that there are too many.
    is_told: bool,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether one more may wait, where sessions and connections may hold so many bytes. The only one always may.
    pub(super) fn has_room(&self, incoming: &Incoming, most: usize) -> bool {
        self.is_empty() || self.bytes + incoming.charge.bytes() <= most / PART
    }

    pub(super) fn push(&mut self, incoming: Incoming) {
        self.bytes += incoming.charge.bytes();
        self.requests.push_back(incoming);
    }

    pub(super) fn pop(&mut self) -> Option<Incoming> {
        let incoming = self.requests.pop_front()?;
        self.bytes -= incoming.charge.bytes();
        self.kept = self.kept.saturating_sub(1);
        if self.is_empty() {
            self.is_told = false;
        }
        Some(incoming)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What is left has to wait: it gets memory of its own, since a small request would keep all that was read with it.
    pub(super) fn keep(&mut self) {
        for incoming in self.requests.iter_mut().skip(self.kept) {
            incoming.publish.detach();
        }
        self.kept = self.requests.len();
    }

    /// There was no room for one: says so in the log, once until nothing waits any more.
    pub(super) fn tell_of_refusal(&mut self) {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!(
                requests = self.requests.len(),
                bytes = self.bytes,
                "requests from the broker wait, and hold as much as they may (a quarter of --max-session-bytes): further ones are \
                 refused until there is room"
            );
        }
    }
}
