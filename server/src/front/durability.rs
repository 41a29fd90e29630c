//! Which output waits for which write.
use super::ConnectionId;
use crate::storage::Batch;
use std::collections::VecDeque;

/// Numbers the batches that go to the storage. Number 0 stands for "durable".
#[derive(Debug)]
pub(crate) struct Durability {
    enabled: bool,
    /// Of the last batch handed out.
    taken: u64,
    /// Of the last batch known to be durable.
    durable: u64,
    /// Connections with output that waits, by rising number.
    waiting: VecDeque<(u64, ConnectionId)>,
}

/// Whether a batch changes nothing.
fn is_empty(batch: &Batch) -> bool {
    batch.writes.is_empty() && batch.clock.is_none()
}

impl Durability {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            taken: 0,
            durable: 0,
            waiting: VecDeque::new(),
        }
    }

    /// What output that is made now has to wait for, given the writes not handed out yet.
    pub(crate) fn hold(&self, writes: &Batch) -> u64 {
        if !self.enabled {
            0
        } else if !is_empty(writes) {
            self.taken + 1
        } else if self.taken > self.durable {
            self.taken
        } else {
            0
        }
    }

    /// What output with this hold has to wait for now.
    pub(crate) fn pending(&self, hold: u64) -> u64 {
        if hold <= self.durable { 0 } else { hold }
    }

    /// The connection has output with this hold.
    pub(crate) fn wait(&mut self, hold: u64, id: ConnectionId) {
        self.waiting.push_back((hold, id));
    }

    /// Whether there are writes to hand out.
    pub(crate) fn has_batch(&self, writes: &Batch) -> bool {
        self.enabled && !is_empty(writes)
    }

    /// Hands the writes out.
    pub(crate) fn take(&mut self, writes: &mut Batch) -> Option<(u64, Batch)> {
        if !self.has_batch(writes) {
            return None;
        }
        self.taken += 1;
        Some((self.taken, std::mem::take(writes)))
    }

    /// Takes note that everything up to `sequence` is durable, and names one connection after the other
    /// that waited for it.
    pub(crate) fn release(&mut self, sequence: u64) -> Option<ConnectionId> {
        self.durable = self.durable.max(sequence.min(self.taken));
        if self.waiting.front()?.0 > self.durable {
            return None;
        }
        self.waiting.pop_front().map(|(_, id)| id)
    }

    /// Without durability, writes are of no use.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }
}
