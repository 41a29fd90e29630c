//! How groups of commits are made, and of how many.
//!
//! As one transaction, all or none, they take the least of etcd and of this server. If one of them is refused, since another server has changed
//! what it compares, none is made, and each is tried by itself, in nested transactions: a second way to etcd. Where servers write the same keys at the
//! same time that happens again and again, so that after a refusal some groups go the second way at once.
use super::transactions::MOST_OPERATIONS;
use crate::keyspace::remote::portion::Portion;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many groups go the second way after a refusal.
const AFTER_A_REFUSAL: u32 = 16;

#[derive(Debug)]
pub(super) struct Habit {
    by_themselves: AtomicU32,
    pub(super) portion: Portion,
}

impl Default for Habit {
    fn default() -> Self {
        Self {
            by_themselves: AtomicU32::new(0),
            portion: Portion::new(MOST_OPERATIONS),
        }
    }
}

impl Habit {
    /// Whether the next group is made as one.
    pub(super) fn is_as_one(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let left = self
            .by_themselves
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        left.is_err()
    }

    /// A group that was made as one was refused.
    pub(super) fn refused(&self) {
        self.by_themselves.store(AFTER_A_REFUSAL, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_refusal_some_groups_are_made_each_by_itself() {
        let habit = Habit::default();
        assert!(habit.is_as_one() && habit.is_as_one());
        habit.refused();
        for group in 0..AFTER_A_REFUSAL {
            assert!(!habit.is_as_one(), "{group}");
        }
        assert!(habit.is_as_one());
    }
}
