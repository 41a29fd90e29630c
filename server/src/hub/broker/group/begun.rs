//! Start times of watches, by the clocks of their clients.
//!
//! A broker that hands a request to another server may repeat a STOP that was executed before. If the client watches the key again by then,
//! the repeated STOP must not end the new watch.
use crate::budget::{Charge, Gauge};
use crate::keyspace::rules::Version;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of one start time besides its key.
const ONE_BYTES: usize = 128;

/// Largest age difference, in milliseconds, at which a STOP counts as older than the watch. No request is executed that late, so a larger
/// difference means that the client's clock was set back.
const OLDEST_MS: u64 = 900_000;

#[derive(Debug, Default)]
pub(super) struct Begun {
    /// Start times by client and key.
    watches: HashMap<Arc<str>, HashMap<Bytes, (Version, Charge)>>,
}

impl Begun {
    /// Records that a request about a watch was executed. `at` is the request's time by the clock of its client, `is_watching` whether
    /// there is a watch now.
    pub(super) fn executed(
        &mut self,
        (client, key): (&Arc<str>, &Bytes),
        at: Option<Version>,
        is_watching: bool,
        gauge: &Gauge,
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
        if self.is_before(client, key, Some(at)) {
            return;
        }
        // A slice of the message would keep the whole message.
        let key = Bytes::copy_from_slice(key);
        let charge = Charge::new(gauge, key.len() + ONE_BYTES);
        let keys = self.watches.entry(Arc::clone(client)).or_default();
        keys.insert(key, (at, charge));
    }

    /// Returns whether a request of this time is older than the watch.
    pub(super) fn is_before(&self, client: &str, key: &[u8], at: Option<Version>) -> bool {
        let since = self.since(client, key);
        at.zip(since).is_some_and(|(at, since)| is_older(at, since))
    }

    /// Returns when a watch began, if its client sent a timestamp.
    pub(super) fn since(&self, client: &str, key: &[u8]) -> Option<Version> {
        let (since, _) = self.watches.get(client)?.get(key)?;
        Some(*since)
    }

    /// Forgets a client whose watches have all ended.
    pub(super) fn ended(&mut self, client: &str) {
        self.watches.remove(client);
    }

    pub(super) fn clear(&mut self) {
        self.watches.clear();
    }
}

fn is_older(at: Version, since: Version) -> bool {
    at < since && since.0 - at.0 <= OLDEST_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_is_older_than_the_watch_does_not_end_it_unless_the_clock_was_set_back() {
        let (mut begun, gauge) = (Begun::default(), Gauge::default());
        let (client, key): (Arc<str>, Bytes) = ("me".into(), "k".into());
        let watch = (&client, &key);
        begun.executed(watch, Some((2_000_000, 5)), true, &gauge);
        for (at, expected) in [
            (Some((2_000_000, 4)), true),
            (Some((1_100_000, 9)), true),
            (Some((1_099_999, 9)), false),
            (Some((2_000_000, 5)), false),
            (Some((2_000_000, 6)), false),
            (None, false),
        ] {
            assert_eq!(begun.is_before("me", b"k", at), expected, "{at:?}");
        }
        assert!(!begun.is_before("me", b"other", Some((0, 0))));

        // An older KEYNOTIFY that is repeated does not change the start, but one of a clock that was set back does.
        begun.executed(watch, Some((1_999_000, 0)), true, &gauge);
        assert_eq!(begun.since("me", b"k"), Some((2_000_000, 5)));
        begun.executed(watch, Some((1_000, 0)), true, &gauge);
        assert_eq!(begun.since("me", b"k"), Some((1_000, 0)));
        assert!(gauge.bytes() > 0);

        begun.executed(watch, Some((3_000, 0)), false, &gauge);
        assert_eq!(begun.since("me", b"k"), None);
        begun.executed(watch, Some((3_000, 0)), true, &gauge);
        begun.ended("me");
        assert_eq!((begun.since("me", b"k"), gauge.bytes()), (None, 0));
    }
}
