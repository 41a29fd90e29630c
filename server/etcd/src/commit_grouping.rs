//! The form and size of groups of commits.
//!
//! A group in one transaction, all or none, costs etcd and this server the least. If one of its commits is refused because another server
//! has changed a compared key, none is made. Each is then tried independently, in nested transactions, which takes a second request. Where
//! servers write the same keys at the same time, this happens repeatedly. After a refusal, some groups therefore use nested transactions at
//! once.
use super::limits::MAX_OPERATIONS;
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of groups that use nested transactions after a refusal.
const SEPARATE_AFTER_CONFLICT: u32 = 16;

#[derive(Debug)]
pub(super) struct CommitGrouping {
    separate_groups_left: AtomicU32,
    pub(super) batch_size: AdaptiveBatchSize,
}

impl Default for CommitGrouping {
    fn default() -> Self {
        Self {
            separate_groups_left: AtomicU32::new(0),
            batch_size: AdaptiveBatchSize::new(MAX_OPERATIONS),
        }
    }
}

impl CommitGrouping {
    /// Returns whether the next group is made as one.
    pub(super) fn is_atomic(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let left =
            self.separate_groups_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        left.is_err()
    }

    /// Records the refusal of a group that was made as one.
    pub(super) fn conflicted(&self) {
        self.separate_groups_left
            .store(SEPARATE_AFTER_CONFLICT, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_conflict_some_groups_use_nested_transactions() {
        let grouping = CommitGrouping::default();
        assert!(grouping.is_atomic() && grouping.is_atomic());
        grouping.conflicted();
        for group in 0..SEPARATE_AFTER_CONFLICT {
            assert!(!grouping.is_atomic(), "{group}");
        }
        assert!(grouping.is_atomic());
    }
}
