//! Notifications of changes: those of followed keys, each once, in the order of their versions.
use super::engine::EngineRequestId;
use super::maps::{ById, ByKey};
use super::record::{Record, RecordContent};
use bytes::Bytes;
use statestored_store::keyspace::rules::Version;
use statestored_store::keyspace::{ChangeEvent, EntryState, EventSink, Ticket};

/// The last known state of a followed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastState {
    version: Version,
    is_removed: bool,
}

#[derive(Debug, Default)]
struct FollowedKey {
    /// The last state reported, or seen before the initial state of the key was known.
    last: Option<LastState>,
    /// The last state reported. It may be older than `last`: the end of an entry that was never reported is not reported.
    reported: Option<LastState>,
    /// Operations that wait for the confirmation that the key is followed.
    waiting_requests: Vec<Ticket>,
}

/// The keys that are followed.
#[derive(Debug, Default)]
pub(super) struct FollowedKeys {
    keys: ByKey<FollowedKey>,
    /// The keys of engine requests.
    requested: ById<EngineRequestId, Bytes>,
    /// Operations that waited for a key that is no longer followed.
    released: Vec<Ticket>,
}

impl FollowedKeys {
    /// Begins to follow a key. Returns whether its state is known already, so that no engine request is necessary.
    pub(super) fn follow(&mut self, key: &Bytes, ticket: Ticket) -> bool {
        let followed = self.keys.entry(key.clone()).or_default();
        if followed.last.is_some() && followed.waiting_requests.is_empty() {
            return true;
        }
        followed.waiting_requests.push(ticket);
        false
    }

    /// Records an engine request for the state of a key.
    pub(super) fn state_requested(&mut self, ask: EngineRequestId, key: Bytes) {
        self.requested.insert(ask, key);
    }

    /// Returns the key of an engine request if it was made for a followed key.
    pub(super) fn take_requested(&mut self, ask: EngineRequestId) -> Option<Bytes> {
        self.requested.remove(&ask)
    }

    /// Forgets the engine requests so far, whose answers are no longer useful.
    pub(super) fn clear_requested(&mut self) {
        self.requested.clear();
    }

    /// Returns whether the key is followed, or is about to be.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Returns whether an operation waits for the state of the key.
    pub(super) fn has_waiting(&self, key: &[u8]) -> bool {
        let followed = self.keys.get(key);
        followed.is_some_and(|followed| !followed.waiting_requests.is_empty())
    }

    /// Returns all followed keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.keys()
    }

    /// Records the state of a key at one moment; all later changes will be reported. Returns the operations that waited for it.
    pub(super) fn state_received(
        &mut self,
        key: &Bytes,
        record: Option<&Record>,
        floor: Version,
    ) -> Vec<Ticket> {
        // The second answer to a repeated request may be ahead of changes that are still to be reported.
        let Some(followed) = self
            .keys
            .get_mut(key)
            .filter(|followed| !followed.waiting_requests.is_empty())
        else {
            return Vec::new();
        };
        let found = last_state(record, floor);
        if followed
            .last
            .is_none_or(|last| last.version < found.version)
        {
            followed.last = Some(found);
        }
        std::mem::take(&mut followed.waiting_requests)
    }

    /// Records that the state of the key cannot be known. Returns the operations that waited for it.
    pub(super) fn state_unavailable(&mut self, key: &[u8]) -> Vec<Ticket> {
        let followed = self.keys.get_mut(key);
        followed.map_or_else(Vec::new, |it| std::mem::take(&mut it.waiting_requests))
    }

    /// Stops waiting for states, because none will be known soon. Returns the waiting operations, whose keys are not followed for them.
    pub(super) fn take_waiting(&mut self) -> Vec<Ticket> {
        let waiting = self.keys.values_mut();
        let waiting = waiting.flat_map(|followed| std::mem::take(&mut followed.waiting_requests));
        let mut waiting: Vec<_> = waiting.collect();
        // The order must be the same in each run of a seed.
        waiting.sort_unstable();
        waiting
    }

    /// Stops following the key. Operations that still waited for it are to be completed as well.
    pub(super) fn unfollow(&mut self, key: &[u8]) {
        if let Some(followed) = self.keys.remove(key) {
            self.released.extend(followed.waiting_requests);
        }
    }

    /// Returns whether [`take_released`](Self::take_released) returns any operation.
    pub(super) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Takes the operations that waited for a key until it was no longer followed. They miss no change.
    pub(super) fn take_released(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.released)
    }

    /// Reports a change of a key. Returns whether the change was reported.
    pub(super) fn changed(
        &mut self,
        key: &Bytes,
        record: &Record,
        events: &mut dyn EventSink,
    ) -> bool {
        let Some(followed) = self.keys.get_mut(key) else {
            return false;
        };
        let last = followed.last;
        if last.is_some_and(|last| last.version >= record.version) {
            return false;
        }
        followed.last = Some(last_state(Some(record), (0, 0)));
        // The entry was made and removed in a gap. An end is not reported if the entry was not.
        let is_removed_again = !record.is_entry() && last.is_some_and(|last| last.is_removed);
        let is_reported = followed.waiting_requests.is_empty() && !is_removed_again;
        if is_reported {
            followed.reported = followed.last;
            events.changed(&change_event(key, record));
        }
        is_reported
    }

    /// Marks the last seen states as possibly lost. Reported states stay reported.
    pub(super) fn mark_doubtful(&mut self) {
        for followed in self.keys.values_mut() {
            followed.last = followed.reported.or(followed.last);
        }
    }

    /// Reports the current state of a key after changes may have been missed.
    pub(super) fn caught_up(
        &mut self,
        key: &Bytes,
        record: Option<&Record>,
        floor: Version,
        events: &mut dyn EventSink,
    ) {
        if let Some(record) = record {
            self.changed(key, record, events);
            return;
        }
        if let Some(followed) = self.keys.get_mut(key)
            && let Some(last) = followed.last
            && !last.is_removed
        {
            // The tombstone was purged meanwhile, and the floor is at least its version. If the engine has lost both, the version must
            // still be later than the last one reported.
            let behind = (last.version.0, last.version.1.saturating_add(1));
            let version = floor.max(behind);
            followed.last = Some(LastState {
                version,
                is_removed: true,
            });
            followed.reported = followed.last;
            events.changed(&removal_event(key, version));
        }
    }
}

