//! Deadlines of the entries that expire.
use std::collections::BTreeSet;

/// The deadlines of all entries that have one, soonest first.
///
/// Each element is the deadline that an entry has, and the hash of its key. A renewal replaces the former deadline, so a lease
/// renewed a million times takes one element. Two entries with the same hash and the same deadline share an element. It is
/// removed only when neither of them has that deadline any more.
#[derive(Default)]
pub(super) struct ExpiryIndex(BTreeSet<(u64, u64)>);

/// Bytes of memory of a deadline.
pub(super) const DEADLINE_BYTES: u64 = 32;

impl ExpiryIndex {
    pub(super) fn insert(&mut self, deadline_ms: u64, hash: u64) {
        self.0.insert((deadline_ms, hash));
    }

    pub(super) fn remove(&mut self, deadline_ms: u64, hash: u64) {
        self.0.remove(&(deadline_ms, hash));
    }

    /// Moves all deadlines within the heap, if there are at most `most`.
    pub(super) fn relocate(&mut self, most: usize) {
        if self.0.len() <= most {
            self.0 = self.0.iter().copied().collect();
        }
    }

    /// Returns the soonest deadline, and the hash of its key.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }

    /// Returns the deadlines from `first` on, with the hashes of their keys.
    pub(super) fn from(&self, first: (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        self.0.range(first..).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
