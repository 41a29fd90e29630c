//! Commits, and the answers that wait for them.
use super::request::{CommitIndex, RevealedState};
use super::request_meter::RequestTimer;
use foldhash::{fast, quality};
use statestored_storage::{Batch, Write};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

/// Identifier of a waiter for a commit. The caller that chose it knows its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterId(pub u64);

/// A batch that is not durable yet.
#[derive(Debug, Default)]
struct PendingBatch {
    /// Hashes of the keys that the batch changes.
    keys: Vec<u64>,
    /// Waiters for the batch.
    waiters: Vec<WaiterId>,
    /// Requests whose answers wait for the batch, if they are measured.
    timers: Vec<RequestTimer>,
}

/// Numbering of the batches that go to the storage, and index of the keys changed by batches that are not durable yet.
#[derive(Debug)]
pub(super) struct Commits {
    enabled: bool,
    /// Number of the last batch handed out.
    last_taken: u64,
    /// Number of the last batch known to be durable.
    last_durable: u64,
    /// Batches after `last_durable`, including the batch that gathers.
    pending: VecDeque<PendingBatch>,
    /// Number of the last batch that changed a key, by the key's hash. Two keys with the same hash wait for each other,
    /// which is harmless.
    changed: HashMap<u64, u64, fast::RandomState>,
    hash: quality::RandomState,
    /// Number of writes of the gathering batch that have been noted.
    recorded_writes: usize,
}

impl Commits {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            last_taken: 0,
            last_durable: 0,
            pending: VecDeque::new(),
            changed: HashMap::default(),
            hash: quality::RandomState::default(),
            recorded_writes: 0,
        }
    }

    /// Returns the commit that an answer or notification which reveals `shown` has to wait for. `writes` are those not
    /// handed out yet.
    pub(super) fn index_revealing(&mut self, shown: &RevealedState, writes: &Batch) -> CommitIndex {
        if !self.enabled {
            return 0;
        }
        self.record_keys(writes);
        match shown {
            RevealedState::Key(key) if !self.changed.is_empty() => self.index_of_last_change(key),
            RevealedState::Keys(keys) if !self.changed.is_empty() => {
                let commits = keys.iter().map(|key| self.index_of_last_change(key));
                commits.max().unwrap_or(0)
            }
            RevealedState::Nothing | RevealedState::Key(_) | RevealedState::Keys(_) => 0,
            RevealedState::Everything => self.newest_index(writes),
        }
    }

    /// Returns the commit of the last change of this key; 0 if it is durable.
    fn index_of_last_change(&self, key: &[u8]) -> CommitIndex {
        let hash = self.hash.hash_one(key);
        self.changed.get(&hash).copied().unwrap_or(0)
    }

    fn newest_index(&self, writes: &Batch) -> CommitIndex {
        if self.has_batch(writes) {
            self.last_taken + 1
        } else {
            self.pending_index(self.last_taken)
        }
    }

    /// Notes the keys of writes that have not been noted yet.
    fn record_keys(&mut self, writes: &Batch) {
        let new = writes
            .writes
            .get(self.recorded_writes..)
            .unwrap_or_default();
        if !self.enabled || new.is_empty() {
            return;
        }
        self.recorded_writes = writes.writes.len();
        let sequence = self.last_taken + 1;
        for write in new {
            let key = match write {
                Write::Put(record) => &record.key,
                Write::Delete(key) => key,
            };
            let hash = self.hash.hash_one(&key[..]);
            if self.changed.insert(hash, sequence) != Some(sequence) {
                self.pending_batch(sequence).keys.push(hash);
            }
        }
    }

    fn pending_batch(&mut self, sequence: u64) -> &mut PendingBatch {
        // No more batches wait than fit into memory.
        #[allow(clippy::cast_possible_truncation)]
        let index = (sequence - self.last_durable - 1) as usize;
        if self.pending.len() <= index {
            self.pending.resize_with(index + 1, PendingBatch::default);
        }
        &mut self.pending[index]
    }

    /// Returns the commit that a waiter for `commit` has to wait for now; 0 if it is durable.
    pub(super) fn pending_index(&self, commit: CommitIndex) -> CommitIndex {
        if commit <= self.last_durable {
            0
        } else {
            commit
        }
    }

    /// Registers a waiter for this commit, which must be [pending](Self::pending_index).
    pub(super) fn register_waiter(&mut self, commit: CommitIndex, waiter: WaiterId) {
        self.pending_batch(commit).waiters.push(waiter);
    }

    /// Measures a request until this commit is durable. The commit must be [pending](Self::pending_index).
    pub(super) fn register_timer(&mut self, commit: CommitIndex, measured: RequestTimer) {
        self.pending_batch(commit).timers.push(measured);
    }

    /// Returns whether there are writes to hand out.
    pub(super) fn has_batch(&self, writes: &Batch) -> bool {
        self.enabled && !writes.is_empty()
    }

    /// Hands out the writes as the next batch; `None` if there are none.
    pub(super) fn take(&mut self, writes: &mut Batch) -> Option<(CommitIndex, Batch)> {
        if !self.has_batch(writes) {
            return None;
        }
        self.record_keys(writes);
        self.last_taken += 1;
        self.recorded_writes = 0;
        Some((self.last_taken, std::mem::take(writes)))
    }

    /// Records that all batches up to `sequence` are durable. Returns their waiters, and passes their measured requests
    /// to `released`.
    pub(super) fn release(
        &mut self,
        sequence: CommitIndex,
        mut released: impl FnMut(RequestTimer),
    ) -> Vec<WaiterId> {
        let mut waited = Vec::new();
        while self.last_durable < sequence.min(self.last_taken) {
            self.last_durable += 1;
            let Some(batch) = self.pending.pop_front() else {
                continue;
            };
            batch.timers.into_iter().for_each(&mut released);
            for hash in batch.keys {
                if self.changed.get(&hash) == Some(&self.last_durable) {
                    self.changed.remove(&hash);
                }
            }
            if waited.is_empty() {
                waited = batch.waiters;
            } else {
                waited.extend(batch.waiters);
            }
        }
        waited
    }
}
