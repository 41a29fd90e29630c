//! Expiry of entries. Each node counts the whole lifetime of an entry on its own monotonic clock, from when it first saw the entry.
//!
//! The node that wrote the entry saw it no earlier than the engine had it. No node therefore ends it too early, whatever the wall clocks
//! show. A node that finds an expired entry commits its tombstone, which ends the entry for all nodes.
use super::engine::Revision;
use super::maps::ByKey;
use super::record::Record;
use bytes::Bytes;
use statestored_common::ClockReading;
use std::collections::BTreeSet;

/// Lifetime from which on the age of an old record is taken from the wall clocks. Nodes that restart repeatedly would otherwise keep such a
/// record forever.
const LONG_TTL_MS: u64 = 10 * 60 * 1000;

/// Maximum difference between two wall clocks that is allowed for.
const SKEW_MS: u64 = 60 * 1000;

/// The age of a record when it is seen.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordAge {
    /// Just written.
    New,
    /// Possibly old, and the clocks of other nodes are not known yet.
    Unknown,
    /// Possibly old; contains the time of the wall clock that is furthest behind.
    PossiblyOld(u64),
}

/// The remaining time of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemainingTime {
    /// The record does not expire.
    NoExpiry,
    /// Remaining time in milliseconds; zero if the record has expired.
    Ms(u64),
    /// The record expires, but was not seen here yet, or a later one was. The key has to be read again.
    Unknown,
}

/// Index of the records that expire: entries at their time, tombstones when they are purged.
#[derive(Debug, Default)]
pub(super) struct ExpiryIndex {
    by_key: ByKey<ExpiryEntry>,
    due: BTreeSet<(u64, Bytes)>,
    /// Time for which this node leaves it to others to remove records that are not requested.
    removal_delay_ms: u64,
    tombstone_lifetime_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct ExpiryEntry {
    revision: Revision,
    /// Whether the record may have been lost. The current one may be older.
    is_doubtful: bool,
    /// Whether the record keeps its whole lifetime until it is seen when the clocks of others are known.
    is_of_unknown_age: bool,
    expires_ms: u64,
    /// Time at which the record is to be removed if it is not requested; the entry in `due` has it too.
    due_ms: u64,
}

impl ExpiryIndex {
    pub(super) fn new(patience_ms: u64, keeps_tombstones_ms: u64) -> Self {
        Self {
            removal_delay_ms: patience_ms,
            tombstone_lifetime_ms: keeps_tombstones_ms,
            ..Self::default()
        }
    }

    /// Records a record that was seen, perhaps repeatedly and perhaps after a later one.
    pub(super) fn observe(
        &mut self,
        key: &Bytes,
        record: &Record,
        revision: Revision,
        now: ClockReading,
        age: RecordAge,
    ) {
        if let Some(sight) = self.by_key.get_mut(key) {
            let mut is_told_more = false;
            if sight.revision == revision {
                sight.is_doubtful = false;
                is_told_more = sight.is_of_unknown_age && matches!(age, RecordAge::PossiblyOld(_));
            }
            if sight.revision == revision && !is_told_more
                || (sight.revision > revision && !sight.is_doubtful)
            {
                return;
            }
        }
        self.remove(key);
        let left_ms = match (record.expiry(), age) {
            (Some(expiry), RecordAge::PossiblyOld(earliest_ms)) if expiry.ttl_ms > LONG_TTL_MS => {
                let left = expiry.at_wall_ms.saturating_sub(earliest_ms);
                left.saturating_add(SKEW_MS).min(expiry.ttl_ms)
            }
            (Some(expiry), _) => expiry.ttl_ms,
            (None, _) if record.is_entry() => return,
            (None, _) => self.tombstone_lifetime_ms,
        };
        let ends_ms = now.mono_ms.saturating_add(left_ms);
        let due_ms = ends_ms.saturating_add(self.removal_delay_ms);
        let sight = ExpiryEntry {
            revision,
            is_doubtful: false,
            is_of_unknown_age: matches!(age, RecordAge::Unknown),
            expires_ms: ends_ms,
            due_ms,
        };
        self.by_key.insert(key.clone(), sight);
        self.due.insert((due_ms, key.clone()));
    }

    /// Marks the records as possibly lost. A record that is seen again keeps its time.
    pub(super) fn mark_doubtful(&mut self) {
        for sight in self.by_key.values_mut() {
            sight.is_doubtful = true;
        }
    }

