//! When which entry expires.
use std::collections::BTreeSet;

/// The deadlines of all entries that have one, soonest first.
///
/// An entry stands here by the hash of its key, with exactly the deadline that it carries: a renewal replaces the
/// former deadline, so a lease renewed a million times takes one place. Two entries with the same hash and the same
/// deadline share a place; who removes one of them asks first whether the other is still there.
#[derive(Default)]
pub(super) struct Deadlines(BTreeSet<(u64, u64)>);

/// Memory of a deadline.
pub(super) const DEADLINE_BYTES: u64 = 32;

impl Deadlines {
    pub(super) fn insert(&mut self, deadline_ms: u64, hash: u64) {
        self.0.insert((deadline_ms, hash));
    }

    pub(super) fn remove(&mut self, deadline_ms: u64, hash: u64) {
        self.0.remove(&(deadline_ms, hash));
    }

    /// Moves all of them within the heap, if they are at most so many.
    pub(super) fn relocate(&mut self, most: usize) {
        if self.0.len() <= most {
            self.0 = self.0.iter().copied().collect();
        }
    }

    /// The soonest deadline, and the hash of its key.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }

    /// All from this one on, with the hashes of their keys.
    pub(super) fn from(&self, first: (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        self.0.range(first..).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
