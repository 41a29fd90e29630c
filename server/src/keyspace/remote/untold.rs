//! Outcomes that are held back until the watch has reported the change, because the key is followed here. The watch reports a change later
//! than the engine answers. A client that makes a change and then stops following the key would otherwise miss the notification.
use super::engine::{AskId, Link, Revision, Verdict};
use super::sights::Age;
use super::{HOLD_MS, Remote};
use crate::clock::Now;
use crate::keyspace::{End, Ticket};

/// Outcomes that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct Untold {
    waiting: Vec<Waiting>,
    ready: Vec<(Ticket, End)>,
}

/// Outcomes of a change at this revision. They are released when the watch has reported it, or at the latest at this time.
#[derive(Debug)]
struct Waiting {
    revision: Revision,
    until_ms: u64,
    ended: Vec<(Ticket, End)>,
}

impl Untold {
    /// Returns whether [`take_ready`](Self::take_ready) returns any outcome.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the outcomes that are to be reported now.
    pub(super) fn take_ready(&mut self) -> Vec<(Ticket, End)> {
        std::mem::take(&mut self.ready)
    }

    /// Returns the time of the next release without a report of the watch.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.until_ms).min()
    }

    /// Releases the outcomes that need not wait for the watch any longer. `known` is the revision up to which all changes are known; `None`
    /// if no watch reports changes.
    fn release(&mut self, known: Option<Revision>, now: Now) {
        let is_over = |waiting: &mut Waiting| {
            waiting.until_ms <= now.mono_ms || known.is_none_or(|at| at >= waiting.revision)
        };
        for waiting in self.waiting.extract_if(.., is_over) {
            self.ready.extend(waiting.ended);
        }
    }
}

impl<L: Link> Remote<L> {
    pub(super) fn committed(&mut self, ask: AskId, verdict: Verdict, now: Now) {
        let mut told_at = None;
        match &verdict {
            Verdict::Done(revision) => {
                for (key, record) in self.tasks.records_of(ask) {
                    if self.following.has(&key) {
                        told_at = Some(*revision);
                    }
                    self.saw(&key, &record, *revision, now, Age::New);
                }
            }
            Verdict::Refused(seen) => self.saw_keys(ask, &self.tasks.keys_of(ask), seen, now),
            // The answer shows that a change was made whose record was not seen.
            Verdict::Answered(_) => self.guesses.doubt(&self.tasks.keys_of(ask)),
            Verdict::Failed(_) | Verdict::Unclear | Verdict::Unsent => {}
        }
        let known = self.known();
        let is_own = self.link.sends_once();
        let stamps = self.stamps(now);
        let earlier = self.tasks.take_ended();
        self.untold.ready.extend(earlier);
        self.tasks
            .committed(ask, verdict, (known, is_own), &self.sights, stamps);
        let ended = self.tasks.take_ended();
        match (told_at, known) {
            (Some(revision), Some(at)) if at < revision && !ended.is_empty() => {
                self.untold.waiting.push(Waiting {
                    revision,
                    until_ms: now.mono_ms + HOLD_MS,
                    ended,
                });
            }
            _ => self.untold.ready.extend(ended),
        }
    }

    /// Returns whether there are outcomes to report.
    pub(super) fn has_ended(&self) -> bool {
        self.tasks.has_ended() || self.untold.has_ready() || self.following.has_released()
    }

    /// Releases the outcomes that have waited long enough for the watch.
    pub(super) fn release_untold(&mut self, now: Now) {
        self.untold.release(self.known(), now);
    }
}

#[cfg(test)]
mod tests {
    use crate::keyspace::remote::scripted::{KEY, Node, VALUE, record, seen};
    use crate::keyspace::remote::{Ask, AskId, News, Revision, Verdict};
    use crate::keyspace::{End, Keyspace};
    use statestore_protocol::Reply;

    /// Makes a change of a key, which is followed if `is_followed`. The engine makes it at revision 6.
    fn changed(is_followed: bool) -> (Node, Vec<End>) {
        let mut node = Node::new();
        if is_followed {
            assert_eq!(node.follow(1), None);
            let read = node.asked(&Ask::Read([KEY.clone()].into_iter().collect()));
            let ended = node.advance(1, [News::Read(read, Ok(vec![seen(4, &VALUE)]))]);
            assert_eq!(ended, [End::reply(Reply::Ok)]);
        }
        assert_eq!(node.set(1), None);
        let commit = committing(&mut node);
        let made = News::Committed(commit, Verdict::Done(Revision(6)));
        let ended = node.advance(2, [made]);
        (node, ended)
    }

    fn committing(node: &mut Node) -> AskId {
        let (commit, ask) = node.remote.link.asks.pop().unwrap();
        assert!(matches!(ask, Ask::Commit(_)), "{ask:?}");
        commit
    }

    #[test]
    fn a_change_of_a_key_that_is_followed_is_answered_with_its_notification() {
        let (mut node, ended) = changed(true);
        assert_eq!(ended, []);
        let other = (b"other".to_vec().into(), Some(record(5, &VALUE)));
        let before = News::Changes(node.watch, Revision(5), vec![other]);
        assert_eq!(node.advance(3, [before]), []);
        let change = (KEY.clone(), Some(record(6, &VALUE)));
        let told = News::Changes(node.watch, Revision(6), vec![change]);
        assert_eq!(node.advance(4, [told]).len(), 1);
    }

    #[test]
    fn a_change_of_another_key_is_answered_at_once() {
        let (_, ended) = changed(false);
        assert_eq!(ended.len(), 1);
    }

    #[test]
    fn an_answer_waits_neither_for_a_watch_that_is_lost_nor_long_for_one_that_is_slow() {
        let (mut node, ended) = changed(true);
        assert_eq!(ended, []);
        let lost = News::WatchLost(node.watch, None);
        assert_eq!(node.advance(3, [lost]).len(), 1);
        let (mut node, ended) = changed(true);
        assert_eq!(ended, []);
        assert_eq!(node.remote.next_ms(), Some(1_002));
        assert_eq!(node.advance(1_001, []), []);
        assert_eq!(node.advance(1_002, []).len(), 1);
    }
}