    /// Records that a key had no record at this revision.
    pub(super) fn observe_absence(&mut self, key: &Bytes, at: Revision) {
        if self.by_key.get(key).is_some_and(|it| it.revision <= at) {
            self.remove(key);
        }
    }

    /// Returns the keys whose last seen records are not later than this revision.
    pub(super) fn keys_up_to(&self, at: Revision) -> impl Iterator<Item = &Bytes> {
        let known = self.by_key.iter();
        known
            .filter(move |(_, sight)| sight.revision <= at)
            .map(|(key, _)| key)
    }

    /// Returns the remaining time of the record of a key that has this revision.
    pub(super) fn remaining(
        &self,
        key: &[u8],
        (record, revision): (&Record, Revision),
        now: ClockReading,
    ) -> RemainingTime {
        if record.is_entry() && record.expiry().is_none() {
            return RemainingTime::NoExpiry;
        }
        match self.by_key.get(key) {
            Some(sight) if sight.revision == revision => {
                RemainingTime::Ms(sight.expires_ms.saturating_sub(now.mono_ms))
            }
            _ => RemainingTime::Unknown,
        }
    }

    /// Returns whether the last seen record of this key has time left, as far as this node knows.
    pub(super) fn is_live(&self, key: &[u8], now: ClockReading) -> bool {
        let sight = self.by_key.get(key);
        sight.is_none_or(|sight| sight.expires_ms > now.mono_ms)
    }

    /// Takes a record to be removed, with its revision. A record is returned again only after [`postpone`](Self::postpone).
    pub(super) fn take_due(&mut self, now: ClockReading) -> Option<(Bytes, Revision)> {
        let (due_ms, _) = self.due.first()?;
        if *due_ms > now.mono_ms {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        let revision = self.by_key.get(&key)?.revision;
        Some((key, revision))
    }

    /// Postpones the removal of the record.
    pub(super) fn postpone(&mut self, key: &Bytes, revision: Revision, until_ms: u64) {
        if let Some(sight) = self.by_key.get_mut(key)
            && sight.revision == revision
        {
            self.due.remove(&(sight.due_ms, key.clone()));
            sight.due_ms = until_ms;
            self.due.insert((until_ms, key.clone()));
        }
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    fn remove(&mut self, key: &Bytes) {
        if let Some(sight) = self.by_key.remove(key) {
            self.due.remove(&(sight.due_ms, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecordContent, WriteId};
    use statestored_storage::Expiry;

    #[test]
    fn an_entry_of_unknown_age_keeps_its_full_lifetime_until_the_clocks_are_known() {
        const WALL_MS: u64 = 1_700_000_000_000;
        let ttl_ms = 2 * LONG_TTL_MS;
        let record = Record {
            version: (WALL_MS, 0),
            write: WriteId {
                process: 1,
                number: 1,
            },
            content: RecordContent::Entry {
                value: Bytes::new(),
                token: None,
                expiry: Some(Expiry {
                    at_wall_ms: WALL_MS + 1_000,
                    ttl_ms,
                }),
            },
        };
        let (key, revision) = (Bytes::from_static(b"key"), Revision(7));
        let now = ClockReading {
            wall_ms: WALL_MS,
            mono_ms: 50,
        };
        let mut sights = ExpiryIndex::new(0, 0);
        let mut remaining = |age| {
            sights.observe(&key, &record, revision, now, age);
            sights.remaining(&key, (&record, revision), now)
        };
        assert_eq!(remaining(RecordAge::Unknown), RemainingTime::Ms(ttl_ms));
        assert_eq!(remaining(RecordAge::Unknown), RemainingTime::Ms(ttl_ms));
        assert_eq!(
            remaining(RecordAge::PossiblyOld(WALL_MS)),
            RemainingTime::Ms(1_000 + SKEW_MS)
        );
        // By then, the record's age is known, and it keeps its time.
        assert_eq!(
            remaining(RecordAge::Unknown),
            RemainingTime::Ms(1_000 + SKEW_MS)
        );
        assert_eq!(
            remaining(RecordAge::PossiblyOld(0)),
            RemainingTime::Ms(1_000 + SKEW_MS)
        );
        let other = sights.remaining(&key, (&record, Revision(6)), now);
        assert_eq!(other, RemainingTime::Unknown);
    }
}
