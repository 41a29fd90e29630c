//! Commits, and the answers that wait for them.
use super::meter::Measured;
use super::request::{Commit, Shown};
use crate::storage::{Batch, Write};
use foldhash::{fast, quality};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

/// Identifier of a waiter for a commit. The caller that chose it knows its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter(pub u64);

/// A batch that is not durable yet.
#[derive(Debug, Default)]
struct Pending {
    /// Hashes of the keys that the batch changes.
    keys: Vec<u64>,
    /// Waiters for the batch.
    waiters: Vec<Waiter>,
    /// Requests whose answers wait for the batch, if they are measured.
    measured: Vec<Measured>,
}

/// Numbering of the batches that go to the storage, and index of the keys changed by batches that are not durable yet.
#[derive(Debug)]
pub(super) struct Commits {
    enabled: bool,
    /// Number of the last batch handed out.
    taken: u64,
    /// Number of the last batch known to be durable.
    durable: u64,
    /// Batches after `durable`, including the batch that gathers.
    pending: VecDeque<Pending>,
    /// Number of the last batch that changed a key, by the key's hash. Two keys with the same hash wait for each other,
    /// which is harmless.
    changed: HashMap<u64, u64, fast::RandomState>,
    hash: quality::RandomState,
    /// Number of writes of the gathering batch that have been noted.
    seen: usize,
}

impl Commits {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            taken: 0,
            durable: 0,
            pending: VecDeque::new(),
            changed: HashMap::default(),
            hash: quality::RandomState::default(),
            seen: 0,
        }
    }

    /// Returns the commit that an answer or notification which reveals `shown` has to wait for. `writes` are those not
    /// handed out yet.
    pub(super) fn telling(&mut self, shown: &Shown, writes: &Batch) -> Commit {
        if !self.enabled {
            return 0;
        }
        self.note(writes);
        match shown {
            Shown::Key(key) if !self.changed.is_empty() => {
                let hash = self.hash.hash_one(&key[..]);
                self.changed.get(&hash).copied().unwrap_or(0)
            }
            Shown::Nothing | Shown::Key(_) => 0,
            Shown::Everything => self.newest(writes),
        }
    }

    fn newest(&self, writes: &Batch) -> Commit {
        if self.has_batch(writes) {
            self.taken + 1
        } else {
            self.pending(self.taken)
        }
    }

    /// Notes the keys of writes that have not been noted yet.
    fn note(&mut self, writes: &Batch) {
        let new = writes.writes.get(self.seen..).unwrap_or_default();
        if !self.enabled || new.is_empty() {
            return;
        }
        self.seen = writes.writes.len();
        let sequence = self.taken + 1;
        for write in new {
            let key = match write {
                Write::Put(record) => &record.key,
                Write::Delete(key) => key,
            };
            let hash = self.hash.hash_one(&key[..]);
            if self.changed.insert(hash, sequence) != Some(sequence) {
                self.batch(sequence).keys.push(hash);
            }
        }
    }

    fn batch(&mut self, sequence: u64) -> &mut Pending {
        // No more batches wait than fit into memory.
        #[allow(clippy::cast_possible_truncation)]
        let index = (sequence - self.durable - 1) as usize;
        if self.pending.len() <= index {
            self.pending.resize_with(index + 1, Pending::default);
        }
        &mut self.pending[index]
    }

    /// Returns the commit that a waiter for `commit` has to wait for now; 0 if it is durable.
    pub(super) fn pending(&self, commit: Commit) -> Commit {
        if commit <= self.durable { 0 } else { commit }
    }

    /// Registers a waiter for this commit, which must be [pending](Self::pending).
    pub(super) fn wait(&mut self, commit: Commit, waiter: Waiter) {
        self.batch(commit).waiters.push(waiter);
    }

    /// Measures a request until this commit is durable. The commit must be [pending](Self::pending).
    pub(super) fn measure(&mut self, commit: Commit, measured: Measured) {
        self.batch(commit).measured.push(measured);
    }

    /// Returns whether there are writes to hand out.
    pub(super) fn has_batch(&self, writes: &Batch) -> bool {
        self.enabled && !writes.is_empty()
    }

    /// Hands out the writes as the next batch; `None` if there are none.
    pub(super) fn take(&mut self, writes: &mut Batch) -> Option<(Commit, Batch)> {
        if !self.has_batch(writes) {
            return None;
        }
        self.note(writes);
        self.taken += 1;
        self.seen = 0;
        Some((self.taken, std::mem::take(writes)))
    }

    /// Records that all batches up to `sequence` are durable. Returns their waiters, and passes their measured requests
    /// to `released`.
    pub(super) fn release(
        &mut self,
        sequence: Commit,
        mut released: impl FnMut(Measured),
    ) -> Vec<Waiter> {
        let mut waited = Vec::new();
        while self.durable < sequence.min(self.taken) {
            self.durable += 1;
            let Some(batch) = self.pending.pop_front() else {
                continue;
            };
            batch.measured.into_iter().for_each(&mut released);
            for hash in batch.keys {
                if self.changed.get(&hash) == Some(&self.durable) {
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
