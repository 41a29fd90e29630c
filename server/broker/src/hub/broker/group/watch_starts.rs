//! Start times of watches, by the clocks of their clients.
//!
//! A broker that hands a request to another server may repeat a STOP that was executed before. If the client watches the key again by then,
//! the repeated STOP must not end the new watch.
use bytes::Bytes;
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use statestored_store::keyspace::rules::Version;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of one start time besides its key.
const WATCH_START_BYTES: usize = 128;

/// Largest age difference, in milliseconds, at which a STOP counts as older than the watch. No request is executed that late, so a larger
/// difference means that the client's clock was set back.
const MAX_AGE_DIFFERENCE_MS: u64 = 900_000;

#[derive(Debug, Default)]
pub(super) struct WatchStarts {
    /// Start times by client and key.
    watches: HashMap<Arc<str>, HashMap<Bytes, (Version, Reservation)>>,
}

impl WatchStarts {
    /// Records that a request about a watch was executed. `at` is the request's time by the clock of its client, `is_watching` whether
    /// there is a watch now.
    pub(super) fn record(
        &mut self,
        (client, key): (&Arc<str>, &Bytes),
        at: Option<Version>,
        is_watching: bool,
        budget: &MemoryBudget,
    ) {
        let Some(at) = at.filter(|_| is_watching) else {
            if let Some(keys) = self.watches.get_mut(client) {
                keys.remove(key);
                if keys.is_empty() {
                    self.watches.remove(client);
                }
            }
            return;
        };
        if self.predates_watch(client, key, Some(at)) {
            return;
        }
        // A slice of the message would keep the whole message.
        let key = Bytes::copy_from_slice(key);
        let reservation = Reservation::new(budget, key.len() + WATCH_START_BYTES);
        let keys = self.watches.entry(Arc::clone(client)).or_default();
        keys.insert(key, (at, reservation));
    }

    /// Returns whether a request of this time is older than the watch.
    pub(super) fn predates_watch(&self, client: &str, key: &[u8], at: Option<Version>) -> bool {
        let since = self.watch_start(client, key);
        at.zip(since).is_some_and(|(at, since)| is_older(at, since))
    }

    /// Returns when a watch began, if its client sent a timestamp.
    pub(super) fn watch_start(&self, client: &str, key: &[u8]) -> Option<Version> {
        let (since, _) = self.watches.get(client)?.get(key)?;
        Some(*since)
    }

    /// Forgets a client whose watches have all ended.
    pub(super) fn remove_client(&mut self, client: &str) {
        self.watches.remove(client);
    }

    pub(super) fn clear(&mut self) {
        self.watches.clear();
    }
}

fn is_older(at: Version, since: Version) -> bool {
    at < since && since.0 - at.0 <= MAX_AGE_DIFFERENCE_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_is_older_than_the_watch_does_not_end_it_unless_the_clock_was_set_back() {
        let (mut begun, budget) = (WatchStarts::default(), MemoryBudget::default());
        let (client, key): (Arc<str>, Bytes) = ("me".into(), "k".into());
        let watch = (&client, &key);
        begun.record(watch, Some((2_000_000, 5)), true, &budget);
        for (at, expected) in [
            (Some((2_000_000, 4)), true),
            (Some((1_100_000, 9)), true),
            (Some((1_099_999, 9)), false),
            (Some((2_000_000, 5)), false),
            (Some((2_000_000, 6)), false),
            (None, false),
        ] {
            assert_eq!(begun.predates_watch("me", b"k", at), expected, "{at:?}");
        }
        assert!(!begun.predates_watch("me", b"other", Some((0, 0))));

        // An older KEYNOTIFY that is repeated does not change the start, but one of a clock that was set back does.
        begun.record(watch, Some((1_999_000, 0)), true, &budget);
        assert_eq!(begun.watch_start("me", b"k"), Some((2_000_000, 5)));
        begun.record(watch, Some((1_000, 0)), true, &budget);
        assert_eq!(begun.watch_start("me", b"k"), Some((1_000, 0)));
        assert!(budget.bytes() > 0);

        begun.record(watch, Some((3_000, 0)), false, &budget);
        assert_eq!(begun.watch_start("me", b"k"), None);
        begun.record(watch, Some((3_000, 0)), true, &budget);
        begun.remove_client("me");
        assert_eq!((begun.watch_start("me", b"k"), budget.bytes()), (None, 0));
    }
}
