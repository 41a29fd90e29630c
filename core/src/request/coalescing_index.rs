//! The keys with a waiting SET that a newer one may replace.
use super::RequestId;
use std::collections::HashMap;

/// The newest waiting request of each key. Requests that ended or were sent are not removed one by one; the
/// [`RequestTable`](super::RequestTable) knows their state.
#[derive(Debug, Default)]
pub(super) struct CoalescingIndex {
    newest: HashMap<Box<[u8]>, RequestId>,
}

impl CoalescingIndex {
    /// Returns the newest request for a key, which may have stopped waiting.
    pub(super) fn newest(&self, key: &[u8]) -> Option<RequestId> {
        self.newest.get(key).copied()
    }

    /// Records a waiting request for a key. `waits` is whether a request still waits, and `queued` is the number of queued
    /// requests.
    pub(super) fn insert(
        &mut self,
        key: &[u8],
        id: RequestId,
        queued: usize,
        waits: impl Fn(RequestId) -> bool,
    ) {
        if self.newest.len() > 2 * queued + 64 {
            self.newest.retain(|_, id| waits(*id));
        }
        self.newest.insert(key.into(), id);
    }

    /// Removes all requests, because the queue is empty.
    pub(super) fn clear(&mut self) {
        if !self.newest.is_empty() {
            // Frees the memory: it served an outage that may not recur.
            self.newest = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_ended_requests_are_removed() {
        let mut coalesced = CoalescingIndex::default();
        for index in 0..100_000_u32 {
            let id = RequestId {
                index,
                generation: 0,
            };
            let waits = |id: RequestId| id.index.is_multiple_of(1_000);
            coalesced.insert(&index.to_be_bytes(), id, 100, waits);
            assert!(coalesced.newest.len() <= 265);
        }
        assert!(coalesced.newest(&50_000_u32.to_be_bytes()).is_some());
    }
}
