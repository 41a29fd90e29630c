//! Watch over the changes of the engine: a snapshot, and then each change. If changes may have been missed, the watch
//! begins again.
use super::engine::{
    EngineError, EngineRequest, EngineRequestId, KeyState, KeyedRecord, Link, Revision,
};
use super::expiry_index::RecordAge;
use super::record::Record;
use super::{REQUEST_RETRY_MS, Retry, SharedKeyspace, bucket_of, followed_keys, plan};
use bytes::Bytes;
use smallvec::smallvec;
use statestore_protocol::Reply;
use statestored_common::ClockReading;
use statestored_store::keyspace::rules::Version;
use statestored_store::keyspace::{Completion, EventSink};
use std::collections::{HashMap, HashSet};

/// Time in milliseconds between the loss of a watch and the beginning of the next one.
const WATCH_RETRY_MS: u64 = 100;

/// The same time if the watch was lost for a permanent reason.
const PERMANENT_RETRY_MS: u64 = 5_000;

/// The progress of the watch.
#[derive(Debug)]
pub(super) enum EngineWatch {
    /// No watch is in progress; the next one begins at this time.
    Scheduled(u64),
    /// The snapshot is being read. Contains its parts that matter later.
    Snapshot {
        request_id: EngineRequestId,
        followed: HashMap<Bytes, Record>,
        expiring: HashSet<Bytes>,
    },
    /// All changes up to this revision are known. Later ones are reported, except during an interruption.
    Live {
        request_id: EngineRequestId,
        revision: Revision,
        is_interrupted: bool,
    },
}

