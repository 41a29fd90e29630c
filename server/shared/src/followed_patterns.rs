//! Patterns whose keys are followed: while there are any, all changes that the engine reports are reported.
use bytes::Bytes;
use statestored_store::keyspace::Ticket;
use std::collections::HashSet;

#[derive(Debug, Default)]
pub(super) struct FollowedPatterns {
    patterns: HashSet<Bytes>,
    /// Operations that wait for a watch of the engine.
    waiting: Vec<(Bytes, Ticket)>,
    /// Operations that waited for a pattern that is no longer followed.
    released: Vec<Ticket>,
    /// Whether changes may have been missed that were not reported as missed.
    has_gap: bool,
}

impl FollowedPatterns {
    /// Begins to follow a pattern. The operation waits unless the changes of the engine are known.
    pub(super) fn follow(&mut self, pattern: &Bytes, ticket: Ticket, is_live: bool) {
        // A slice of the message would keep the whole message.
        let pattern = Bytes::copy_from_slice(pattern);
        if !is_live {
            self.waiting.push((pattern.clone(), ticket));
        }
        self.patterns.insert(pattern);
    }

    /// Stops following a pattern. Operations that still waited for it are to be completed as well.
    pub(super) fn unfollow(&mut self, pattern: &[u8]) {
        self.patterns.remove(pattern);
        let waiting = self.waiting.extract_if(.., |(its, _)| *its == *pattern);
        self.released.extend(waiting.map(|(_, ticket)| ticket));
    }

    /// Returns whether no pattern is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether [`take_released`](Self::take_released) returns any operation.
    pub(super) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Takes the operations that waited for a pattern until it was no longer followed. They miss no change.
    pub(super) fn take_released(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.released)
    }

    /// Takes all operations that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<Ticket> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|(_, ticket)| ticket).collect()
    }

    /// Notes that changes may have been missed.
    pub(super) fn mark_gap(&mut self) {
        self.has_gap = !self.is_empty();
    }

    /// Returns whether missed changes are to be reported now, since all later changes are known.
    pub(super) fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.has_gap)
    }
}

#[cfg(test)]
mod tests {
    use crate::scripted_link::{KEY, Node, VALUE, key_state, record};
    use crate::{BUCKETS, EngineEvent, EngineRequest, Revision};
    use statestore_protocol::Reply;
    use statestored_store::keyspace::{Completion, Keyspace};

    /// Returns a change of the key at this revision, which is also its version.
    fn change(node: &Node, at: u64) -> EngineEvent {
        let change = (KEY.clone(), Some(record(at, &VALUE)));
        EngineEvent::Changes(node.watch, Revision(at), vec![change])
    }

    /// Loses the watch, and begins the next one, whose snapshot is of this revision.
    fn lose_watch(node: &mut Node, mono_ms: u64) {
        let lost = EngineEvent::WatchLost(node.watch, None);
        assert_eq!(node.reports(mono_ms, [lost]), []);
        assert_eq!(node.reports(mono_ms + 100, []), []);
        node.watch = node.take_request(&EngineRequest::Watch);
    }

    fn synced(node: &Node, at: u64) -> EngineEvent {
        let floors = vec![(0, 0); usize::from(BUCKETS)];
        EngineEvent::Synced(node.watch, Revision(at), floors)
    }

    #[test]
    fn each_change_is_reported_once_while_a_pattern_is_followed() {
        let mut node = Node::new();
        let early = change(&node, 6);
        assert_eq!(node.reports(1, [early]), [], "nothing is followed");
        let ok = Some(Completion::reply(Reply::Ok));
        assert_eq!(node.follow_pattern(1, b"k*"), ok);
        let next = change(&node, 7);
        assert_eq!(node.reports(2, [next.clone()]), [Some(7)]);
        assert_eq!(node.reports(2, [next]), [], "it is known");
        // The key is followed as well, and its state is not known yet.
        assert_eq!(node.follow(3), None);
        let read = node.take_request(&EngineRequest::Read([KEY.clone()].into_iter().collect()));
        let next = change(&node, 8);
        assert_eq!(node.reports(3, [next]), [Some(8)]);
        let state = EngineEvent::Read(read, Ok(vec![key_state(9, &VALUE)]));
        assert_eq!(node.reports(4, [state]), []);
        for at in 9..11 {
            let next = change(&node, at);
            assert_eq!(node.reports(5, [next]), [Some(at)]);
        }
        node.remote.unfollow(&KEY);
        node.remote.unfollow_pattern(b"k*");
        let last = change(&node, 11);
        assert_eq!(node.reports(6, [last]), []);
    }

    #[test]
    fn missed_changes_are_reported_when_later_changes_are_known() {
        let mut node = Node::new();
        node.follow_pattern(1, b"*");
        lose_watch(&mut node, 1);
        let snapshot = synced(&node, 9);
        assert_eq!(node.reports(102, [snapshot]), [None]);
        let next = change(&node, 10);
        assert_eq!(node.reports(103, [next]), [Some(10)]);
        node.remote.unfollow_pattern(b"*");
        lose_watch(&mut node, 104);
        let snapshot = synced(&node, 11);
        assert_eq!(node.reports(205, [snapshot]), [], "nothing is followed");
    }

    #[test]
    fn an_interruption_misses_no_change() {
        let mut node = Node::new();
        node.follow_pattern(1, b"*");
        let interrupted = EngineEvent::WatchInterrupted(node.watch);
        assert_eq!(node.reports(1, [interrupted]), []);
        let resumed = EngineEvent::WatchResumed(node.watch);
        let next = change(&node, 6);
        assert_eq!(node.reports(2, [resumed, next]), [Some(6)]);
    }

    #[test]
    fn a_pattern_without_a_watch_is_followed_when_there_is_one() {
        let mut node = Node::new();
        lose_watch(&mut node, 1);
        assert_eq!(node.follow_pattern(102, b"a*"), None);
        assert_eq!(node.follow_pattern(102, b"b*"), None);
        node.remote.unfollow_pattern(b"a*");
        let ok = Completion::reply(Reply::Ok);
        assert_eq!(node.remote.next_ms(), Some(0));
        assert_eq!(node.advance(103, []), std::slice::from_ref(&ok));
        let snapshot = synced(&node, 9);
        assert_eq!(node.advance(104, [snapshot]), [ok]);
    }
}
