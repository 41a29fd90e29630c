//! Which answers wait for which commit.
use super::meter::Measured;
use super::request::{Commit, Shown};
use crate::storage::{Batch, Write};
use foldhash::{fast, quality};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

/// Somebody who has something that waits for a commit; what it stands for is known to whoever gave the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter(pub u64);

/// A batch that is not durable yet.
#[derive(Debug, Default)]
struct Pending {
    /// The hashes of the keys that it changes.
    keys: Vec<u64>,
    /// Who waits for it.
    waiters: Vec<Waiter>,
    /// Requests whose answers wait for it, if they are measured.
    measured: Vec<Measured>,
}

/// Numbers the batches that go to the storage, and knows which keys those change that are not durable yet.
#[derive(Debug)]
pub(super) struct Commits {
    enabled: bool,
    /// Of the last batch handed out.
    taken: u64,
    /// Of the last batch known to be durable.
    durable: u64,
    /// The batches after that one, the one that gathers included.
    pending: VecDeque<Pending>,
    /// The last batch that changed a key, by the key's hash. Two keys with one hash wait for each other, no more.
    changed: HashMap<u64, u64, fast::RandomState>,
    hash: quality::RandomState,
    /// How many writes of the batch that gathers have been seen.
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

    /// What something has to wait for that is said now and tells of this. `writes` are those not handed out yet.
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

    /// Takes note of the keys that are changed by writes which are new.
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

    /// What something that waited for this commit has to wait for now.
    pub(super) fn pending(&self, commit: Commit) -> Commit {
        if commit <= self.durable { 0 } else { commit }
    }

    /// Somebody waits for this commit, which is [pending](Self::pending).
    pub(super) fn wait(&mut self, commit: Commit, waiter: Waiter) {
        self.batch(commit).waiters.push(waiter);
    }

    /// The answer of this request waits for the commit, which is [pending](Self::pending).
    pub(super) fn measure(&mut self, commit: Commit, measured: Measured) {
        self.batch(commit).measured.push(measured);
    }

    /// Whether there are writes to hand out.
    pub(super) fn has_batch(&self, writes: &Batch) -> bool {
        self.enabled && !writes.is_empty()
    }

    /// Hands the writes out.
    pub(super) fn take(&mut self, writes: &mut Batch) -> Option<(Commit, Batch)> {
        if !self.has_batch(writes) {
            return None;
        }
        self.note(writes);
        self.taken += 1;
        self.seen = 0;
        Some((self.taken, std::mem::take(writes)))
    }

    /// Takes note that everything up to `sequence` is durable, and names those who waited for it, and the requests that are
    /// measured.
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
