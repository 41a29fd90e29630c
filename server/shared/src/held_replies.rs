//! Outcomes that are held back until the watch has reported the change, because the key is followed here. The watch reports a change later
//! than the engine answers. A client that makes a change and then stops following the key would otherwise miss the notification.
use super::engine::{CommitOutcome, EngineRequestId, Link, Revision};
use super::expiry_index::RecordAge;
use super::{COMMIT_HOLD_MS, SharedKeyspace};
use statestored_common::ClockReading;
use statestored_store::keyspace::{Completion, Ticket};

/// Outcomes that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct HeldReplies {
    held: Vec<HeldReply>,
    ready: Vec<(Ticket, Completion)>,
}

/// Outcomes of a change at this revision. They are released when the watch has reported it, or at the latest at this time.
#[derive(Debug)]
struct HeldReply {
    revision: Revision,
    until_ms: u64,
    completions: Vec<(Ticket, Completion)>,
}

impl HeldReplies {
    /// Returns whether [`take_ready`](Self::take_ready) returns any outcome.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the outcomes that are to be reported now.
    pub(super) fn take_ready(&mut self) -> Vec<(Ticket, Completion)> {
        std::mem::take(&mut self.ready)
    }

    /// Returns the time of the next release without a report of the watch.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.held.iter().map(|waiting| waiting.until_ms).min()
    }

    /// Releases the outcomes that need not wait for the watch any longer. `known` is the revision up to which all changes are known; `None`
    /// if no watch reports changes.
    fn release(&mut self, known: Option<Revision>, now: ClockReading) {
        let is_over = |waiting: &mut HeldReply| {
            waiting.until_ms <= now.mono_ms || known.is_none_or(|at| at >= waiting.revision)
        };
        for waiting in self.held.extract_if(.., is_over) {
            self.ready.extend(waiting.completions);
        }
    }
}

impl<L: Link> SharedKeyspace<L> {
    pub(super) fn commit_answered(
        &mut self,
        ask: EngineRequestId,
        verdict: CommitOutcome,
        now: ClockReading,
    ) {
        let mut told_at = None;
        match &verdict {
            CommitOutcome::Committed(revision) => {
                for (key, record) in self.tasks.records_of(ask) {
                    if self.followed_keys.contains(&key) {
                        told_at = Some(*revision);
                    }
                    self.observe_record(&key, &record, *revision, now, RecordAge::New);
                }
            }
            CommitOutcome::Conflict(seen) => {
                let keys = self.tasks.keys_of(ask);
                // The commit of a read compares only the keys that have expired.
                if seen.len() == keys.len() {
                    self.observe_keys(ask, &keys, seen, now);
                }
            }
            // The answer shows that a change was made whose record was not seen.
            CommitOutcome::AlreadyAnswered(_) => {
                self.record_cache.invalidate(&self.tasks.keys_of(ask));
            }
            CommitOutcome::Failed(_) | CommitOutcome::Unknown | CommitOutcome::NotSent => {}
        }
        let known = self.known_revision();
        let is_own = self.link.sends_once();
        let stamps = self.version_clock(now);
        let earlier = self.tasks.take_completed();
        self.held_replies.ready.extend(earlier);
        self.tasks
            .commit_answered(ask, verdict, (known, is_own), &self.expiry_index, stamps);
        let ended = self.tasks.take_completed();
        match (told_at, known) {
            (Some(revision), Some(at)) if at < revision && !ended.is_empty() => {
                self.held_replies.held.push(HeldReply {
                    revision,
                    until_ms: now.mono_ms + COMMIT_HOLD_MS,
                    completions: ended,
                });
            }
            _ => self.held_replies.ready.extend(ended),
        }
    }

    /// Returns whether there are outcomes to report.
    pub(super) fn has_completions(&self) -> bool {
        self.tasks.has_completed() || self.held_replies.has_ready() || self.has_released_follows()
    }

    /// Returns whether operations waited for a key or a pattern that is no longer followed.
    pub(super) fn has_released_follows(&self) -> bool {
        self.followed_keys.has_released() || self.followed_patterns.has_released()
    }

    /// Releases the outcomes that have waited long enough for the watch.
    pub(super) fn release_held_replies(&mut self, now: ClockReading) {
        self.held_replies.release(self.known_revision(), now);
    }
}

#[cfg(test)]
mod tests {
    use crate::scripted_link::{KEY, Node, VALUE, key_state, record};
    use crate::{CommitOutcome, EngineEvent, EngineRequest, EngineRequestId, Revision};
    use statestore_protocol::Reply;
    use statestored_store::keyspace::{Completion, Keyspace};

    /// Makes a change of a key, which is followed if `is_followed`. The engine makes it at revision 6.
    fn change_key(is_followed: bool) -> (Node, Vec<Completion>) {
        let mut node = Node::new();
        if is_followed {
            assert_eq!(node.follow(1), None);
            let read = node.take_request(&EngineRequest::Read([KEY.clone()].into_iter().collect()));
            let ended = node.advance(1, [EngineEvent::Read(read, Ok(vec![key_state(4, &VALUE)]))]);
            assert_eq!(ended, [Completion::reply(Reply::Ok)]);
        }
        assert_eq!(node.set(1), None);
        let commit = start_commit(&mut node);
        let made = EngineEvent::Committed(commit, CommitOutcome::Committed(Revision(6)));
        let ended = node.advance(2, [made]);
        (node, ended)
    }

    fn start_commit(node: &mut Node) -> EngineRequestId {
        let (commit, ask) = node.remote.link.requests.pop().unwrap();
        assert!(matches!(ask, EngineRequest::Commit(_)), "{ask:?}");
        commit
    }

    #[test]
    fn a_change_of_a_followed_key_is_answered_with_its_notification() {
        let (mut node, ended) = change_key(true);
        assert_eq!(ended, []);
        let other = (b"other".to_vec().into(), Some(record(5, &VALUE)));
        let before = EngineEvent::Changes(node.watch, Revision(5), vec![other]);
        assert_eq!(node.advance(3, [before]), []);
        let change = (KEY.clone(), Some(record(6, &VALUE)));
        let events = EngineEvent::Changes(node.watch, Revision(6), vec![change]);
        assert_eq!(node.advance(4, [events]).len(), 1);
    }

    #[test]
    fn a_change_of_another_key_is_answered_at_once() {
        let (_, ended) = change_key(false);
        assert_eq!(ended.len(), 1);
    }

    #[test]
    fn a_reply_does_not_wait_for_a_lost_watch_nor_long_for_a_slow_one() {
        let (mut node, ended) = change_key(true);
        assert_eq!(ended, []);
        let lost = EngineEvent::WatchLost(node.watch, None);
        assert_eq!(node.advance(3, [lost]).len(), 1);
        let (mut node, ended) = change_key(true);
        assert_eq!(ended, []);
        assert_eq!(node.remote.next_ms(), Some(1_002));
        assert_eq!(node.advance(1_001, []), []);
        assert_eq!(node.advance(1_002, []).len(), 1);
    }
}
