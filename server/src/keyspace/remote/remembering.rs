//! Eventual reads, which are answered from the record cache.
//!
//! Such an answer is a state that the key had. It is never older than what this node has answered or reported of the
//! key before. It requires that the watch was certainly not behind a moment ago, and that the key is cached. Otherwise,
//! the read goes to the engine like any other.
use super::Remote;
use super::engine::{AskId, Link, Revision, Seen, UNKNOWN_FLOOR};
use super::plan;
use super::record::{Content, Record};
use super::sights::{Age, Remaining};
use crate::clock::Now;
use crate::keyspace::rules::Operation;
use crate::keyspace::{End, Fence, Look};
use bytes::Bytes;

impl<L: Link> Remote<L> {
    /// Returns the entry as it was when it was last read, if it is cached.
    pub(super) fn remembered_entry(&self, key: &[u8], most_bytes: usize, now: Now) -> Option<Look> {
        let (record, revision) = self.guesses.peek(key)?.record.as_ref()?;
        let Content::Entry { value, token, .. } = &record.content else {
            return None;
        };
        let expires_in_ms = match self.sights.remaining(key, (record, *revision), now) {
            Remaining::Endless => None,
            Remaining::Ms(left_ms) => Some(left_ms),
            Remaining::Unknown => return None,
        };
        Some(Look {
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
    pub(super) fn remembered(
        &mut self,
        key: &Bytes,
        operation: &Operation<'_>,
        now: Now,
    ) -> Option<End> {
        let Operation::Get {
            eventual: true,
            remaining,
        } = *operation
        else {
            return None;
        };
        // A watch may be behind although it reports changes: they may be old ones.
        let age_ms = now.mono_ms.saturating_sub(self.complete_ms);
        if !self.is_live() || age_ms > self.config.trust_ms {
            return None;
        }
        let seen = self.guesses.look(key)?;
        // If the entry has expired, its tombstone has to be committed first.
        let end = plan::look((key, seen), remaining, &self.sights, now)?;
        self.standing.remembered();
        Some(end)
    }

    /// Records the states of keys in the answer to `ask`.
    pub(super) fn saw_keys(&mut self, ask: AskId, keys: &[Bytes], seen: &[Seen], now: Now) {
        let age = self.clocks.age(now);
        for (key, seen) in keys.iter().zip(seen) {
            match &seen.record {
                Some((record, revision)) => {
                    self.highest = self.highest.max(record.version);
                    if !self.guesses.saw(ask, key, seen) {
                        self.guesses.changed(key, record, *revision);
                    }
                    self.sights.saw(key, record, *revision, now, age);
                }
                // The moment of this answer is unknown.
                None if seen.floor == UNKNOWN_FLOOR => {}
                None => {
                    self.guesses.saw(ask, key, seen);
                    self.sights.saw_none(key, seen.revision());
                }
            }
        }
    }

    /// Records a record that was seen.
    pub(super) fn saw(
        &mut self,
        key: &Bytes,
        record: &Record,
        revision: Revision,
        now: Now,
        age: Age,
    ) {
        self.highest = self.highest.max(record.version);
        self.guesses.changed(key, record, revision);
        self.sights.saw(key, record, revision, now, age);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::remote::scripted::{KEY, Node, VALUE, now, record, seen, value};
    use crate::keyspace::remote::sights::Remaining;
    use crate::keyspace::remote::{Ask, BUCKETS, Content, News, Place, Revision, Verdict};
    use crate::keyspace::{Asked, Keyspace, RequestDigest, Ticket};
    use crate::storage::Expiry;
    use smallvec::smallvec;
    use statestore_protocol::Reply;
    use std::time::Duration;

    #[test]
    fn what_is_remembered_is_good_for_ten_seconds_after_all_changes_were_certainly_known() {
        let mut node = Node::new();
        assert_eq!(node.get(10_000), Some(value(4, &VALUE)));
        assert_eq!(node.get(10_001), None);
        let of_another_watch = News::Watching(AskId(node.watch.0 + 100), Duration::ZERO);
        node.advance(10_002, [of_another_watch]);
        assert_eq!(node.get(10_002), None);
        let two_seconds_ago = News::Watching(node.watch, Duration::from_secs(2));
        node.advance(12_003, [two_seconds_ago]);
        assert_eq!(node.get(20_003), Some(value(4, &VALUE)));
        assert_eq!(node.get(20_004), None);
        // The reported change may be old.
        let other = (Bytes::from_static(b"other"), Some(record(6, &VALUE)));
        let change = News::Changes(node.watch, Revision(6), vec![other]);
        node.advance(20_005, [change]);
        assert_eq!(node.get(20_005), None);
    }

    #[test]
    fn a_change_is_answered_once_it_is_told_and_nothing_once_some_may_be_missed() {
        let mut node = Node::new();
        let newer = Bytes::from_static(b"newer");
        let change = (KEY.clone(), Some(record(6, &newer)));
        node.advance(1, [News::Changes(node.watch, Revision(6), vec![change])]);
        assert_eq!(node.get(1), Some(value(6, &newer)));
        node.advance(2, [News::WatchLost(node.watch, None)]);
        assert_eq!(node.get(2), None);
    }

    #[test]
    fn the_answer_of_another_server_is_not_gone_back_behind() {
        let mut node = Node::new();
        assert_eq!(node.set(1), None);
        let (commit, ask) = node.remote.link.asks.pop().unwrap();
        assert!(matches!(ask, Ask::Commit(_)), "{ask:?}");
        let made = End::Answered {
            reply: Reply::Ok,
            version: Some((6, 0)),
        };
        let kept = super::super::answer::encode(&made).unwrap();
        let ended = node.advance(2, [News::Committed(commit, Verdict::Answered(kept))]);
        assert_eq!(ended, [made]);
        // The watch has not reported that change so far.
        assert_eq!(node.get(2), None);
    }

    #[test]
    fn a_watch_that_has_nothing_to_tell_ends_no_request() {
        let mut node = Node::new();
        assert_eq!(node.get(10_001), None);
        let read = node.asked(&Ask::Read(smallvec![KEY.clone()]));
        node.advance(10_002, [News::Read(read, Err(None))]);
        // The next request follows long after that.
        node.advance(20_000, []);
        let ended = node.advance(20_000, [News::Watching(node.watch, Duration::ZERO)]);
        assert_eq!(ended, []);
    }

    #[test]
    fn a_read_looks_at_no_floor_and_what_it_does_not_find_is_no_guess() {
        let mut node = Node::new();
        let read = Operation::Get {
            remaining: false,
            eventual: false,
        };
        // Without the record cached at the beginning.
        node.remote.guesses.doubt(std::slice::from_ref(&KEY));
        assert_eq!(node.operate(1, &read), None);
        let look = node.asked(&Ask::Look(KEY.clone()));
        let nothing = Seen {
            record: None,
            floor: UNKNOWN_FLOOR,
        };
        let ended = node.advance(1, [News::Read(look, Ok(vec![nothing]))]);
        assert_eq!(ended, [End::reply(Reply::Nil)]);
        assert_eq!(node.set(2), None);
        node.asked(&Ask::Read(smallvec![KEY.clone()]));
        // The result of a read is cached as well.
        let mut node = Node::new();
        node.remote.guesses.doubt(std::slice::from_ref(&KEY));
        assert_eq!(node.operate(1, &read), None);
        let look = node.asked(&Ask::Look(KEY.clone()));
        let found = Seen {
            floor: UNKNOWN_FLOOR,
            ..seen(4, &VALUE)
        };
        let ended = node.advance(1, [News::Read(look, Ok(vec![found]))]);
        assert_eq!(ended, [value(4, &VALUE)]);
        assert_eq!(node.set(2), None);
        let (_, ask) = node.remote.link.asks.pop().unwrap();
        let Ask::Commit(unit) = ask else {
            panic!("{ask:?}")
        };
        let compared = [
            &Place::Entry(KEY.clone()),
            &Place::Answer(RequestDigest([7; 16])),
        ];
        assert!(unit.compares.iter().map(|(place, _)| place).eq(compared));
        assert_eq!(unit.compares[0].1, Revision(4));
    }

    #[test]
    fn a_change_waits_for_the_watch_for_a_second() {
        let set = |node: &mut Node, mono_ms| {
            assert_eq!(node.set(mono_ms), None);
            let read = node.asked(&Ask::Read(smallvec![KEY.clone()]));
            node.advance(mono_ms, [News::Read(read, Ok(vec![seen(5, &VALUE)]))]);
        };
        let commits = |node: &Node| {
            let asks = &node.remote.link.asks;
            let commits = asks.iter().filter(|(_, ask)| matches!(ask, Ask::Commit(_)));
            commits.count()
        };
        let mut node = Node::new();
        node.advance(1, [News::WatchLost(node.watch, None)]);
        set(&mut node, 50);
        node.advance(101, []);
        node.watch = node.asked(&Ask::Watch);
        assert_eq!(commits(&node), 0);
        let floors = vec![(0, 0); usize::from(BUCKETS)];
        node.advance(200, [News::Synced(node.watch, Revision(5), floors)]);
        assert_eq!(commits(&node), 1);

        let mut node = Node::new();
        node.advance(1, [News::WatchLost(node.watch, None)]);
        set(&mut node, 50);
        node.advance(1_000, []);
        assert_eq!((commits(&node), node.remote.next_ms()), (0, Some(1_001)));
        node.advance(1_001, []);
        assert_eq!(commits(&node), 1);
    }

    #[test]
    fn whoever_waits_for_a_watch_that_nobody_wants_any_more_is_told_so() {
        let mut node = Node::new();
        let other = Bytes::from_static(b"other");
        let asked = Asked {
            ticket: Ticket(1),
            now: now(1),
            deadline_ms: None,
            request: None,
        };
        assert_eq!(node.remote.follow(&asked, &other), None);
        let read = node.asked(&Ask::Read(smallvec![other.clone()]));
        assert_ne!(node.remote.next_ms(), Some(0));
        node.remote.unfollow(&other);
        assert_eq!(node.remote.next_ms(), Some(0));
        assert_eq!(node.advance(1, []), [End::reply(Reply::Ok)]);
        assert_ne!(node.remote.next_ms(), Some(0));
        let late = node.advance(2, [News::Read(read, Ok(vec![seen(4, &VALUE)]))]);
        assert_eq!(late, []);
    }

    #[test]
    fn a_long_entry_that_is_read_has_as_much_time_left_as_the_wall_clocks_say() {
        let mut node = Node::new();
        assert_eq!(node.get(10_001), None);
        let read = node.asked(&Ask::Read(smallvec![KEY.clone()]));
        let mut seen = seen(6, &VALUE);
        let expiry = Expiry {
            at_wall_ms: now(0).wall_ms + 120_000,
            ttl_ms: 1_200_000,
        };
        if let Some((record, _)) = &mut seen.record {
            record.content = Content::Entry {
                value: VALUE.clone(),
                token: None,
                expiry: Some(expiry),
            };
        }
        let ending = seen.record.clone().unwrap().0;
        let answer = News::Read(read, Ok(vec![seen]));
        assert_eq!(node.advance(10_001, [answer]), [value(6, &VALUE)]);
        // The two minutes, and the allowed difference of one.
        let left = node
            .remote
            .sights
            .remaining(&KEY, (&ending, Revision(6)), now(10_001));
        assert_eq!(left, Remaining::Ms(180_000));
    }
}