impl<L: Link> SharedKeyspace<L> {
    /// Returns whether all changes of the engine are known, or will be: none was missed.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.watch, EngineWatch::Live { .. })
    }

    /// Returns whether all changes of the engine are known as they happen.
    pub fn is_watched(&self) -> bool {
        matches!(
            self.watch,
            EngineWatch::Live {
                is_interrupted: false,
                ..
            }
        )
    }

    /// Returns whether the current watch was requested with this id.
    pub(super) fn is_current_watch(&self, ask: EngineRequestId) -> bool {
        matches!(self.watch, EngineWatch::Live { request_id: live, .. } if live == ask)
    }

    /// Returns the revision up to which all changes are known.
    pub(super) fn known_revision(&self) -> Option<Revision> {
        match self.watch {
            EngineWatch::Live { revision: at, .. } => Some(at),
            _ => None,
        }
    }

    pub(super) fn watch_interrupted(&mut self, from: EngineRequestId, now_broken: bool) {
        if let EngineWatch::Live {
            request_id: ask,
            is_interrupted: is_broken,
            ..
        } = &mut self.watch
            && *ask == from
        {
            *is_broken = now_broken;
        }
    }

    pub(super) fn watch_lost(
        &mut self,
        lost: EngineRequestId,
        error: Option<EngineError>,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) {
        let (EngineWatch::Snapshot {
            request_id: ask, ..
        }
        | EngineWatch::Live {
            request_id: ask, ..
        }) = self.watch
        else {
            return;
        };
        if ask != lost {
            return;
        }
        let pause_ms = match error {
            Some(error) => {
                let refused = plan::rejection(&error);
                self.reject_pending_follows(&refused, events);
                PERMANENT_RETRY_MS
            }
            None => WATCH_RETRY_MS,
        };
        self.missed_changes(now.mono_ms + pause_ms);
    }

    /// Ends the watch because changes may have been missed. The next one begins at `watch_at_ms`.
    pub(super) fn missed_changes(&mut self, watch_at_ms: u64) {
        self.watch = EngineWatch::Scheduled(watch_at_ms);
        self.tasks.missed_changes();
        self.read_unconfirmed_from_engine();
        self.record_cache.clear();
        self.followed_keys.clear_requested();
        self.followed_patterns.mark_gap();
    }

    pub(super) fn request_followed(&mut self, key: &Bytes) {
        // Without a watch, the engine request follows when there is one.
        if self.is_live() {
            let ask = self.request(EngineRequest::Read(smallvec![key.clone()]));
            self.followed_keys.state_requested(ask, key.clone());
        }
    }

    pub(super) fn followed_state_received(
        &mut self,
        ask: EngineRequestId,
        key: &Bytes,
        result: Result<Vec<KeyState>, Option<EngineError>>,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) {
        let mut seen = match result {
            Ok(seen) => seen,
            Err(Some(error)) => {
                let refused = plan::rejection(&error);
                for ticket in self.followed_keys.state_unavailable(key) {
                    events.completed(ticket, refused.clone());
                }
                return;
            }
            Err(None) => {
                let again = Retry::Follow(key.clone());
                self.retries.push((now.mono_ms + REQUEST_RETRY_MS, again));
                return;
            }
        };
        self.observe_keys(ask, std::slice::from_ref(key), &seen, now);
        let Some(seen) = seen.pop() else { return };
        let record = seen.record.as_ref().map(|(record, _)| record);
        for ticket in self.followed_keys.state_received(key, record, seen.floor.0) {
            events.completed(ticket, Completion::reply(Reply::Ok));
        }
    }

    pub(super) fn changes_received(
        &mut self,
        ask: EngineRequestId,
        at: Revision,
        changes: Vec<(Bytes, Option<Record>)>,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) {
        let EngineWatch::Live {
            request_id: live,
            revision: known,
            ..
        } = &mut self.watch
        else {
            return;
        };
        if ask != *live || at <= *known {
            return;
        }
        *known = at;
        for (key, record) in changes {
            let Some(record) = record else {
                self.expiry_index.observe_absence(&key, at);
                self.record_cache.purged(&key, at);
                continue;
            };
            self.observe_record(&key, &record, at, now, RecordAge::New);
            self.tasks.observe_write(record.write);
            if !self.followed_keys.changed(&key, &record, events)
                && !self.followed_patterns.is_empty()
            {
                followed_keys::report_unfollowed(&key, &record, events);
            }
        }
        let stamps = self.version_clock(now);
        self.tasks.settle(at, &self.expiry_index, stamps);
        self.confirm_until(at, now);
    }

    pub(super) fn snapshot_received(
        &mut self,
        from: EngineRequestId,
        records: Vec<KeyedRecord>,
        now: ClockReading,
    ) {
        let EngineWatch::Snapshot {
            request_id: ask,
            followed,
            expiring: ending,
        } = &mut self.watch
        else {
            return;
        };
        if *ask != from {
            return;
        }
        for found in records {
            let KeyedRecord {
                key,
                record,
                revision,
            } = found;
            self.highest_version = self.highest_version.max(record.version);
            let age = self.clock_comparison.age(now);
            self.expiry_index.observe(&key, &record, revision, now, age);
            if record.expiry().is_some() || !record.is_entry() {
                ending.insert(key.clone());
            }
            if self.followed_keys.contains(&key) {
                followed.insert(key, record);
            }
        }
    }

    pub(super) fn snapshot_completed(
        &mut self,
        from: EngineRequestId,
        at: Revision,
        floors: &[Version],
        now: ClockReading,
        events: &mut dyn EventSink,
    ) {
        let watch = std::mem::replace(&mut self.watch, EngineWatch::Scheduled(now.mono_ms));
        let EngineWatch::Snapshot {
            request_id: ask,
            mut followed,
            expiring: ending,
        } = watch
        else {
            self.watch = watch;
            return;
        };
        if ask != from {
            self.watch = EngineWatch::Snapshot {
                request_id: ask,
                followed,
                expiring: ending,
            };
            return;
        }
        self.watch = EngineWatch::Live {
            request_id: ask,
            revision: at,
            is_interrupted: false,
        };
        self.complete_until_ms = now.mono_ms;
        // The answers so far may have changed before the snapshot.
        self.record_cache.clear();
        let known: Vec<_> = self.expiry_index.keys_up_to(at).cloned().collect();
        for key in known.iter().filter(|key| !ending.contains(*key)) {
            self.expiry_index.observe_absence(key, at);
        }
        let mut keys: Vec<_> = self.followed_keys.keys().cloned().collect();
        // The order must be the same in each run of a seed.
        keys.sort_unstable();
        for key in keys {
            // A key that was followed during the snapshot may have been followed after its record was read.
            if self.followed_keys.has_waiting(&key) {
                self.request_followed(&key);
                continue;
            }
            let record = followed.remove(&key);
            let floor = floors.get(usize::from(bucket_of(&key)));
            let floor = floor.copied().unwrap_or_default();
            self.followed_keys
                .caught_up(&key, record.as_ref(), floor, events);
        }
        // From here on, all changes behind the snapshot are reported: a client that reads now misses none.
        if self.followed_patterns.take_gap() {
            events.changes_missed();
        }
        for ticket in self.followed_patterns.take_waiting() {
            events.completed(ticket, Completion::reply(Reply::Ok));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scripted_link::{KEY, Node, VALUE, key_state, record};
    use crate::{CommitOutcome, EngineEvent, EngineRequest, EngineRequestId, Revision};
    use statestored_store::keyspace::{Completion, Keyspace};

    /// Returns a node with a change whose answer was lost, and whose copy the engine refuses at revision 6.
    fn node_with_conflict() -> Node {
        let mut node = Node::new();
        node.request = None;
        assert_eq!(node.set(1), None);
        let (commit, ask) = node.remote.link.requests.pop().unwrap();
        let EngineRequest::Commit(unit) = ask else {
            panic!("{ask:?}")
        };
        assert_eq!(
            node.advance(2, [EngineEvent::Committed(commit, CommitOutcome::Unknown)]),
            []
        );
        assert_eq!(node.advance(100, []), []);
        let copy = node.take_request(&EngineRequest::Commit(unit));
        let verdict = CommitOutcome::Conflict(vec![key_state(6, &VALUE)]);
        assert_eq!(
            node.advance(101, [EngineEvent::Committed(copy, verdict)]),
            []
        );
        node
    }

    #[test]
    fn a_conflict_during_an_interruption_is_settled_when_the_watch_resumes() {
        let mut node = node_with_conflict();
        assert_eq!(
            node.advance(102, [EngineEvent::WatchInterrupted(node.watch)]),
            []
        );
        assert!(!node.remote.is_watched());
        assert_eq!(
            node.remote.engine_metrics().map(|it| it.is_watched),
            Some(false),
            "as it is told"
        );
        let ended = node.advance(5_000, [EngineEvent::WatchResumed(node.watch)]);
        assert_eq!(ended, []);
        assert!(node.remote.is_watched() && node.remote.link.requests.is_empty());
        // The commit's own copy was not made: the task decides again on the current state.
        let change = (KEY.clone(), Some(record(6, &VALUE)));
        let events = EngineEvent::Changes(node.watch, Revision(6), vec![change]);
        assert_eq!(node.advance(5_001, [events]), []);
        let (_, ask) = node.remote.link.requests.pop().unwrap();
        assert!(matches!(ask, EngineRequest::Commit(_)), "{ask:?}");
    }

    #[test]
    fn a_conflict_has_an_unknown_outcome_if_the_watch_is_lost() {
        let mut node = node_with_conflict();
        assert_eq!(
            node.advance(102, [EngineEvent::WatchInterrupted(node.watch)]),
            []
        );
        let ended = node.advance(5_000, [EngineEvent::WatchLost(node.watch, None)]);
        assert_eq!(ended, [Completion::Unknown]);
        assert!(!node.remote.is_watched());
    }

    #[test]
    fn only_the_current_watch_can_be_interrupted() {
        let mut node = Node::new();
        let other = EngineRequestId(u64::MAX);
        node.advance(1, [EngineEvent::WatchInterrupted(other)]);
        assert!(node.remote.is_watched());
        node.advance(1, [EngineEvent::WatchInterrupted(node.watch)]);
        node.advance(1, [EngineEvent::WatchResumed(other)]);
        assert!(!node.remote.is_watched());
    }
}
