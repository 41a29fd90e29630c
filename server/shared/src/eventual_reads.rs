//! Eventual reads, which are answered from the record cache.
//!
//! Such an answer is a state that the key had. It is never older than what this node has answered or reported of the
//! key before. It requires that the watch was certainly not behind a moment ago, and that the key is cached. Otherwise,
//! the read goes to the engine like any other.
use super::SharedKeyspace;
use super::engine::{EngineRequestId, KeyState, Link, Revision, UNKNOWN_FLOOR};
use super::expiry_index::{RecordAge, RemainingTime};
use super::plan;
use super::record::{Record, RecordContent};
use bytes::Bytes;
use statestored_common::ClockReading;
use statestored_store::keyspace::rules::Operation;
use statestored_store::keyspace::{Completion, EntryView, Fence};

impl<L: Link> SharedKeyspace<L> {
    /// Returns the entry as it was when it was last read, if it is cached.
    pub(super) fn cached_entry_view(
        &self,
        key: &[u8],
        most_bytes: usize,
        now: ClockReading,
    ) -> Option<EntryView> {
        let (record, revision) = self.record_cache.peek(key)?.record.as_ref()?;
        let RecordContent::Entry { value, token, .. } = &record.content else {
            return None;
        };
        let expires_in_ms = match self.expiry_index.remaining(key, (record, *revision), now) {
            RemainingTime::NoExpiry => None,
            RemainingTime::Ms(left_ms) => Some(left_ms),
            RemainingTime::Unknown => return None,
        };
        Some(EntryView {
            value: value.slice(..value.len().min(most_bytes)),
            value_bytes: value.len(),
            version: record.version,
            fence: match token {
                None => Fence::None,
                Some(token) => Fence::Token(token.to_string()),
            },
            expires_in_ms,
            since_ms: None,
        })
    }

    /// Returns the outcome of an eventual read if the cache has it.
    pub(super) fn eventual_read(
        &mut self,
        key: &Bytes,
        operation: &Operation<'_>,
        now: ClockReading,
    ) -> Option<Completion> {
        let Operation::Get {
            eventual: true,
            remaining,
        } = *operation
        else {
            return None;
        };
        // A watch may be behind although it reports changes: they may be old ones.
        let age_ms = now.mono_ms.saturating_sub(self.complete_until_ms);
        if !self.is_live() || age_ms > self.config.max_staleness_ms {
            return None;
        }
        let seen = self.record_cache.state(key)?;
        // If the entry has expired, its tombstone has to be committed first.
        let end = plan::read_outcome((key, seen), remaining, &self.expiry_index, now)?;
        self.health.add_eventual_cache_hit();
        Some(end)
    }

    /// Records the states of keys in the answer to `ask`.
    pub(super) fn observe_keys(
        &mut self,
        ask: EngineRequestId,
        keys: &[Bytes],
        seen: &[KeyState],
        now: ClockReading,
    ) {
        let age = self.clock_comparison.age(now);
        for (key, seen) in keys.iter().zip(seen) {
            match &seen.record {
                Some((record, revision)) => {
                    self.highest_version = self.highest_version.max(record.version);
                    if !self.record_cache.observe(ask, key, seen) {
                        self.record_cache.changed(key, record, *revision);
                    }
                    self.expiry_index.observe(key, record, *revision, now, age);
                }
                // The moment of this answer is unknown.
                None if seen.floor == UNKNOWN_FLOOR => {}
                None => {
                    self.record_cache.observe(ask, key, seen);
                    self.expiry_index.observe_absence(key, seen.revision());
                }
            }
        }
    }

