//! Of which keys a SET waits for a connection that a newer one may replace.
use super::RequestId;
use std::collections::HashMap;

/// Requests that ended since, or were sent, are not taken out one by one: the [`Ledger`](super::Ledger) knows.
#[derive(Debug, Default)]
pub(super) struct Coalesced {
    newest: HashMap<Box<[u8]>, RequestId>,
}

impl Coalesced {
    /// The newest request for a key, as far as it may still wait.
    pub(super) fn newest(&self, key: &[u8]) -> Option<RequestId> {
        self.newest.get(key).copied()
    }

    /// A request for a key waits. `waits` says it of any, of which there are `queued`.
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

    /// No request waits any more.
    pub(super) fn clear(&mut self) {
        if !self.newest.is_empty() {
            // With its memory: this was an outage, and may not come again.
            self.newest = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_whose_requests_ended_do_not_pile_up() {
        let mut coalesced = Coalesced::default();
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