fn last_state(record: Option<&Record>, floor: Version) -> LastState {
    LastState {
        version: record.map_or(floor, |record| record.version),
        is_removed: !record.is_some_and(Record::is_entry),
    }
}

/// Reports a change whose key is not followed, or was not reported to its followers, to those of patterns.
pub(super) fn report_unfollowed(key: &Bytes, record: &Record, events: &mut dyn EventSink) {
    events.changed_unfollowed(&change_event(key, record));
}

fn change_event<'a>(key: &'a Bytes, record: &'a Record) -> ChangeEvent<'a> {
    let RecordContent::Entry {
        value,
        token,
        expiry,
    } = &record.content
    else {
        return removal_event(key, record.version);
    };
    ChangeEvent {
        key,
        version: record.version,
        state: EntryState::Set {
            value,
            token: token.as_ref(),
            expiry: *expiry,
            is_new: false,
        },
    }
}

fn removal_event(key: &Bytes, version: Version) -> ChangeEvent<'_> {
    ChangeEvent {
        key,
        version,
        state: EntryState::Removed { floor: version },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteId;
    use statestored_store::keyspace::Completion;

    /// A sink that collects the reported versions.
    #[derive(Default)]
    struct RecordingSink(Vec<u64>);

    impl EventSink for RecordingSink {
        fn changed(&mut self, change: &ChangeEvent<'_>) {
            self.0.push(change.version.0);
        }

        fn completed(&mut self, _ticket: Ticket, _end: Completion) {}

        fn add_work(&mut self, _steps: usize) {}
    }

    fn entry(version: u64) -> Record {
        let write = WriteId {
            process: 1,
            number: version,
        };
        Record {
            version: (version, 0),
            write,
            content: RecordContent::Entry {
                value: Bytes::new(),
                token: None,
                expiry: None,
            },
        }
    }

    /// Returns a state in which the key is followed since version 1.
    fn followed(key: &Bytes) -> FollowedKeys {
        let mut following = FollowedKeys::default();
        assert!(!following.follow(key, Ticket(1)));
        let waited = following.state_received(key, Some(&entry(1)), (0, 0));
        assert_eq!(waited, [Ticket(1)]);
        following
    }

    #[test]
    fn a_second_reply_hides_no_change() {
        let key = Bytes::from_static(b"key");
        let (mut following, mut ear) = (followed(&key), RecordingSink::default());
        let waited = following.state_received(&key, Some(&entry(3)), (0, 0));
        assert_eq!(waited, []);
        following.changed(&key, &entry(2), &mut ear);
        following.changed(&key, &entry(3), &mut ear);
        assert_eq!(ear.0, [2, 3]);
    }

    #[test]
    fn unreported_states_are_dropped_when_the_engine_loses_changes() {
        let key = Bytes::from_static(b"key");
        let removed = |version| Record {
            content: RecordContent::Tombstone,
            ..entry(version)
        };
        let (mut following, mut ear) = (followed(&key), RecordingSink::default());
        following.changed(&key, &removed(2), &mut ear);
        // The entry was made and removed in a gap.
        following.caught_up(&key, Some(&removed(5)), (0, 0), &mut ear);
        following.mark_doubtful();
        following.caught_up(&key, Some(&entry(4)), (0, 0), &mut ear);
        assert_eq!(ear.0, [2, 4]);
    }
}