    /// Records a record that was seen.
    pub(super) fn observe_record(
        &mut self,
        key: &Bytes,
        record: &Record,
        revision: Revision,
        now: ClockReading,
        age: RecordAge,
    ) {
        self.highest_version = self.highest_version.max(record.version);
        self.record_cache.changed(key, record, revision);
        self.expiry_index.observe(key, record, revision, now, age);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expiry_index::RemainingTime;
    use crate::scripted_link::{KEY, Node, VALUE, key_state, now, record, value};
    use crate::{
        BUCKETS, CommitOutcome, EngineEvent, EngineKey, EngineRequest, RecordContent, Revision,
    };
    use smallvec::smallvec;
    use statestore_protocol::Reply;
    use statestored_storage::Expiry;
    use statestored_store::keyspace::{Keyspace, RequestContext, RequestDigest, Ticket};
    use std::time::Duration;

    #[test]
    fn a_cached_record_is_returned_for_ten_seconds_after_the_last_watch_progress() {
        let mut node = Node::new();
        assert_eq!(node.get(10_000), Some(value(4, &VALUE)));
        assert_eq!(node.get(10_001), None);
        let of_another_watch =
            EngineEvent::WatchProgress(EngineRequestId(node.watch.0 + 100), Duration::ZERO);
        node.advance(10_002, [of_another_watch]);
        assert_eq!(node.get(10_002), None);
        let two_seconds_ago = EngineEvent::WatchProgress(node.watch, Duration::from_secs(2));
        node.advance(12_003, [two_seconds_ago]);
        assert_eq!(node.get(20_003), Some(value(4, &VALUE)));
        assert_eq!(node.get(20_004), None);
        // The reported change may be old.
        let other = (Bytes::from_static(b"other"), Some(record(6, &VALUE)));
        let change = EngineEvent::Changes(node.watch, Revision(6), vec![other]);
        node.advance(20_005, [change]);
        assert_eq!(node.get(20_005), None);
    }

    #[test]
    fn the_cache_answers_with_reported_changes_and_not_after_a_gap() {
        let mut node = Node::new();
        let newer = Bytes::from_static(b"newer");
        let change = (KEY.clone(), Some(record(6, &newer)));
        node.advance(
            1,
            [EngineEvent::Changes(node.watch, Revision(6), vec![change])],
        );
        assert_eq!(node.get(1), Some(value(6, &newer)));
        node.advance(2, [EngineEvent::WatchLost(node.watch, None)]);
        assert_eq!(node.get(2), None);
    }

    #[test]
    fn an_eventual_read_is_not_older_than_a_reply_of_another_server() {
        let mut node = Node::new();
        assert_eq!(node.set(1), None);
        let (commit, ask) = node.remote.link.requests.pop().unwrap();
        assert!(matches!(ask, EngineRequest::Commit(_)), "{ask:?}");
        let made = Completion::Answered {
            reply: Reply::Ok,
            version: Some((6, 0)),
        };
        let kept = crate::stored_reply::encode(&made).unwrap();
        let ended = node.advance(
            2,
            [EngineEvent::Committed(
                commit,
                CommitOutcome::AlreadyAnswered(kept),
            )],
        );
        assert_eq!(ended, [made]);
        // The watch has not reported that change so far.
        assert_eq!(node.get(2), None);
    }

    #[test]
    fn a_watch_without_changes_completes_no_request() {
        let mut node = Node::new();
        assert_eq!(node.get(10_001), None);
        let read = node.take_request(&EngineRequest::Read(smallvec![KEY.clone()]));
        node.advance(10_002, [EngineEvent::Read(read, Err(None))]);
        // The next request follows long after that.
        node.advance(20_000, []);
        let ended = node.advance(
            20_000,
            [EngineEvent::WatchProgress(node.watch, Duration::ZERO)],
        );
        assert_eq!(ended, []);
    }

    #[test]
    fn a_read_without_a_floor_does_not_cache_an_absent_record() {
        let mut node = Node::new();
        let read = Operation::Get {
            remaining: false,
            eventual: false,
        };
        // Without the record cached at the beginning.
        node.remote
            .record_cache
            .invalidate(std::slice::from_ref(&KEY));
        assert_eq!(node.operate(1, &read), None);
        let look = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
        let nothing = KeyState {
            record: None,
            floor: UNKNOWN_FLOOR,
        };
        let ended = node.advance(1, [EngineEvent::Read(look, Ok(vec![nothing]))]);
        assert_eq!(ended, [Completion::reply(Reply::Nil)]);
        assert_eq!(node.set(2), None);
        node.take_request(&EngineRequest::Read(smallvec![KEY.clone()]));
        // The result of a read is cached as well.
        let mut node = Node::new();
        node.remote
            .record_cache
            .invalidate(std::slice::from_ref(&KEY));
        assert_eq!(node.operate(1, &read), None);
        let look = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
        let found = KeyState {
            floor: UNKNOWN_FLOOR,
            ..key_state(4, &VALUE)
        };
        let ended = node.advance(1, [EngineEvent::Read(look, Ok(vec![found]))]);
        assert_eq!(ended, [value(4, &VALUE)]);
        assert_eq!(node.set(2), None);
        let (_, ask) = node.remote.link.requests.pop().unwrap();
        let EngineRequest::Commit(unit) = ask else {
            panic!("{ask:?}")
        };
        let compared = [
            &EngineKey::Entry(KEY.clone()),
            &EngineKey::Reply(RequestDigest([7; 16])),
        ];
        assert!(unit.compares.iter().map(|(place, _)| place).eq(compared));
        assert_eq!(unit.compares[0].1, Revision(4));
    }

    #[test]
    fn a_commit_waits_up_to_a_second_for_the_watch() {
        let set = |node: &mut Node, mono_ms| {
            assert_eq!(node.set(mono_ms), None);
            let read = node.take_request(&EngineRequest::Read(smallvec![KEY.clone()]));
            node.advance(
                mono_ms,
                [EngineEvent::Read(read, Ok(vec![key_state(5, &VALUE)]))],
            );
        };
        let commits = |node: &Node| {
            let asks = &node.remote.link.requests;
            let commits = asks
                .iter()
                .filter(|(_, ask)| matches!(ask, EngineRequest::Commit(_)));
            commits.count()
        };
        let mut node = Node::new();
        node.advance(1, [EngineEvent::WatchLost(node.watch, None)]);
        set(&mut node, 50);
        node.advance(101, []);
        node.watch = node.take_request(&EngineRequest::Watch);
        assert_eq!(commits(&node), 0);
        let floors = vec![(0, 0); usize::from(BUCKETS)];
        node.advance(200, [EngineEvent::Synced(node.watch, Revision(5), floors)]);
        assert_eq!(commits(&node), 1);

        let mut node = Node::new();
        node.advance(1, [EngineEvent::WatchLost(node.watch, None)]);
        set(&mut node, 50);
        node.advance(1_000, []);
        assert_eq!((commits(&node), node.remote.next_ms()), (0, Some(1_001)));
        node.advance(1_001, []);
        assert_eq!(commits(&node), 1);
    }

    #[test]
    fn a_pending_follow_completes_when_the_key_is_unfollowed() {
        let mut node = Node::new();
        let other = Bytes::from_static(b"other");
        let context = RequestContext {
            ticket: Ticket(1),
            now: now(1),
            deadline_ms: None,
            digest: None,
        };
        assert_eq!(node.remote.follow(&context, &other), None);
        let read = node.take_request(&EngineRequest::Read(smallvec![other.clone()]));
        assert_ne!(node.remote.next_ms(), Some(0));
        node.remote.unfollow(&other);
        assert_eq!(node.remote.next_ms(), Some(0));
        assert_eq!(node.advance(1, []), [Completion::reply(Reply::Ok)]);
        assert_ne!(node.remote.next_ms(), Some(0));
        let late = node.advance(2, [EngineEvent::Read(read, Ok(vec![key_state(4, &VALUE)]))]);
        assert_eq!(late, []);
    }

    #[test]
    fn a_long_entry_has_the_remaining_time_that_the_wall_clocks_give() {
        let mut node = Node::new();
        assert_eq!(node.get(10_001), None);
        let read = node.take_request(&EngineRequest::Read(smallvec![KEY.clone()]));
        let mut seen = key_state(6, &VALUE);
        let expiry = Expiry {
            at_wall_ms: now(0).wall_ms + 120_000,
            ttl_ms: 1_200_000,
        };
        if let Some((record, _)) = &mut seen.record {
            record.content = RecordContent::Entry {
                value: VALUE.clone(),
                token: None,
                expiry: Some(expiry),
            };
        }
        let ending = seen.record.clone().unwrap().0;
        let answer = EngineEvent::Read(read, Ok(vec![seen]));
        assert_eq!(node.advance(10_001, [answer]), [value(6, &VALUE)]);
        // The two minutes, and the allowed difference of one.
        let left = node
            .remote
            .expiry_index
            .remaining(&KEY, (&ending, Revision(6)), now(10_001));
        assert_eq!(left, RemainingTime::Ms(180_000));
    }
}
