//! The form and size of groups of commits.
//!
//! A group in one transaction, all or none, costs etcd and this server the least. If one of its commits is refused because another server
//! has changed a compared key, none is made. Each is then tried independently, in nested transactions, which takes a second request. Where
//! servers write the same keys at the same time, this happens repeatedly. After a refusal, some groups therefore use nested transactions at
//! once.
use super::transactions::MOST_OPERATIONS;
use crate::keyspace::remote::portion::Portion;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of groups that use nested transactions after a refusal.
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
    /// Returns whether the next group is made as one.
    pub(super) fn is_as_one(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let left = self
            .by_themselves
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        left.is_err()
    }

    /// Records the refusal of a group that was made as one.
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
