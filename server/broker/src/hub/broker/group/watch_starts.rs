//! Start times of watches, by the clocks of their clients.
//!
//! A broker that hands a request to another server may repeat a STOP that was executed before. If the client watches the key or pattern
//! again by then, the repeated STOP must not end the new watch.
use crate::hub::broker::watch_target::WatchTarget;
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use statestored_store::keyspace::rules::Version;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of one start time besides its key or pattern.
const WATCH_START_BYTES: usize = 128;

/// Largest age difference, in milliseconds, at which a STOP counts as older than the watch. No request is executed that late, so a larger
/// difference means that the client's clock was set back.
const MAX_AGE_DIFFERENCE_MS: u64 = 900_000;

#[derive(Debug, Default)]
pub(super) struct WatchStarts {
    /// Start times by client and target.
    watches: HashMap<Arc<str>, HashMap<WatchTarget, (Version, Reservation)>>,
}

impl WatchStarts {
    /// Records that a request about a watch was executed. `at` is the request's time by the clock of its client, `is_watching` whether
    /// there is a watch now.
    pub(super) fn record(
        &mut self,
        (client, target): (&Arc<str>, &WatchTarget),
        at: Option<Version>,
        is_watching: bool,
        budget: &MemoryBudget,
    ) {
        let Some(at) = at.filter(|_| is_watching) else {
            if let Some(targets) = self.watches.get_mut(client) {
                targets.remove(target);
                if targets.is_empty() {
                    self.watches.remove(client);
                }
            }
            return;
        };
        if self.predates_watch(client, target, Some(at)) {
            return;
        }
        let reservation = Reservation::new(budget, target.bytes().len() + WATCH_START_BYTES);
        let targets = self.watches.entry(Arc::clone(client)).or_default();
        targets.insert(target.detached(), (at, reservation));
    }

    /// Returns whether a request of this time is older than the watch.
    pub(super) fn predates_watch(
        &self,
        client: &str,
        target: &WatchTarget,
        at: Option<Version>,
    ) -> bool {
        let since = self.watch_start(client, target);
        at.zip(since).is_some_and(|(at, since)| is_older(at, since))
    }

    /// Returns when a watch began, if its client sent a timestamp.
    pub(super) fn watch_start(&self, client: &str, target: &WatchTarget) -> Option<Version> {
        let (since, _) = self.watches.get(client)?.get(target)?;
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
        let client: Arc<str> = "me".into();
        let (key, pattern) = (
            WatchTarget::Key("k".into()),
            WatchTarget::Pattern("k".into()),
        );
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
            assert_eq!(begun.predates_watch("me", &key, at), expected, "{at:?}");
        }
        assert!(!begun.predates_watch("me", &pattern, Some((0, 0))));

        // An older KEYNOTIFY that is repeated does not change the start, but one of a clock that was set back does.
        begun.record(watch, Some((1_999_000, 0)), true, &budget);
        assert_eq!(begun.watch_start("me", &key), Some((2_000_000, 5)));
        begun.record(watch, Some((1_000, 0)), true, &budget);
        assert_eq!(begun.watch_start("me", &key), Some((1_000, 0)));
        assert!(budget.bytes() > 0);

        begun.record(watch, Some((3_000, 0)), false, &budget);
        assert_eq!(begun.watch_start("me", &key), None);
        begun.record(watch, Some((3_000, 0)), true, &budget);
        begun.remove_client("me");
        assert_eq!((begun.watch_start("me", &key), budget.bytes()), (None, 0));
    }
}
